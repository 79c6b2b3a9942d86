package wire

import (
	"net/netip"
	"sync/atomic"
	"time"

	"weir/internal/net/share"
	"weir/proxy/http/exchange"
	"weir/proxy/http/mux"
	"weir/proxy/http/session"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/upstream"
)

// A target goes on working on a request whose client has disconnected. If such a request gave up its
// place, clients that send requests and disconnect could give the target any amount of work, while
// its gate counts none. So its connection stays busy, and its place taken, until the answer has come.
// If that takes long, it is treated like any other request that takes long, see lengthen.

// abandonedPart bounds how many connections clients leave behind: 1/abandonedPart of a loop's
// connections to a target.
const abandonedPart = 2

// An abandoned is an exchange whose client has disconnected. It keeps neither the client nor its
// session in memory.
type abandoned struct {
	exchange.AbandonedExchange
	wait   upstream.Waiter[occupant] // has the place at the target
	client share.Client
	of     *mux.Conn     // of the stream that has ended, if it was one of HTTP/2
	beyond bool          // beyond the share of the client
	learns bool          // the gate learns from the answer
	answer gate.Response // see client, like route
	route  uint16
}

// An abandonedBy counts the abandoned exchanges at a target.
//
// Owned by its loop; all may be read by others.
type abandonedBy struct {
	share  share.Usage // connections by client,
	beyond share.Usage // and those beyond its share, which count for it alone
	all    atomic.Int64
}

// abandon makes u read the answer to a request of c that nobody waits for. left is what is left of
// the exchange. Beyond the share of its client, and where no gate limits requests, the connection is closed.
func (u *upstreamConn) abandon(now time.Time, c *client, left *exchange.AbandonedExchange) {
	a := u.keepPlace(now, c, left)
	u.conn.SetDeadline(a.By)
	if a.beyond && u.target.server.shared.cfg.Gate.Mode != gate.On {
		u.conn.Close()
	}
	u.target.note(now)
}

// keepPlace makes u keep the place of a request of c.
//
// One client leaves behind at most a half of the connections that all may. Beyond that its new
// requests are refused: the target goes on working when the connection is closed, but its gate would
// not know.
func (u *upstreamConn) keepPlace(now time.Time, c *client, left *exchange.AbandonedExchange) *abandoned {
	t := u.target
	a := &abandoned{AbandonedExchange: *left, client: share.ClientOf(left.Client), answer: c.answer, route: c.route}
	a.learns = left.Status == 0 && !c.paced
	if s, ok := c.peer.(*http2Stream); ok {
		a.of = s.of.m
		a.of.Works(1)
	}
	t.server.queue.Hand(&c.wait, &a.wait)
	a.wait.Value.abandoned = u
	u.abandoned, u.timed = a, false
	a.beyond = !t.left.share.Admits(a.client, 1, t.abandonedMax())
	t.left.add(a, 1)
	t.server.counts.Abandoned.Inc()
	if a.beyond {
		t.server.counts.AbandonedBeyond.Inc()
	}
	return a
}

// cancel resets the stream of a request of c that nobody waits for. The target may work on regardless, and does not
// tell. So the place is kept as worksBy says. cancel returns false, and does nothing, if that time has passed, or if
// no gate limits requests.
func (u *upstreamConn) cancel(now time.Time, c *client, left *exchange.AbandonedExchange) bool {
	t, s := u.target, u.target.server
	if left.Sent.IsZero() { // it may have got a message just now
		left.Sent, left.By = now, now.Add(s.shared.cfg.Session.TargetTimeout)
	}
	by := t.worksBy(now, left, c.route)
	if s.shared.cfg.Gate.Mode != gate.On || !now.Before(by) {
		return false
	}
	u.owner = nil
	u.keepPlace(now, c, left).learns = false
	if u.works == nil {
		u.works = s.loop.NewAlarm(u.worked)
	}
	u.works.Set(by)
	h := u.endStream()
	t.lendOwed(now)
	h.rest(now)
	t.note(now)
	return true
}

