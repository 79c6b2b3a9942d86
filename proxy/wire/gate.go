package wire

import (
	"net/http"
	"time"

	"weir/proxy/gate"
	"weir/proxy/session"
)

// Gating says how targets are protected from more requests at a time than they can
// take.
type Gating struct {
	Mode     gate.Mode
	Wait     time.Duration // longest wait for a place at a target; 0: none
	SLO      time.Duration // 95th percentile of answer times to keep; 0: learned
	Min, Max int           // bounds of the limit of a loop for a target; 0: those of package gate
}

// pressure is how long somebody must have been waiting without a break until those
// who came last are served first. Short crowds are served in order; in a lasting one
// the first in line would all be served just before they give up.
const pressure = 100 * time.Millisecond

// gatePatience is how many times as long a request waits for a target of which little is
// known, as that takes a moment to learn.
const gatePatience = 20

// gated is a target's gate, and since when requests wait for it.
//
// Owned by its loop.
type gated struct {
	*gate.Gate
	crowdedAt time.Time // since when somebody has been waiting; zero: nobody is
}

// newGate returns the gate of a new target; nil: there is none.
func (s *side) newGate() *gated {
	g := &s.front.cfg.Gate
	if g.Mode == gate.Off {
		return nil
	}
	most := s.connsPerTarget
	if g.Max > 0 {
		most = min(most, g.Max)
	}
	return &gated{Gate: gate.New(gate.Config{Min: g.Min, Max: most, SLO: g.SLO})}
}

// enforced reports whether the gate bounds what is in flight.
func (t *target) enforced() bool { return t.gate != nil && t.side.front.cfg.Gate.Mode == gate.On }

// admitted is told that an exchange of c goes to the target.
func (t *target) admitted(c *client) {
	if t.gate == nil {
		return
	}
	c.with = t.pool.Busy() - t.pool.Streams()
	c.full = t.pool.Full() || c.gateBy
	if !t.enforced() && c.with > t.gate.Limit() {
		c.full = true
		t.side.counts.gateWould.Inc()
	}
	c.gateBy = false
}

// learnt tells the gate what became of an exchange of c. How long streams and tunnels
// take is their client's choice.
func (t *target) learnt(now time.Time, c *client, o *session.Outcome) {
	if t.gate == nil || c.wait.Streams() || o.Complete.IsZero() {
		return
	}
	if o.Answered.IsZero() && o.Fault == session.FaultNone {
		return // the client left before the answer
	}
	at := o.Answered
	if at.IsZero() {
		at = now
	}
	a := gate.Answer{Sent: o.Complete, Class: int(o.Method) % gate.Classes, Refused: unable(o), Full: c.full, InFlight: c.with}
	if t.gate.Answered(at, &a) {
		t.view.show(t.gate.Look())
		t.bound(now)
	}
}

// unable reports whether the target did not do what was asked because it could not.
func unable(o *session.Outcome) bool {
	switch o.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return o.Fault != session.FaultNone
}

// bound has the pool keep the gate's limit. Who is served thereby is told by serveNext.
func (t *target) bound(now time.Time) {
	if !t.enforced() {
		return
	}
	g := t.gate
	switch {
	case t.pool.Waiting() == 0:
		g.crowdedAt = time.Time{}
	case g.crowdedAt.IsZero():
		g.crowdedAt = now
	}
	t.pool.SetLimit(g.Limit(), !g.crowdedAt.IsZero() && now.Sub(g.crowdedAt) > pressure)
}

// serveNext gives idle connections to those who wait for whom there is room now.
func (t *target) serveNext(now time.Time) {
	if t.pool.Waiting() == 0 {
		return
	}
	for {
		sv, w := t.pool.Next()
		if w == nil {
			break
		}
		w.Value.serve(now, sv, true)
		w.Value.apply(now)
	}
	for t.pool.DialMore() {
		t.dial()
	}
}

// awaitGate has c wait for a place at its target, for a while.
func (c *client) awaitGate(now time.Time) {
	t := c.at.Value
	if !t.enforced() || !t.pool.Bound() {
		return
	}
	t.bound(now)
	c.gateBy, c.lineAt = true, now
	wait := t.side.front.cfg.Gate.Wait
	if t.gate.Learning() {
		wait *= gatePatience
	}
	c.wake(now.Add(wait))
}

// gateLate sheds the exchange if it still waits for a place.
func (c *client) gateLate(now time.Time) bool {
	if !c.gateBy || !c.wait.Waiting() {
		return false
	}
	c.gateBy = false
	t := c.at.Value
	t.pool.Cancel(&c.wait)
	c.shed(now)
	c.apply(now)
	return true
}
