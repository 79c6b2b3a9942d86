package sessiontest

import (
	"io"
	"slices"
	"strconv"
	"time"

	"weir/internal/loop/looptest"
	"weir/proxy/exchange"
	"weir/proxy/upstream"
)

const (
	connectTimeout = time.Second
	targetIdle     = 30 * time.Second
)

// A target is one target, with its pool and its connections.
//
// Owned by its world.
type target struct {
	w    *world
	name string
	at   *upstream.Target[*target]
	pool *upstream.Pool[*upstreamConn, *front]

	conns   []*upstreamConn // all open connections
	dialing int
	refuses bool // it refuses connections
}

func (w *world) addTarget() {
	t := &target{w: w, name: "target-" + itoa(w.Serial()) + ":80", pool: upstream.NewPool[*upstreamConn, *front](w.profile.conns, w.profile.streams, w.profile.waiters)}
	t.at = w.targets.Add(t)
}

// retire stops using the target.
func (t *target) retire() {
	t.w.targets.Retire(t.at)
	t.w.retired = append(t.w.retired, t.at)
	for _, u := range slices.Clone(t.pool.Retire()) {
		u.conn.Close()
	}
}

// dial connects, which may fail.
func (t *target) dial() {
	mark := t.at.Mark()
	t.dialing++
	took, why := t.w.Within(30*time.Millisecond), exchange.FaultNone
	switch {
	case t.refuses && !t.w.quiet:
		why = exchange.FaultRefused
	case t.w.fault(t.w.profile.connects):
		took, why = connectTimeout, exchange.FaultConnectTime
	case t.w.fault(t.w.profile.connects):
		why = exchange.FaultConnect
	case t.w.fault(t.w.profile.connects / 4):
		why = exchange.FaultBusy // no descriptors are left
	}
	t.w.After(took, func() {
		t.dialing--
		if why != exchange.FaultNone {
			t.dialFailed(mark, why)
			return
		}
		t.dialled()
	})
}

func (t *target) dialled() {
	t.at.Connected(t.w.Now)
	u := &upstreamConn{target: t, conn: t.w.NewConn(false, nil)}
	u.conn.Handler = u
	u.conn.Peer = newService(t.w, u.conn)
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
		t.at.ConnectFailed(t.w.Now, mark)
	}
	w, again := t.pool.DialFailed()
	if again {
		t.dial()
	}
	if w != nil {
		f := w.Value
		f.log.Note(t.w.Now, "connect failed", int64(why), why.String())
		f.unavailable(why)
		f.apply()
	}
}

// An upstreamConn is one connection to a target.
//
// Owned by its world.
type upstreamConn struct {
	target *target
	conn   *looptest.Conn
	owner  *front
	ended  bool

	shown  int  // bytes of the answer that were passed to the session
	fresh  bool // nothing was written for the exchange yet
	reused bool
}

// holder returns the front whose exchange uses the connection, or nil.
func (u *upstreamConn) holder() *front {
	if f := u.owner; f != nil && f.upstream == u {
		return f
	}
	return nil
}

func (u *upstreamConn) Data(b []byte) int {
	f := u.holder()
	if f == nil {
		u.conn.Close()
		return len(b)
	}
	n := f.s.HandleUpstream(u.target.w.Now, b)
	if n < len(b) {
		f.log.Note(u.target.w.Now, "of target's bytes taken", int64(n), "of "+itoa(len(b)))
	}
	if n > 0 || !f.conn.Full() {
		u.shown += len(b)
	}
	f.returns += n
	f.apply()
	return n
}

func (u *upstreamConn) End(unread int) {
	if f := u.holder(); f != nil && f.s.HandleUpstreamEnd(u.target.w.Now, unread) {
		f.apply()
		return
	}
	u.ended = true
	u.conn.Close()
}

func (u *upstreamConn) write(b []byte) {
	f := u.owner
	f.log.Note(u.target.w.Now, "to target", int64(len(b)), start(b))
	f.collects = 0
	full := u.conn.Full()
	u.conn.Write(b)
	f.checkUnsent(u.conn, len(b))
	if !u.fresh {
		looptest.Poison(b) // the first piece may be the request itself, kept to be sent again
	}
	u.fresh = false
	if !full && u.conn.Full() {
		u.target.w.saw("sides that took nothing")
		f.s.HandleTargetFull(u.target.w.Now, true)
	}
}

func (u *upstreamConn) Writable() {
	f := u.holder()
	if f == nil {
		return
	}
	f.s.HandleTargetFull(u.target.w.Now, false)
	f.apply()
}

func (u *upstreamConn) Expired() {
	if u.holder() == nil {
		u.conn.Close()
		return
	}
	u.rest()
}

func (u *upstreamConn) Closed(err error) {
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
			f.s.HandleUpstreamClosed(t.w.Now, err)
			f.apply()
		}
	}
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

// restOrLeave keeps the connection idle, or closes it if the pool has no place for it.
func (u *upstreamConn) restOrLeave() {
	if u.target.pool.Leaving(u) {
		u.conn.Close()
		return
	}
	u.rest()
}

func (u *upstreamConn) rest() { u.conn.SetDeadline(u.target.w.Now.Add(targetIdle)) }

func itoa(n int) string { return strconv.Itoa(n) }
