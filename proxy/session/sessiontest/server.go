package sessiontest

import (
	"io"
	"slices"
	"strconv"
	"time"

	"weir/proxy/session"
	"weir/proxy/upstream"
)

const (
	connectTimeout = time.Second
	targetIdle     = 30 * time.Second
)

// A target is one target as the proxy sees it, and how it is.
//
// Owned by its world.
type target struct {
	w    *world
	name string
	at   *upstream.Target[*target]
	pool *upstream.Pool[*server, *front]

	servers []*server // every connection alive
	dialing int
	refuses bool // connections
}

func (w *world) addTarget() {
	w.serial++
	t := &target{w: w, name: "target-" + itoa(w.serial) + ":80", pool: upstream.NewPool[*server, *front](w.profile.conns, w.profile.streams, w.profile.waiters)}
	t.at = w.targets.Add(t)
}

// retire takes the target out of use.
func (t *target) retire() {
	t.w.targets.Retire(t.at)
	for _, sv := range slices.Clone(t.pool.Retire()) {
		sv.conn.close()
	}
	t.forget()
}

func (t *target) forget() {
	if t.at.Status(t.w.now) == upstream.Draining && t.pool.Empty() {
		t.w.targets.Forget(t.at)
	}
}

// dial starts one connect.
func (t *target) dial() {
	mark := t.at.Mark()
	t.dialing++
	took, why := t.w.within(30*time.Millisecond), session.FaultNone
	switch {
	case t.refuses && !t.w.quiet:
		why = session.FaultRefused
	case t.w.fault(t.w.profile.connects):
		took, why = connectTimeout, session.FaultConnectTime
	case t.w.fault(t.w.profile.connects):
		why = session.FaultConnect
	case t.w.fault(t.w.profile.connects / 4):
		why = session.FaultBusy // for want of descriptors
	}
	t.w.after(took, func() {
		t.dialing--
		if why != session.FaultNone {
			t.dialFailed(mark, why)
			return
		}
		t.dialled()
	})
}

func (t *target) dialled() {
	t.at.Connected(t.w.now)
	sv := &server{target: t, conn: t.w.newConn(false, nil)}
	sv.conn.handler = sv
	sv.conn.peer = newService(t.w, sv.conn)
	t.servers = append(t.servers, sv)
	if w := t.pool.Dialled(sv); w != nil {
		w.Value.serve(sv, false)
		w.Value.apply()
		return
	}
	sv.restOrLeave()
}

func (t *target) dialFailed(mark upstream.Mark, why session.Fault) {
	if why != session.FaultBusy {
		t.at.ConnectFailed(t.w.now, mark)
	}
	w, again := t.pool.DialFailed()
	if again {
		t.dial()
	}
	if w != nil {
		f := w.Value
		f.log.note(t.w.now, "connect failed", int64(why), why.String())
		f.unavailable(why)
		f.apply()
	}
	t.forget()
}

// A server is one connection to a target.
//
// Owned by its world.
type server struct {
	target *target
	conn   *conn
	owner  *front
	ended  bool

	shown  int  // bytes of the exchange's answer that the session was shown
	fresh  bool // nothing was written for the exchange yet
	reused bool
}

// holder is whose exchange is on the connection.
func (sv *server) holder() *front {
	if f := sv.owner; f != nil && f.server == sv {
		return f
	}
	return nil
}

func (sv *server) data(b []byte) int {
	f := sv.holder()
	if f == nil {
		sv.conn.close()
		return len(b)
	}
	n := f.s.HandleUpstream(sv.target.w.now, b)
	if n < len(b) {
		f.log.note(sv.target.w.now, "of target's bytes taken", int64(n), "of "+itoa(len(b)))
	}
	if n > 0 || !f.conn.full {
		sv.shown += len(b)
	}
	f.returns += n
	f.apply()
	return n
}

func (sv *server) end(unread int) {
	if f := sv.holder(); f != nil && f.s.HandleUpstreamEnd(sv.target.w.now, unread) {
		f.apply()
		return
	}
	sv.ended = true
	sv.conn.close()
}

func (sv *server) write(b []byte) {
	f := sv.owner
	f.log.note(sv.target.w.now, "to target", int64(len(b)), start(b))
	f.collects = 0
	full := sv.conn.full
	sv.conn.write(b)
	f.checkUnsent(sv.conn, len(b))
	if !sv.fresh {
		poison(b) // the first piece may be the request itself, kept to be sent again
	}
	sv.fresh = false
	if !full && sv.conn.full {
		sv.target.w.tally.Full++
		f.s.HandleTargetFull(sv.target.w.now, true)
	}
}

func (sv *server) writable() {
	f := sv.holder()
	if f == nil {
		return
	}
	f.s.HandleTargetFull(sv.target.w.now, false)
	f.apply()
}

func (sv *server) expired() {
	if sv.holder() == nil {
		sv.conn.close()
		return
	}
	sv.rest()
}

func (sv *server) closed(err error) {
	t := sv.target
	t.servers = slices.DeleteFunc(t.servers, func(other *server) bool { return other == sv })
	if t.pool.Lost(sv) {
		t.dial()
	}
	if sv.ended {
		err = io.EOF
	}
	if f := sv.owner; f != nil {
		held := f.server == sv
		sv.owner, f.server, f.own, f.last = nil, nil, nil, sv
		t.pool.EndStream(&f.wait)
		if held {
			f.s.HandleUpstreamClosed(t.w.now, err)
			f.apply()
		}
	}
	t.forget()
}

func (sv *server) free() {
	t := sv.target
	if w := t.pool.Release(sv); w != nil {
		w.Value.serve(sv, true)
		w.Value.apply()
		return
	}
	sv.restOrLeave()
}

// restOrLeave closes a connection that has no place in the pool any more.
func (sv *server) restOrLeave() {
	if sv.target.pool.Leaving(sv) {
		sv.conn.close()
		return
	}
	sv.rest()
}

func (sv *server) rest() { sv.conn.setDeadline(sv.target.w.now.Add(targetIdle)) }

func itoa(n int) string { return strconv.Itoa(n) }
