package wire

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/loop"
	"weir/proxy/session"
	"weir/proxy/upstream"
)

// A target is one target as one loop sees it.
//
// Owned by its loop.
type target struct {
	side *side
	addr string
	pool *upstream.Pool[*server, *client]

	open atomic.Int64 // connections, for who asks how the target is
	down atomic.Bool  // the last dial failed
}

// choose is the target for the next request.
func (s *side) choose() *target {
	return s.targets[s.chooser.Choose(len(s.targets), func(i int) int { return s.targets[i].pool.InFlight() })]
}

// other is a target that is not t, each in turn.
func (s *side) other(t *target) *target {
	for i, one := range s.targets {
		if one == t {
			return s.targets[(i+1)%len(s.targets)]
		}
	}
	return t
}

// dial starts one connect. The pool has counted it.
func (t *target) dial() {
	t.side.loop.Dial(t.addr, t.side.front.cfg.Session.ConnectTimeout, t.dialled)
}

// dialled is told how a connect ended.
func (t *target) dialled(now time.Time, conn *loop.Conn, err error) loop.Handler {
	t.down.Store(err != nil && dialFault(err) != session.FaultBusy)
	if err != nil {
		w, again := t.pool.DialFailed()
		if again {
			t.dial()
		}
		if w != nil {
			w.Value.s.HandleUnavailable(now, dialFault(err))
			w.Value.apply(now)
			w.Value.more()
		}
		t.note()
		return nil
	}
	sv := &server{target: t, conn: conn}
	if w := t.pool.Dialled(sv); w != nil {
		w.Value.serve(now, sv, false)
		w.Value.apply(now)
	} else {
		sv.rest(now)
	}
	t.note()
	return sv
}

func dialFault(err error) session.Fault {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return session.FaultRefused
	case errors.Is(err, loop.ErrDialsBusy), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return session.FaultBusy // our own overload
	case errors.As(err, &timeout) && timeout.Timeout():
		return session.FaultConnectTime
	}
	return session.FaultConnect
}

// note publishes the pool's numbers.
func (t *target) note() {
	c := t.side.counts
	t.open.Store(int64(t.pool.Open()))
	var idle, busy, connecting int
	for _, t := range t.side.targets {
		idle += t.pool.Idle()
		busy += t.pool.Busy()
		connecting += t.pool.Connecting()
	}
	c.idle.Store(int64(idle))
	c.busy.Store(int64(busy))
	c.connecting.Store(int64(connecting))
}

// A server is one connection to a target.
//
// Owned by its loop.
type server struct {
	target *target
	conn   *loop.Conn
	owner  *client // whose exchange is on it; nil: idle
}

// Data passes an answer's bytes on. Bytes on an idle connection belong to no
// exchange: it cannot be trusted any more.
func (sv *server) Data(now time.Time, b []byte) int {
	c := sv.owner
	if c == nil {
		sv.conn.Close()
		return len(b)
	}
	n := c.s.HandleUpstream(now, b)
	c.apply(now)
	c.more()
	return n
}

// Expired closes a connection that has been idle for long.
func (sv *server) Expired(now time.Time) {
	if sv.owner == nil {
		sv.conn.Close()
		return
	}
	sv.rest(now)
}

// Closed tells the session that waits for an answer, and the pool.
func (sv *server) Closed(now time.Time, err error) {
	t := sv.target
	if t.pool.Lost(sv) {
		t.dial()
	}
	t.note()
	if c := sv.owner; c != nil {
		sv.owner, c.server = nil, nil
		c.s.HandleUpstreamClosed(now, err)
		c.apply(now)
		c.more()
	}
}

// free gives the connection to who waits for it, or back to the pool.
func (sv *server) free(now time.Time) {
	t := sv.target
	w := t.pool.Release(sv)
	if w == nil {
		sv.rest(now)
		t.note()
		return
	}
	w.Value.serve(now, sv, true)
	w.Value.apply(now)
}

// rest has the connection closed when it stays idle. The deadline is moved, not
// cleared, while it is busy: that costs next to nothing.
func (sv *server) rest(now time.Time) {
	sv.conn.SetDeadline(now.Add(sv.target.side.front.cfg.TargetIdle))
}
