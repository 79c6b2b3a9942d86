package wire

import (
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/http/mux"
	"weir/proxy/http/session"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// A target is one loop's view of a target.
//
// Owned by its loop; the numbers are atomic and may be read by others.
type target struct {
	server *loopServer
	spec   *roster.Target
	at     *upstream.Target[*target] // entry in the loop's group
	dials
	pool *upstream.Pool[*upstreamConn, occupant]

	roster.LoopView

	gate     *gates.Gate            // shared by all loops
	late     gates.PendingResponses // answers not yet reported to the gate
	reported gate.LoopUse           // the loop's use as last reported to the gate
	part     int                    // the loop's places of the gate's limit
	partOf   int                    // the gate's limit from which part was computed
	waiting  int                    // exchanges that chose this target and wait for a place
	bound    []*client              // those of them that have a connection to it, in the order of arrival
	left     abandonedBy            // requests at the target whose clients have disconnected
	serve    func(now time.Time)
	called   atomic.Bool // serve is scheduled

	garbled atomic.Pointer[error] // what was wrong with an answer since housekeeping looked, or nil

	lending  atomic.Int64 // number of connections of HTTP/2
	lent     atomic.Int64 // number of requests on them
	declined atomic.Bool  // the target has chosen HTTP/1.1 instead of HTTP/2

	since atomic.Int64 // time of the last change of the numbers, see micros; 0: never
}

// inFlightOf returns the load by which targets are balanced.
func inFlightOf(t *target) int { return t.pool.InFlight() }

// answered reports the end of an exchange begun at mark to the target's health: with the
// target's status, or with the proxy's own status because of a fault.
func (t *target) answered(now time.Time, mark upstream.HealthEpoch, status int, fault exchange.FailureKind) {
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
	has := gate.LoopUse{Short: t.pool.Short(), Waiting: t.pool.Waiting(), Streams: t.pool.Streams()}
	publish(&t.Usable, int64(t.pool.Usable()))
	publish(&t.Busy, int64(t.pool.Busy()))
	publish(&t.Connecting, int64(t.pool.Connecting()))
	publish(&t.Waiting, int64(has.Waiting))
	publish(&t.Streams, int64(has.Streams))
	publish(&t.Held, int64(t.waiting))
	if has != t.reported {
		t.gate.Change(t.reported, has)
		t.reported = has
	}
	publish(&t.Status, int64(t.at.Status(now)))
	publish(&t.Ejections, int64(t.at.Ejections()))
}

// answerCause returns why an answer counts against the target.
func answerCause(status int, fault exchange.FailureKind) string {
	switch fault {
	case exchange.FaultNone:
		return roster.StatusCause(status)
	case exchange.FaultTimeout:
		return "no answer in time"
	case exchange.FaultClosed:
		return "the connection closed before the answer"
	case exchange.FaultGarbled:
		return "the answer is not valid HTTP"
	}
	return fault.String()
}

// publish stores n if it has changed. Most numbers do not change, and a load costs next
// to nothing.
func publish(v *atomic.Int64, n int64) {
	if v.Load() != n {
		v.Store(n)
	}
}

// retire stops using the target. Exchanges in flight continue.
func (t *target) retire(now time.Time) {
	t.server.targets.Retire(t.at)
	for _, u := range t.pool.Retire() {
		u.conn.Close()
	}
	for _, h := range slices.Clone(t.lenders) {
		h.retire()
	}
	t.note(now)
}

// An upstreamConn carries one exchange at a time to a target: a connection of HTTP/1.1, or a stream of one
// of HTTP/2.
//
// Owned by its loop.
type upstreamConn struct {
	target *target
	conn   *loop.Conn // with HTTP/1.1
	http   session.Upstream
	of     *lender // with HTTP/2, like stream; else nil
	stream mux.UpstreamStream
	owner  *client   // client whose exchange it carries, or to whom it is private; nil: idle or abandoned
	ended  bool      // the target has closed its sending side
	endBy  time.Time // not reused from then on; zero means never
	rested time.Time // when it became idle, now or the last time
	timed  bool      // its deadline is set

	abandoned *abandoned  // what is left of an exchange whose client has disconnected, or nil
	works     *loop.Alarm // rings when the target is likely to have stopped working on one that was cancelled
}

// holder returns the client whose exchange is on the connection, or nil.
func (u *upstreamConn) holder() *client {
	if c := u.owner; c != nil && c.upstream == u {
		return c
	}
	return nil
}

// Data passes an answer's bytes on. Bytes on an idle connection belong to no exchange, so
// it is closed.
func (u *upstreamConn) Data(now time.Time, b []byte) int {
	c := u.holder()
	switch {
	case u.abandoned != nil:
		return u.drop(now, b)
	case c == nil:
		u.conn.Close()
		return len(b)
	}
	n := c.carrier.HandleUpstream(now, &u.http, b)
	c.apply(now)
	if n < len(b) && c.x.HTTP2 && c.x.Holds() { // a client may have many such streams
		u.conn.SetHeld(true)
	}
	return n
}

// End handles that the target sends no more. The connection is closed, except in a tunnel
// and while the client still has to read the answer.
func (u *upstreamConn) End(now time.Time, unread int) {
	if c := u.holder(); c != nil && c.carrier.HandleUpstreamEnd(now, unread) {
		c.apply(now)
		return
	}
	u.ended = true
	u.conn.Close()
}

// send sends a part of a request to the target. It reports whether the exchange has effects because of that.
func (u *upstreamConn) send(now time.Time, fx *exchange.Effects) (more bool) {
	if u.of != nil {
		return u.of.send(now, u, fx)
	}
	s := u.target.server
	s.up = u.http.Append(s.up[:0], fx, u.target.spec.Host)
	u.write(now, s.up)
	return false
}

// pump passes on what is unread of an answer, after the current call.
func (u *upstreamConn) pump() {
	if u.of != nil {
		u.of.pump()
		return
	}
	u.conn.SetHeld(false)
	u.conn.Pump()
}

// bytes returns the size of the buffers of the connection, or of the stream.
func (u *upstreamConn) bytes() int64 {
	if u.of != nil {
		return u.stream.Memory()
	}
	return u.conn.Buffered()
}

// write sends to the target, and pauses reading from the client when the target does not
// keep up.
func (u *upstreamConn) write(now time.Time, b []byte) {
	full := u.conn.Full()
	u.conn.Write(b)
	if !full && u.conn.Full() {
		u.owner.carrier.HandleTargetFull(now, true)
	}
}

// Writable resumes reading from the client.
func (u *upstreamConn) Writable(now time.Time) {
	c := u.holder()
	if c == nil {
		return
	}
	c.carrier.HandleTargetFull(now, false)
	c.apply(now)
}

// Expired closes a connection that has been idle too long.
func (u *upstreamConn) Expired(now time.Time) {
	switch {
	case u.abandoned != nil:
		u.abandonedLate(now)
	case u.holder() != nil:
		u.expire(now, now)
	case !u.old(now) && now.Before(u.rested.Add(u.target.server.shared.cfg.TargetIdle)):
		u.expire(now, u.rested)
	default:
		u.conn.Close()
	}
}

// Closed reports the end of the connection to the session that waits for an answer, and to the pool.
func (u *upstreamConn) Closed(now time.Time, err error) {
	t := u.target
	if t.pool.Lost(u) {
		t.dial(now, nil)
	}
	defer t.serveNext(now)
	c := u.owner
	if c != nil {
		t.over(now, &c.wait)
	}
	u.forget(now)
	t.note(now)
	if u.ended {
		err = io.EOF
	}
	if c != nil {
		held := c.upstream == u
		u.owner, c.upstream, c.own = nil, nil, nil
		switch {
		case held:
			c.carrier.HandleUpstreamClosed(now, &u.http, err)
			c.apply(now)
		case c.gateBy:
			c.unbind(now)
		}
	}
}

// free passes the connection, which by had or nobody, to a waiter or returns it to the pool.
func (u *upstreamConn) free(now time.Time, by *upstream.Waiter[occupant]) {
	t := u.target
	if u.old(now) {
		t.server.counts.Aged.Inc()
		u.conn.Close() // the waiter gets a new one
		return
	}
	u.pass(now, t.pool.Release(u, by), true)
	t.serveNext(now)
}

// pass serves the waiter that the pool has chosen for the connection. Without one, the connection
// becomes idle, or is closed if the pool has no room for it.
func (u *upstreamConn) pass(now time.Time, w *upstream.Waiter[occupant], reused bool) {
	switch {
	case w != nil:
		w.Value.serve(now, u, reused)
		w.Value.apply(now)
	case u.target.pool.Leaving(u):
		u.conn.Close()
	default:
		u.rest(now)
		u.target.note(now)
	}
}

// rest records that the connection is idle from now on. A deadline that is set is not changed,
// because it is early enough: Expired checks how long the connection has been idle.
func (u *upstreamConn) rest(now time.Time) {
	u.rested = now
	if !u.timed {
		u.timed = true
		u.expire(now, now)
	}
}

// expire sets the deadline that closes an old connection, or one that is idle since from.
func (u *upstreamConn) expire(now, from time.Time) {
	by := from.Add(u.target.server.shared.cfg.TargetIdle)
	if !u.endBy.IsZero() && u.endBy.Before(by) && !u.old(now) {
		by = u.endBy
	}
	u.conn.SetDeadline(by)
}

// old reports whether the connection must not be reused.
func (u *upstreamConn) old(now time.Time) bool { return !u.endBy.IsZero() && !now.Before(u.endBy) }

// endOf returns when a connection made now becomes old. Up to a quarter is subtracted at
// random, so that connections made together do not end together.
func (s *loopServer) endOf(now time.Time) time.Time {
	age := s.shared.cfg.TargetAge
	if age <= 0 {
		return time.Time{}
	}
	return now.Add(age - rand.N(age/4+1))
}
