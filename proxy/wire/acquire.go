package wire

import (
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/targets/upstream"
)

// acquire gets a connection to a target, or cancels the wait for one. A request of which the client
// has not sent all needs no place at the target, which does not work on it yet, see complete. Calls of gRPC do, until
// their answers begin.
func (c *client) acquire(now time.Time, fx *exchange.Effects) {
	fresh := fx.Acquire == exchange.AcquireFresh
	switch fx.Acquire {
	case exchange.AcquireCancel:
		if c.at != nil {
			c.cancel(now)
		}
		c.postponed = false
		return
	case exchange.AcquireAny:
		c.tried, c.answer.Full, c.waited = upstream.TriedTargets{}, false, 0
		c.long, c.partial, c.paced = fx.Long, fx.Partial, fx.Partial
		c.shareConnections()
		c.chooseOwn(now)
	}
	if s, ok := c.peer.(*http2Stream); fresh || !ok || !s.of.postpone(now, s) {
		c.seek(now, fresh)
	}
}

// seek gets a connection to the target of the client's private connection, or else to a chosen one, or
// makes the exchange wait for a place. fresh means a new connection to the target that it had before.
func (c *client) seek(now time.Time, fresh bool) {
	if !fresh && c.own == nil && !c.choose(now) {
		return
	}
	t := c.at.Value
	t.begin()
	switch {
	case !fresh && t.refuses(c.sharesAs):
		c.unavailable(now, exchange.FaultBusy)
	case !fresh && !c.partial && !t.admits(now, c):
		c.await(now)
	default:
		c.enter(now, fresh)
	}
}

// enter requests a connection to the chosen target; fresh excludes reused ones. From then on the
// exchange has a place at the target.
func (c *client) enter(now time.Time, fresh bool) {
	t := c.at.Value
	if t.http2() && (t.spec.Secure == nil || len(t.lenders) > 0) && c.x.Upgrades() { // otherwise ALPN decides
		c.unavailable(now, exchange.FaultUpgrade)
		return
	}
	if c.long && !c.hold(t) {
		c.unavailable(now, exchange.FaultStreams)
		return
	}
	c.take(now, t)
	if u := c.own; u != nil {
		c.own = nil
		c.serve(now, u, false)
		return
	}
	u, grant := t.pool.Acquire(&c.wait, fresh)
	switch grant {
	case upstream.Ready:
		c.serve(now, u, true)
	case upstream.Wait:
		c.x.HandleWaits(now)
		t.note(now)
	case upstream.WaitAndDial:
		t.dial(now, c)
		t.note(now)
	case upstream.Full:
		c.unavailable(now, exchange.FaultBusy)
	}
}

// hold takes a place for an exchange that may hold its connection for long. It is a stream from the
// start if the client has not sent all of the request.
func (c *client) hold(t *target) bool {
	if c.partial {
		return t.pool.Stream(&c.wait)
	}
	return t.pool.Reserve(&c.wait)
}

// take records at the gate that the exchange is at the target, unless it is a stream.
func (c *client) take(now time.Time, t *target) {
	if t.gated() && !c.wait.Streams() {
		c.server.queue.Take(now, &c.wait, t.gate.Usual(c.likely()))
	}
}

// complete gets a place for a request of which only the last piece was not sent.
func (c *client) complete(now time.Time) {
	if t := c.upstream.target; !t.admits(now, c) {
		c.await(now)
		return
	}
	c.finish(now)
}

// finish sends the last piece of a request. From then on the exchange has a place at the target like
// any other, and the gate learns from its answer, unless that has begun before.
func (c *client) finish(now time.Time) {
	t := c.upstream.target
	so := c.x.OutcomeSoFar()
	c.partial, c.paced = false, !so.Answered.IsZero()
	t.pool.Reserve(&c.wait)
	c.take(now, t)
	t.note(now)
	t.admitted(c)
	c.x.HandleAdmitted(now)
}

// unavailable handles that the chosen target has no connection for the exchange.
func (c *client) unavailable(now time.Time, why exchange.FailureKind) {
	c.notice.gaveUp = c.at.Value.spec.Addr
	c.leave()
	c.x.HandleUnavailable(now, why)
}

// stream reports whether the answer on the held connection may be streamed.
func (c *client) stream(now time.Time) bool {
	t := c.upstream.target
	if !t.pool.Stream(&c.wait) {
		return false
	}
	if c.gateBy { // the target does not need the last piece to answer
		c.stopWaiting(now)
	}
	if !c.paced {
		c.paced = true
		o := c.x.OutcomeSoFar()
		c.partial = o.Complete.IsZero()
		t.learnt(now, c, &o)
	}
	c.server.queue.Give(now, &c.wait)
	t.note(now)
	t.freed()
	return true
}
