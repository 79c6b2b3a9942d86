package sessiontest

import (
	"io"
	"slices"
	"strconv"
	"time"

	"weir/proxy/exchange"
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
	pool *upstream.Pool[*upstreamConn, *front]

	conns   []*upstreamConn // every connection alive
	dialing int
	refuses bool // connections
}

func (w *world) addTarget() {
	w.serial++
	t := &target{w: w, name: "target-" + itoa(w.serial) + ":80", pool: upstream.NewPool[*upstreamConn, *front](w.profile.conns, w.profile.streams, w.profile.waiters)}
	t.at = w.targets.Add(t)
}

// retire takes the target out of use.
func (t *target) retire() {
	t.w.targets.Retire(t.at)
	for _, u := range slices.Clone(t.pool.Retire()) {
		u.conn.close()
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
	took, why := t.w.within(30*time.Millisecond), exchange.FaultNone
	switch {
	case t.refuses && !t.w.quiet:
		why = exchange.FaultRefused
	case t.w.fault(t.w.profile.connects):
		took, why = connectTimeout, exchange.FaultConnectTime
	case t.w.fault(t.w.profile.connects):
		why = exchange.FaultConnect
	case t.w.fault(t.w.profile.connects / 4):
		why = exchange.FaultBusy // for want of descriptors
	}
	t.w.after(took, func() {
		t.dialing--
		if why != exchange.FaultNone {
			t.dialFailed(mark, why)
			return
		}
		t.dialled()
	})
}

func (t *target) dialled() {
	t.at.Connected(t.w.now)
	u := &upstreamConn{target: t, conn: t.w.newConn(false, nil)}
	u.conn.handler = u
	u.conn.peer = newService(t.w, u.conn)
	t.conns = append(t.conns, u)
	if w := t.pool.Dialled(u); w != nil {
		w.Value.serve(u, false)
		w.Value.apply()
		return
	}
	u.restOrLeave()
}

func (t *target) dialFailed(mark upstream.Mark, why exchange.Fault) {
	if why != exchange.FaultBusy {
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

// An upstreamConn is one connection to a target.
//
// Owned by its world.
type upstreamConn struct {
	target *target
	conn   *conn
	owner  *front
	ended  bool

	shown  int  // bytes of the exchange's answer that the session was shown
	fresh  bool // nothing was written for the exchange yet
	reused bool
}

// holder is whose exchange is on the connection.
func (u *upstreamConn) holder() *front {
	if f := u.owner; f != nil && f.upstream == u {
		return f
	}
	return nil
}

func (u *upstreamConn) data(b []byte) int {
	f := u.holder()
	if f == nil {
		u.conn.close()
		return len(b)
	}
	n := f.s.HandleUpstream(u.target.w.now, b)
	if n < len(b) {
		f.log.note(u.target.w.now, "of target's bytes taken", int64(n), "of "+itoa(len(b)))
	}
	if n > 0 || !f.conn.full {
		u.shown += len(b)
	}
	f.returns += n
	f.apply()
	return n
}

func (u *upstreamConn) end(unread int) {
	if f := u.holder(); f != nil && f.s.HandleUpstreamEnd(u.target.w.now, unread) {
		f.apply()
		return
	}
	u.ended = true
	u.conn.close()
}

func (u *upstreamConn) write(b []byte) {
	f := u.owner
	f.log.note(u.target.w.now, "to target", int64(len(b)), start(b))
	f.collects = 0
	full := u.conn.full
	u.conn.write(b)
	f.checkUnsent(u.conn, len(b))
	if !u.fresh {
		poison(b) // the first piece may be the request itself, kept to be sent again
	}
	u.fresh = false
	if !full && u.conn.full {
		u.target.w.tally.Full++
		f.s.HandleTargetFull(u.target.w.now, true)
	}
}

func (u *upstreamConn) writable() {
	f := u.holder()
	if f == nil {
		return
	}
	f.s.HandleTargetFull(u.target.w.now, false)
	f.apply()
}

func (u *upstreamConn) expired() {
	if u.holder() == nil {
		u.conn.close()
		return
	}
	u.rest()
}

func (u *upstreamConn) closed(err error) {
	t := u.target
	t.conns = slices.DeleteFunc(t.conns, func(other *upstreamConn) bool { return other == u })
	if t.pool.Lost(u) {
		t.dial()
	}
	if u.ended {
		err = io.EOF
	}
	if f := u.owner; f != nil {
		held := f.upstream == u
		u.owner, f.upstream, f.own, f.last = nil, nil, nil, u
		t.pool.EndStream(&f.wait)
		if held {
			f.s.HandleUpstreamClosed(t.w.now, err)
			f.apply()
		}
	}
	t.forget()
}

func (u *upstreamConn) free() {
	t := u.target
	if w := t.pool.Release(u); w != nil {
		w.Value.serve(u, true)
		w.Value.apply()
		return
	}
	u.restOrLeave()
}

// restOrLeave closes a connection that has no place in the pool any more.
func (u *upstreamConn) restOrLeave() {
	if u.target.pool.Leaving(u) {
		u.conn.close()
		return
	}
	u.rest()
}

func (u *upstreamConn) rest() { u.conn.setDeadline(u.target.w.now.Add(targetIdle)) }

func itoa(n int) string { return strconv.Itoa(n) }