// worksLook is the interval at which worksBy is called again while the usual time is unknown.
const worksLook = time.Second

// worksBy returns until when a target is likely to work on a request that was cancelled: for twice as long as such
// requests usually take, but not after the answer would be overdue. While that is not known, it is when to look again.
func (t *target) worksBy(now time.Time, left *exchange.AbandonedExchange, route uint16) time.Time {
	by := now.Add(worksLook)
	if usual := t.gate.Usual(t.server.routes.Likely(route, left.Method)); usual > 0 {
		by = left.Sent.Add(2 * usual)
	}
	if left.By.Before(by) {
		by = left.By
	}
	return by
}

// worked gives the place of a cancelled request back, unless its target still works on it.
func (u *upstreamConn) worked(now time.Time) {
	t, a := u.target, u.abandoned
	if by := t.worksBy(now, &a.AbandonedExchange, a.route); now.Before(by) {
		u.works.Set(by)
		return
	}
	u.forget(now)
	u.vacate(now)
	t.note(now)
	t.serveNext(now)
}

// add counts n more abandoned exchanges like a.
func (l *abandonedBy) add(a *abandoned, n int64) {
	l.all.Add(n)
	if a.beyond {
		l.beyond.Add(a.client, n)
		return
	}
	l.share.Add(a.client, n)
}

// abandonedMax returns how many connections all clients may leave behind.
func (t *target) abandonedMax() int64 { return int64(max(1, t.server.connsPerTarget/abandonedPart)) }

// refuses reports whether a client has left so many connections behind that it may send no further
// requests: some beyond its share, or as many as it may leave while others leave none. What others
// leave does not matter, or a client could be refused for what another one does.
func (t *target) refuses(by netip.Addr) bool {
	l := &t.left
	if l.share.Total()+l.beyond.Total() == 0 || t.server.shared.cfg.Gate.Mode != gate.On {
		return false
	}
	client := share.ClientOf(by)
	has := l.share.Of(client)
	return l.beyond.Of(client) > 0 || has > 0 && 2*(has+1) > t.abandonedMax()
}

// drop reads bytes of an answer that nobody waits for.
func (u *upstreamConn) drop(now time.Time, b []byte) int {
	a := u.abandoned
	n, end := u.http.HandleAbandoned(&a.AbandonedExchange, b)
	if a.Status != 0 {
		u.learn(now, exchange.FaultNone)
	}
	switch end {
	case session.AbandonedKeep:
		u.forget(now)
		u.free(now, nil)
	case session.AbandonedClose:
		u.conn.Close()
	}
	return n
}

// learn tells the gate when the answer has begun, or that it has not come in time. That does not
// depend on whether the client has waited for it.
func (u *upstreamConn) learn(now time.Time, why exchange.FailureKind) {
	if a := u.abandoned; a.learns {
		if a.learns = false; u.target.server.tookLong(now, &a.wait, a.Sent, now) {
			return
		}
		o := exchange.Outcome{Method: a.Method, Status: a.Status, Complete: a.Sent, Fault: why}
		if why == exchange.FaultNone {
			o.Answered = now
		}
		u.target.learns(now, &a.answer, a.route, &o)
	}
}

// abandonedLate ends an abandoned exchange to which no answer has come in time. As for a client that
// waits, the connection is closed: that is the only way to tell the target to stop.
func (u *upstreamConn) abandonedLate(now time.Time) {
	if by := u.abandoned.By; now.Before(by) {
		u.conn.SetDeadline(by)
		return
	}
	u.target.server.counts.AbandonedLate.Inc()
	u.learn(now, exchange.FaultTimeout)
	u.conn.Close()
	u.target.note(now)
}

// forget gives back the place of the abandoned exchange on u, if there is one.
func (u *upstreamConn) forget(now time.Time) {
	a := u.abandoned
	if a == nil {
		return
	}
	t := u.target
	u.abandoned = nil
	if a.of != nil {
		a.of.Works(-1)
	}
	t.over(now, &a.wait)
	t.left.add(a, -1)
}
