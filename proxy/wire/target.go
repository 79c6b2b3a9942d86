package wire

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/loop"
	"weir/proxy/exchange"
	"weir/proxy/gate"
	"weir/proxy/gates"
	"weir/proxy/roster"
	"weir/proxy/upstream"
)

// A target is one target as one loop sees it.
//
// Owned by its loop; the numbers are atomic and read by whoever asks.
type target struct {
	side *side
	spec *roster.Target
	at   *upstream.Target[*target] // in the loop's group
	pool *upstream.Pool[*upstreamConn, *client]

	roster.View

	gate    *gates.Gate  // of all loops
	late    gates.Late   // answers that it was not told yet
	told    gate.Use     // what it was told that the loop has
	short   atomic.Int64 // of that, for others
	waiting int          // exchanges that were to go there, and wait for a place at any target
	serve   func(now time.Time)
	called  atomic.Bool // serve will be called

	since atomic.Int64 // when its numbers changed last, in microseconds, of steady; see spend
}

// inFlightOf is what targets are balanced by.
func inFlightOf(t *target) int { return t.pool.InFlight() }

// dial starts one connect. The pool has counted it.
func (t *target) dial() {
	mark := t.at.Mark()
	dialled := func(now time.Time, conn *loop.Conn, err error) loop.Handler { return t.dialled(now, mark, conn, err) }
	timeout := t.side.front.cfg.Session.ConnectTimeout
	if t.spec.Secure != nil {
		t.side.loop.DialSecure(t.spec.Addr, timeout, t.spec.Secure, dialled)
		return
	}
	t.side.loop.Dial(t.spec.Addr, timeout, dialled)
}

// dialled is told how a connect ended.
func (t *target) dialled(now time.Time, mark upstream.Mark, conn *loop.Conn, err error) loop.Handler {
	if err != nil {
		t.dialFailed(now, mark, err)
		return nil
	}
	t.Failed.Store(false)
	t.at.Connected(now)
	u := &upstreamConn{target: t, conn: conn, endBy: t.side.endOf(now)}
	if w := t.pool.Dialled(u); w != nil {
		w.Value.serve(now, u, false)
		w.Value.apply(now)
	} else if t.pool.Leaving(u) {
		conn.Close()
	} else {
		u.rest(now)
	}
	t.note(now)
	t.serveNext(now) // the target may have been away
	return u
}

// dialFailed tells who waited for the connection.
func (t *target) dialFailed(now time.Time, mark upstream.Mark, err error) {
	why := dialFault(err)
	if why != exchange.FaultBusy {
		t.Failed.Store(true)
		t.Fail(now, roster.Cause(err))
		t.at.ConnectFailed(now, mark)
	}
	w, again := t.pool.DialFailed()
	if again {
		t.dial()
	}
	if w != nil {
		w.Value.unavailable(now, why)
		w.Value.apply(now)
	}
	t.serveNext(now)
	t.note(now)
	t.forget()
}

func dialFault(err error) exchange.Fault {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return exchange.FaultRefused
	case errors.Is(err, loop.ErrDialsBusy), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return exchange.FaultBusy // our own overload
	case errors.As(err, &timeout) && timeout.Timeout():
		return exchange.FaultConnectTime
	}
	return exchange.FaultConnect
}

// answered tells how an exchange that was begun at mark has ended: with the target's
// status, or with the proxy's own because of a fault.
func (t *target) answered(now time.Time, mark upstream.Mark, status int, fault exchange.Fault) {
	before := t.at.Ejections()
	t.at.Answered(now, mark, status)
	if t.at.Ejections() != before {
		t.Fail(now, answerCause(status, fault))
	}
	publish(&t.Status, int64(t.at.Status(now)))
}

// note publishes the pool's numbers.
func (t *target) note(now time.Time) {
	t.spend(now)
	publish(&t.Idle, int64(t.pool.Idle()))
	publish(&t.Busy, int64(t.pool.Busy()))
	publish(&t.Connecting, int64(t.pool.Connecting()))
	publish(&t.InFlight, int64(t.pool.InFlight()+t.waiting))
	publish(&t.Streams, int64(t.pool.Streams()))
	publish(&t.short, int64(t.pool.Short()))
	if has := (gate.Use{Short: t.pool.Short(), Waiting: t.pool.Waiting(), Streams: t.pool.Streams()}); has != t.told {
		t.gate.Change(t.told, has)
		t.told = has
	}
	publish(&t.Status, int64(t.at.Status(now)))
	publish(&t.Ejections, int64(t.at.Ejections()))
}

// answerCause says why an answer speaks against the target.
func answerCause(status int, fault exchange.Fault) string {
	switch fault {
	case exchange.FaultNone:
		return roster.Answered(status)
	case exchange.FaultTimeout:
		return "no answer in time"
	case exchange.FaultClosed:
		return "the connection ended before the answer"
	case exchange.FaultGarbled:
		return "the answer is not HTTP as it should be"
	}
	return fault.String()
}

