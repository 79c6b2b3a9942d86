package wire

import (
	"net/http"
	"time"

	"weir/proxy/exchange"
	"weir/proxy/gate"
)

// bounds are those of the limit for a target.
func (f *Front) bounds() gate.Config {
	g, b := &f.cfg.Gate, gate.Config{Max: f.connsPerTarget}
	b.Min = g.Min * len(f.sides)
	if g.Max > 0 {
		b.Max = min(b.Max, g.Max*len(f.sides))
	}
	return b
}

// begin has the target's gate learn.
func (t *target) begin() {
	if !t.gated() && t.side.front.cfg.Gate.Mode != gate.Off {
		t.gate.Begin(t.side.front.bounds())
	}
}

// gated reports whether there is a gate that learns: with GATE=off, and at a target that was
// never asked, there is none.
func (t *target) gated() bool { return t.gate.Limit() > 0 }

// enforced reports whether the gate bounds what is in flight.
func (t *target) enforced() bool { return t.gated() && t.side.front.cfg.Gate.Mode == gate.On }

// admitted is told that an exchange of c goes to the target, over the connection that it
// has now. Those that still wait for one are not at the target.
func (t *target) admitted(c *client) {
	if !t.gated() {
		return
	}
	free := t.gate.Free()
	c.with = max(t.gate.AtTarget(), 1)
	if !t.enforced() && t.binds() && free < 0 {
		t.side.counts.GateWould.Inc()
	}
	c.full = c.full || free <= 0
}

// learnt tells the gate what became of an exchange of c. How long streams and tunnels
// take is their client's choice.
func (t *target) learnt(now time.Time, c *client, o *exchange.Outcome) {
	if !t.gated() || c.wait.Streams() || o.Complete.IsZero() {
		return
	}
	if o.Answered.IsZero() && o.Fault == exchange.FaultNone {
		return // the client left before the answer
	}
	a := gate.Answer{Sent: o.Complete, At: o.Answered, Class: t.side.routes.Class(c.route, o.Method, o.Status), Refused: unable(o), Full: c.full, InFlight: c.with}
	t.gate.Answered(now, &a, &t.late)
}

// unable reports whether the target did not do what was asked because it could not.
func unable(o *exchange.Outcome) bool {
	switch o.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return o.Fault != exchange.FaultNone
}
