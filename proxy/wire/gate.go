package wire

import (
	"cmp"
	"net/http"
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/upstream"
)

// bounds returns the gate's configuration for one target.
func (f *Server) bounds() gate.Config {
	g := &f.cfg.Gate
	return gate.Config{Min: g.Min, Max: min(cmp.Or(g.Max, f.connsPerTarget), f.connsPerTarget), SLO: g.SLO}
}

// begin starts learning at the target's gate.
func (t *target) begin() {
	if !t.gated() && t.server.shared.cfg.Gate.Mode != gate.Off {
		t.gate.Begin(t.server.shared.Gates, t.server.known())
	}
}

// knownOf bounds how many targets known looks at.
const knownOf = 100

// known returns the largest limit that was learned for a target, or 0 if there is none. A further
// target begins with it, for example an instance that was just started: the requests that wait for
// places at the others would otherwise all go to it at once.
func (s *loopServer) known() (limit int) {
	most, list := s.shared.Gates.Bounds().Max, s.targets.Targets()
	for _, at := range list[:min(len(list), knownOf)] {
		if n := at.Value.gate.Limit(); n < most {
			limit = max(limit, n)
		}
	}
	return limit
}

// gated reports whether the target has a gate. There is none with GATE=off, and
// none before the first request.
func (t *target) gated() bool { return t.gate.Limit() > 0 }

// admitted records that an exchange of c goes to the target over the connection that it
// now has. Exchanges that still wait for a connection are not at the target.
func (t *target) admitted(c *client) {
	if !t.gated() {
		return
	}
	free, atTarget := t.gate.Now()
	c.answer.InFlight = max(atTarget, 1)
	if free < 0 && t.binds() && !t.bounded() {
		t.server.counts.GateWould.Inc()
	}
	c.answer.Full = c.answer.Full || free <= 0
}

// learnt tells the gate when the answer to an exchange of c began, or why there is none. It must be
// called when the streaming of an answer begins and not at its end, and never for tunnels, nor for
// uploads that end before all of them was sent: the client determines how long they take.
func (t *target) learnt(now time.Time, c *client, o *exchange.Outcome) {
	t.learns(now, &c.answer, c.route, o)
}

// learns is learnt of an answer to a request on a route.
func (t *target) learns(now time.Time, a *gate.Response, route uint16, o *exchange.Outcome) {
	if !t.gated() || o.Complete.IsZero() {
		return
	}
	if o.Answered.IsZero() && (o.Fault == exchange.FaultNone || o.Fault == exchange.FaultStreams) {
		return // the client disconnected before the answer, or nothing was sent
	}
	a.Sent, a.Ago, a.Refused, a.Class = o.Complete, 0, unable(o), t.server.routes.Class(route, o.Method, o.Status)
	if o.Answered != now && !o.Answered.IsZero() {
		a.Ago = now.Sub(o.Answered)
	}
	t.gate.Answered(now, a, &t.late)
}

// likely returns the class that the answer is likely to have for the gate.
func (c *client) likely() int { return c.server.routes.Likely(c.route, c.x.Method()) }

// lengthen frees the places of exchanges that take long by themselves for others, if there are many:
// from now on they count as streams. If nothing is answered at all, that cannot be told; then the
// gate's limit rises.
func (s *loopServer) lengthen(now time.Time) {
	long, places := s.long[:0], 0
	for w, had := range s.queue.LongHeld(now, s.shared.cfg.Gate.Wait) {
		if u, class := w.Value.on(); u != nil && u.target.gate.Long(class, had) {
			long = append(long, w)
		}
	}
	first := s.queue.First(now)
	for at := range s.targets.Available(now) {
		t := at.Value
		places += t.gate.Limit()
		if first != nil && t.bounded() && t.gate.Free() <= 0 {
			t.gate.Waits(now, first.Value.client.likely())
		}
	}
	if len(long) > places/gate.LongShareDivisor/len(s.shared.loops) {
		s.longUntil = now.Add(gate.LongFor)
		for _, w := range long {
			w.Value.lengthen(now, w)
		}
	}
	clear(long)
	s.long = long
}

// An occupant is who waits for a place at a target, or has one: a client, or an abandoned exchange.
type occupant struct {
	*client
	abandoned *upstreamConn // that of an abandoned exchange
}

// on returns the connection on which h has its place, if there is one, and the class that the answer
// is likely to have for the gate.
func (h occupant) on() (u *upstreamConn, class int) {
	switch {
	case h.abandoned != nil:
		a := h.abandoned.abandoned
		return h.abandoned, h.abandoned.target.server.routes.Likely(a.route, a.Method)
	case h.client != nil && h.upstream != nil:
		return h.upstream, h.likely()
	}
	return nil, 0
}

// lengthen makes the exchange of h, which has the place of w, a stream, if there is a place for one.
func (h occupant) lengthen(now time.Time, w *upstream.Waiter[occupant]) {
	u, _ := h.on()
	t := u.target
	if !t.pool.Stream(w) {
		return
	}
	if h.abandoned != nil {
		h.abandoned.abandoned.learns = false
	} else {
		h.paced = true
	}
	t.server.queue.Lengthen(w)
	t.note(now)
}

// tookLong reports whether the exchange that has the place of w took long by itself, as others did at the
// same time. Its answer is no news of the target.
func (s *loopServer) tookLong(now time.Time, w *upstream.Waiter[occupant], sent, answered time.Time) bool {
	if !s.queue.Overtaken(w) || !now.Before(s.longUntil) {
		return false
	}
	u, class := w.Value.on()
	return u != nil && u.target.gate.Long(class, answered.Sub(sent))
}

// unable reports whether the target was unable to serve the request.
func unable(o *exchange.Outcome) bool {
	if o.Fault == exchange.FaultUnstreamed {
		return false // it answered, but could not be streamed
	}
	switch o.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return o.Fault != exchange.FaultNone
}