// publish stores n if it is news: most numbers stay as they are, and a load costs next to
// nothing.
func publish(v *atomic.Int64, n int64) {
	if v.Load() != n {
		v.Store(n)
	}
}

// retire takes the target out of use: what is under way on it goes on.
func (t *target) retire(now time.Time) {
	t.side.targets.Retire(t.at)
	for _, u := range t.pool.Retire() {
		u.conn.Close()
	}
	t.note(now)
	t.forget()
}

// forget drops a retired target when nothing is left on it.
func (t *target) forget() {
	if t.at.Status(t.side.loop.Now()) == upstream.Draining && t.pool.Empty() {
		t.side.targets.Forget(t.at)
	}
}

// An upstreamConn is one connection to a target.
//
// Owned by its loop.
type upstreamConn struct {
	target *target
	conn   *loop.Conn
	owner  *client   // whose exchange is on it, or whose own it is; nil: idle
	ended  bool      // the target has said that it sends no more
	endBy  time.Time // it is not used again from then on; zero: never
}

// holder is the client whose exchange is on the connection, or nil.
func (u *upstreamConn) holder() *client {
	if c := u.owner; c != nil && c.upstream == u {
		return c
	}
	return nil
}

// Data passes an answer's bytes on. Bytes on an idle connection belong to no
// exchange: it cannot be trusted any more.
func (u *upstreamConn) Data(now time.Time, b []byte) int {
	c := u.holder()
	if c == nil {
		u.conn.Close()
		return len(b)
	}
	n := c.s.HandleUpstream(now, b)
	c.apply(now)
	return n
}

// End: the target sends no more. That is the connection's end, but in a tunnel,
// and but for what waits until the client takes it.
func (u *upstreamConn) End(now time.Time, unread int) {
	if c := u.holder(); c != nil && c.s.HandleUpstreamEnd(now, unread) {
		c.apply(now)
		return
	}
	u.ended = true
	u.conn.Close()
}

// write sends to the target, and holds the client back when it does not take
// what comes.
func (u *upstreamConn) write(now time.Time, b []byte) {
	full := u.conn.Full()
	u.conn.Write(b)
	if !full && u.conn.Full() {
		u.owner.s.HandleTargetFull(now, true)
	}
}

// Writable has the client read on.
func (u *upstreamConn) Writable(now time.Time) {
	c := u.holder()
	if c == nil {
		return
	}
	c.s.HandleTargetFull(now, false)
	c.apply(now)
}

// Expired closes a connection that has been idle for long.
func (u *upstreamConn) Expired(now time.Time) {
	if u.holder() == nil {
		u.conn.Close()
		return
	}
	u.rest(now)
}

// Closed tells the session that waits for an answer, and the pool.
func (u *upstreamConn) Closed(now time.Time, err error) {
	t := u.target
	if t.pool.Lost(u) {
		t.dial()
	}
	defer t.serveNext(now)
	c := u.owner
	if c != nil {
		t.over(now, c)
	}
	t.note(now)
	if u.ended {
		err = io.EOF
	}
	if c != nil {
		held := c.upstream == u
		u.owner, c.upstream, c.own = nil, nil, nil
		if held {
			c.s.HandleUpstreamClosed(now, err)
			c.apply(now)
		}
	}
	t.forget()
}

// free gives the connection to who waits for it, or back to the pool.
func (u *upstreamConn) free(now time.Time) {
	t := u.target
	if u.old(now) {
		t.side.counts.Aged.Inc()
		u.conn.Close() // who waits gets a new one
		return
	}
	defer t.serveNext(now)
	w := t.pool.Release(u)
	if w != nil {
		w.Value.serve(now, u, true)
		w.Value.apply(now)
		return
	}
	if t.pool.Leaving(u) {
		u.conn.Close()
		return
	}
	u.rest(now)
	t.note(now)
}

// rest has the connection closed when it stays idle or is old. The deadline is
// moved, not cleared, while it is busy: that costs next to nothing.
func (u *upstreamConn) rest(now time.Time) {
	by := now.Add(u.target.side.front.cfg.TargetIdle)
	if !u.endBy.IsZero() && u.endBy.Before(by) && !u.old(now) {
		by = u.endBy
	}
	u.conn.SetDeadline(by)
}

// old reports whether the connection is not to be used again.
func (u *upstreamConn) old(now time.Time) bool { return !u.endBy.IsZero() && !now.Before(u.endBy) }

// endOf is when a connection made now is old. Up to a quarter of chance is taken
// off, so that connections that were made together do not end together.
func (s *side) endOf(now time.Time) time.Time {
	age := s.front.cfg.TargetAge
	if age <= 0 {
		return time.Time{}
	}
	return now.Add(age - rand.N(age/4+1))
}
