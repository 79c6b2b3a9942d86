package wire

import (
	"sync/atomic"
	"time"

	"weir/internal/share"
	"weir/proxy/abandon"
	"weir/proxy/exchange"
	"weir/proxy/gate"
	"weir/proxy/upstream"
)

// A target goes on working on a request whose client has disconnected. If such a request gave up its
// place, clients that send requests and disconnect could give the target any amount of work, while
// its gate counts none. So its connection stays busy until the answer has come, and its place taken
// as well, unless the request is a long one.

const (
	// abandonedPart bounds how many connections clients leave behind: 1/abandonedPart of a loop's
	// connections to a target.
	abandonedPart = 2
	// abandonedLong is after how many median answer times an abandoned request is a long one. It
	// then has a place for streams, so that others are not shed for it.
	abandonedLong = 10
)

// An abandoned is an exchange whose client has disconnected. It keeps neither the client nor its
// session in memory.
type abandoned struct {
	abandon.Exchange
	wait   upstream.Waiter[*client] // has the place at the target
	client share.Client
	shared bool        // the connection counts in the share of the client
	longAt time.Time   // when the request is a long one
	learns bool        // the gate learns from the answer
	answer gate.Answer // see client, like route
	route  uint16
}

// An abandonedBy counts the abandoned exchanges at a target.
//
// Owned by its loop; all may be read by others.
type abandonedBy struct {
	share share.Held // connections by client, within the bound
	all   atomic.Int64
}

// abandon makes u read the answer to a request of c that nobody waits for. left is what is left of
// the exchange.
//
// One client leaves behind at most a half of the connections that all may. Beyond that a connection
// is closed when the request is a long one; without a gate, which knows when that is, at once.
func (u *upstreamConn) abandon(now time.Time, c *client, left *abandon.Exchange) {
	t := u.target
	a := &abandoned{Exchange: *left, client: share.Of(left.Client), answer: c.answer, route: c.route}
	a.learns = left.Status == 0 && !c.paced
	t.side.line.Hand(&c.wait, &a.wait)
	u.abandoned, u.timed = a, false
	t.left.all.Add(1)
	t.side.counts.Abandoned.Inc()
	a.longAt = a.By
	if t.gated() {
		if by := a.Sent.Add(abandonedLong * t.gate.Look().Median); by.After(a.Sent) && by.Before(a.By) {
			a.longAt = by
		}
	}
	if a.shared = t.left.share.Admits(a.client, 1, int64(max(1, t.side.connsPerTarget/abandonedPart))); a.shared {
		t.left.share.Add(a.client, 1)
	} else {
		t.side.counts.AbandonedBeyond.Inc()
		if !t.gated() {
			u.conn.Close()
			return
		}
	}
	u.abandonedLate(now)
}

// drop reads bytes of an answer that nobody waits for.
func (u *upstreamConn) drop(now time.Time, b []byte) int {
	a := u.abandoned
	n, end := a.HandleUpstream(b, &u.target.side.head)
	if a.Status != 0 {
		u.learn(now, exchange.FaultNone)
	}
	switch end {
	case abandon.EndKeep:
		u.forget(now)
		u.free(now)
	case abandon.EndClose:
		u.conn.Close()
	}
	return n
}

// learn tells the gate when the answer has begun, or that it has not come in time. That does not
// depend on whether the client has waited for it.
func (u *upstreamConn) learn(now time.Time, why exchange.Fault) {
	if a := u.abandoned; a.learns {
		a.learns = false
		o := exchange.Outcome{Method: a.Method, Status: a.Status, Complete: a.Sent, Fault: why}
		if why == exchange.FaultNone {
			o.Answered = now
		}
		u.target.learns(now, &a.answer, a.route, &o)
	}
}

// abandonedLate sets the next deadline of an abandoned exchange, and acts on one that has passed. As
// for a client that waits, the connection is closed when no answer has come in time: that is the
// only way to tell the target to stop.
func (u *upstreamConn) abandonedLate(now time.Time) {
	a, t := u.abandoned, u.target
	switch {
	case now.Before(a.longAt):
		u.conn.SetDeadline(a.longAt)
	case !now.Before(a.By):
		t.side.counts.AbandonedLate.Inc()
		u.learn(now, exchange.FaultTimeout)
		u.conn.Close()
	case a.shared && t.pool.Stream(&a.wait):
		t.side.line.Lengthen(&a.wait)
		t.freed()
		u.conn.SetDeadline(a.By)
	default:
		u.conn.Close()
	}
	t.note(now)
}

// forget gives back the place of the abandoned exchange on u, if there is one.
func (u *upstreamConn) forget(now time.Time) {
	a := u.abandoned
	if a == nil {
		return
	}
	t := u.target
	u.abandoned = nil
	t.over(now, &a.wait)
	t.left.all.Add(-1)
	if a.shared {
		t.left.share.Add(a.client, -1)
	}
}
