package wire

import (
	"net/http"
	"time"

	"weir/proxy/exchange"
	"weir/proxy/gate"
)

// begin gives the target its gate. One that is never asked needs none: a name may have
// more addresses than a loop ever asks.
func (t *target) begin() {
	g := &t.side.front.cfg.Gate
	if t.gate != nil || g.Mode == gate.Off {
		return
	}
	most := t.side.connsPerTarget
	if g.Max > 0 {
		most = min(most, g.Max)
	}
	t.gate = gate.New(gate.Config{Min: g.Min, Max: most})
	t.view.Show(t.gate.Look())
	t.pool.SetLimit(t.gate.Limit())
}

// enforced reports whether the gate bounds what is in flight.
func (t *target) enforced() bool { return t.gate != nil && t.side.front.cfg.Gate.Mode == gate.On }

// admitted is told that an exchange of c goes to the target, over the connection that it
// has now. Those that still wait for one are not at the target.
func (t *target) admitted(c *client) {
	if t.gate == nil {
		return
	}
	taken := t.pool.Taken()
	c.with = max(taken-t.pool.Waiting(), 1)
	if !t.enforced() && t.binds() && taken > t.gate.Limit() {
		t.side.counts.gateWould.Inc()
	}
	c.full = c.full || t.pool.Free() <= 0
}

// learnt tells the gate what became of an exchange of c. How long streams and tunnels
// take is their client's choice.
func (t *target) learnt(now time.Time, c *client, o *exchange.Outcome) {
	if t.gate == nil || c.wait.Streams() || o.Complete.IsZero() {
		return
	}
	if o.Answered.IsZero() && o.Fault == exchange.FaultNone {
		return // the client left before the answer
	}
	at := o.Answered
	if at.IsZero() {
		at = now
	}
	a := gate.Answer{Sent: o.Complete, Class: t.side.routes.Class(c.route, o.Method, o.Status), Refused: unable(o), Full: c.full, InFlight: c.with}
	if t.gate.Answered(at, &a) {
		t.view.Show(t.gate.Look())
		t.pool.SetLimit(t.gate.Limit())
	}
}

// unable reports whether the target did not do what was asked because it could not.
func unable(o *exchange.Outcome) bool {
	switch o.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return o.Fault != exchange.FaultNone
}
