package wire

import (
	"iter"
	"net/http"
	"slices"
	"time"

	"weir/internal/metric"
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
		t.showGate()
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

// showGate lets others see what the gate knows.
func (t *target) showGate() {
	look := t.gate.Look()
	t.look.Store(&look)
}

// registerGates adds the metrics of the gates, if there are any.
func (f *Front) registerGates(set *metric.Set) {
	if f.cfg.Gate.Mode == gate.Off {
		return
	}
	gauge := func(name, help string, of func(t *target, l *gate.Look) float64) {
		set.Gauges(name, help, f.targetGauges(func(spec *Target) (sum float64) {
			for t := range f.each(spec) {
				if l := t.look.Load(); l != nil {
					sum += of(t, l)
				}
			}
			return sum
		}))
	}
	gauge("ratelimiter_gate_limit", "requests that may be in flight to a target", func(_ *target, l *gate.Look) float64 { return float64(l.Limit) })
	gauge("ratelimiter_gate_in_flight", "requests in flight to a target, without tunnels and streams",
		func(t *target, _ *gate.Look) float64 { return float64(t.busy.Load() - t.streams.Load()) })
	gauge("ratelimiter_gate_waiting", "requests that wait for a place at a target", func(t *target, _ *gate.Look) float64 { return float64(t.waiting.Load()) })
	set.Gauges("ratelimiter_gate_baseline_seconds", "median answer time of a target without a queue", f.targetGauges(func(spec *Target) (most float64) {
		for t := range f.each(spec) {
			if l := t.look.Load(); l != nil {
				most = max(most, l.Baseline.Seconds())
			}
		}
		return most
	}))
	set.Counter("ratelimiter_gate_would_wait_total", "requests that GATE=shadow would have had wait", func() uint64 { return f.sum(func(c *counts) uint64 { return c.gateWould.Load() }) })
	set.Counters("ratelimiter_gate_shed_total", "requests that waited for a place at a target in vain", f.gateCounters(func(spec *Target, st *GateStatus, yield func(string, uint64) bool) bool {
		return yield(f.targetLabels(spec), st.Shed)
	}))
	set.Counters("ratelimiter_gate_cuts_total", "falls of a limit: because requests waited in the target, or because it refused them",
		f.gateCounters(func(spec *Target, st *GateStatus, yield func(string, uint64) bool) bool {
			for why := gate.Latency; why < gate.Reasons; why++ {
				if !yield(f.targetLabels(spec, "reason", why.String()), st.Cuts[why.String()]) {
					return false
				}
			}
			return true
		}))
}

// gateCounters yields what of does for each target, until it returns false.
func (f *Front) gateCounters(of func(*Target, *GateStatus, func(string, uint64) bool) bool) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, spec := range f.targetList() {
			if st := f.gateStatus(spec); !of(spec, &st, yield) {
				return
			}
		}
	}
}

// A GateStatus is what the gates of one target know, over all loops. Times are
// seconds.
type GateStatus struct {
	URL      string            `json:"target"`
	Address  string            `json:"address"`
	Limit    int               `json:"limit"` // 0: nothing was judged yet
	InFlight int64             `json:"inFlight"`
	Waiting  int64             `json:"waiting"`
	Shed     uint64            `json:"shed"`
	Baseline float64           `json:"baseline"` // median answer time without a queue; of the loop where it is longest
	Median   float64           `json:"median"`
	Share    float64           `json:"waitingShare"` // of the answer time that is waiting in the target
	Cuts     map[string]uint64 `json:"cuts"`
	Last     []GateCut         `json:"lastCuts"` // of each loop the last few, oldest first
}

// A GateCut is a fall of one loop's limit.
type GateCut struct {
	At       time.Time `json:"at"`
	From     int       `json:"from"`
	To       int       `json:"to"`
	Why      string    `json:"why"`
	Median   float64   `json:"median"`
	Baseline float64   `json:"baseline"`
}

func cutOf(c *gate.Cut) GateCut {
	return GateCut{c.At.UTC(), c.From, c.To, c.Why.String(), c.Median.Seconds(), c.Baseline.Seconds()}
}

// Gates tells how the gates are.
func (f *Front) Gates() []GateStatus {
	list := []GateStatus{}
	for _, spec := range f.targetList() {
		list = append(list, f.gateStatus(spec))
	}
	return list
}

// gateStatus adds up what the loops' gates of one target know.
func (f *Front) gateStatus(spec *Target) GateStatus {
	st := GateStatus{URL: spec.URL, Address: spec.Addr, Cuts: map[string]uint64{}, Last: []GateCut{}}
	for t := range f.each(spec) {
		st.InFlight += t.busy.Load() - t.streams.Load()
		st.Waiting += t.waiting.Load()
		st.Shed += t.shed.Load()
		l := t.look.Load()
		if l == nil {
			continue // it has judged nothing yet
		}
		st.Limit += l.Limit
		st.Baseline = max(st.Baseline, l.Baseline.Seconds())
		st.Median = max(st.Median, l.Median.Seconds())
		st.Share = max(st.Share, l.Waiting)
		for why, n := range l.Cuts {
			st.Cuts[gate.Reason(why).String()] += n
		}
		for _, c := range l.Last {
			st.Last = append(st.Last, cutOf(&c))
		}
	}
	slices.SortFunc(st.Last, func(a, b GateCut) int { return a.At.Compare(b.At) })
	return st
}
