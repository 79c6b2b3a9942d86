package wire

import (
	"net/http"
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/targets/gate"
)

// release handles that the session no longer needs its connection. A connection that is being
// closed stays in the pool's count until it has closed. left is what ReleaseAbandon leaves of the
// exchange.
func (c *client) release(now time.Time, how exchange.ConnRelease, left *exchange.AbandonedExchange) {
	u := c.upstream
	if u == nil {
		return
	}
	c.upstream = nil
	if c.gateBy {
		c.stopWaiting(now)
	}
	if u.of != nil { // the client's next request needs no stream of its own
		if how == exchange.ReleaseAbandon && u.cancel(now, c, left) {
			return
		}
		u.target.over(now, &c.wait)
		u.giveBack(now)
		return
	}
	if how == exchange.ReleasePrivate {
		c.keep(now, u)
		return
	}
	if how == exchange.ReleaseDrained {
		u.conn.CloseDrained() // until then it keeps its place
		return
	}
	u.owner = nil
	if how == exchange.ReleaseAbandon && u.conn.Unsent() == 0 && !left.Sent.IsZero() {
		u.abandon(now, c, left)
		return
	}
	u.target.over(now, &c.wait)
	// If the target has not got the whole request, or has answered without reading it, it would take the
	// start of the next request for the rest.
	if how != exchange.ReleaseKeep || u.conn.Unsent() > 0 {
		u.conn.Close()
		return
	}
	u.free(now, &c.wait)
}

// leave leaves the target without a verdict about its health.
func (c *client) leave() {
	if c.at != nil {
		if c.upstream == nil && c.own == nil {
			now := c.server.loop.Now()
			c.at.Value.over(now, &c.wait)
			c.at.Value.note(now)
		}
		c.at.Abandoned(c.mark)
		c.at = nil
	}
}

// learn records the outcome of a finished exchange for its target.
func (c *client) learn(now time.Time, o *exchange.Outcome) {
	if c.at == nil {
		return
	}
	switch {
	case c.gateBy && c.partial: // the target has all but the last piece, so the outcome is its own
		c.stopWaiting(now)
	case c.gateBy || c.wait.Waiting():
		c.cancel(now)
		return
	}
	if o.Status == http.StatusSwitchingProtocols && c.upstream != nil {
		c.paced = true // its client decides how long the tunnel lasts
		c.stream(now)
	}
	if !c.paced && !c.server.tookLong(now, &c.wait, o.Complete, o.Answered) {
		c.at.Value.learnt(now, c, o)
	}
	if o.Garbled != nil {
		c.at.Value.noteGarbled(o.Garbled)
	}
	status := o.Status
	switch {
	case o.Sent.IsZero() || o.Fault == exchange.FaultUnstreamed || o.Fault == exchange.FaultShed,
		// the target is not to blame
		o.Fault == exchange.FaultNone && (!o.Relayed || o.Status == 0): // it has not answered
		c.leave()
		return
	case o.Fault == exchange.FaultTimeout:
		status = http.StatusGatewayTimeout
	case o.Fault != exchange.FaultNone:
		status = http.StatusBadGateway
	case c.at.Value.server.shared.cfg.Gate.Mode == gate.On:
		status = c.at.Value.gate.Severity(status)
	}
	c.at.Value.answered(now, c.mark, status, o.Fault)
	c.at = nil
}
