package policy

import (
	"cmp"
	"math"
	"time"

	"weir/advisor/forecast"
)

// Settings are the bounds of a [Policy]. Zero means the default.
type Settings struct {
	LimitMin     float64       // permits/s; 5
	LimitMax     float64       // permits/s, at least LimitMin; 100,000
	CapacityHint float64       // requests/s that the target is expected to serve; 0: unknown
	SLO          time.Duration // highest acceptable p95; 0: three times the p95 at low load
}

// A Snapshot is what the proxies observed in one interval, summed up.
type Snapshot struct {
	At            time.Time     // the end of the interval
	Interval      time.Duration //
	Observed      float64       // requests/s that arrived
	Forwarded     float64       // requests/s that were forwarded, including the delivered
	Delivered     float64       // requests/s of those that arrived in an earlier interval and are not demand
	RejectedShare float64       // 0 to 1, of those that arrived
	P95           time.Duration // of the forwarded requests' answers; 0: none
	Errors        float64       // 0 to 1, share of the forwarded that failed
	Limit         Limit         // in force at At

	Mode      Mode    // whether Limit decided
	Ended     float64 // answers in the interval, including those that did not come; Forwarded × Interval if not reported
	GateLimit float64 // limit of the gates, mean of the interval, all targets together; 0: no gates
	GateShare float64 // 0 to 1, share of the interval in which gates held requests back
	InFlight  float64 // requests at the targets, mean of the interval; 0: not reported
}

// A Mode says whether the limit decided what was forwarded. Of several proxies the
// largest value counts.
type Mode uint8

const (
	Normal   Mode = iota // it did
	Shadow               // it did; recommendations are shown and tried, but not applied
	FailOpen             // for a while the store was unavailable: everything was admitted, or nothing
)

// A DemandForecast is a forecast of the demand in requests/s: Points[i] is (i+1) steps ahead.
// Empty: no forecast.
type DemandForecast struct {
	Step   time.Duration
	Points []forecast.Point
}

// A Recommendation is the limit that should be in force now.
type Recommendation struct {
	Limit
	PredictedRPS float64       // highest median of the demand within ValidFor
	Predicted95  float64       // highest 95 % quantile of it
	ValidFor     time.Duration // how long this is expected to be valid
	Codes        []string      // codes of the reasons, most important first
	Reason       string        // the reason in one sentence
	Confidence   float64       // 0 to 1: how well the target's capacity is known
	GateMax      float64       // upper bound of gates' limits, a whole number; 0: unknown
	// Shortage is the time until the 95 % quantile of the demand exceeds the target's
	// known capacity. It is 0 if that is not within 20 minutes, or unknown.
	Shortage time.Duration
}

// A Policy learns a target's capacity from snapshots and recommends limits. Its only
// clock is [Snapshot.At].
//
// Owned by one goroutine.
type Policy struct {
	set Settings
	st  State
}

// New returns a policy without knowledge.
func New(s Settings) *Policy {
	s.LimitMin, s.LimitMax = cmp.Or(s.LimitMin, 5), cmp.Or(s.LimitMax, 100_000)
	return &Policy{set: s, st: State{Version: stateVersion}}
}

const delayMax, intervalMax = time.Hour, 24 * time.Hour // longest plausible p95 and interval

// valid reports whether s is possible.
func (s Snapshot) valid() bool {
	return s.At.Year() >= 1970 && s.At.Year() < 9999 &&
		s.Interval > 0 && s.Interval <= intervalMax &&
		within(s.Observed, numberMax) && within(s.Forwarded, numberMax) && within(s.Delivered, numberMax) &&
		within(s.RejectedShare, 1) && within(s.Errors, 1) &&
		s.P95 >= 0 && s.P95 <= delayMax && s.Limit.valid() &&
		within(s.Ended, numberMax) && within(s.GateLimit, numberMax) && within(s.GateShare, 1) &&
		within(s.InFlight, numberMax)
}

// within reports whether 0 ≤ v ≤ bound. It is false for NaN.
func within(v, bound float64) bool { return v >= 0 && v <= bound }

// Advise learns from s and recommends a limit. Snapshots must be in the order of their
// times; one that is not newer than the last is answered with the limit in force and not
// learned from.
func (p *Policy) Advise(s Snapshot, o DemandForecast) Recommendation {
	switch {
	case !s.valid():
		return p.hold(s, InvalidInput)
	case p.st.Count > 0 && !s.At.After(p.st.At):
		return p.hold(s, Stale)
	}
	r := p.reading(s)
	p.learn(r)
	if s.Limit.Algorithm == Off {
		return p.hold(s, LimiterOff)
	}
	t := target{rate: r.rate}
	switch {
	case !r.enforced:
		t.because(NotEnforced)
	case r.Ended == 0:
		t.because(LittleTraffic)
	case r.gated:
		p.ceiling(r, o, &t)
	default:
		p.protect(r, o, &t)
	}
	p.bounded(r, &t)
	return p.recommend(r, o, t)
}

// hold recommends the limit in force.
func (p *Policy) hold(s Snapshot, why Reason) Recommendation {
	return Recommendation{
		Limit: s.Limit, PredictedRPS: s.Observed, Predicted95: s.Observed,
		ValidFor: 2 * min(max(s.Interval, time.Second), validForMax/2),
		Codes:    []string{why.Code}, Reason: why.sentence, Confidence: p.st.Capacity.Confidence, GateMax: p.gateMax(),
	}
}

// A reading is a snapshot with derived values.
type reading struct {
	Snapshot
	dt       float64 // s
	demand   float64 // requests/s
	good     float64 // answers without an error, per second
	p95      float64 // s; 0: none
	rate     float64 // of the limit
	calm     bool    // what was answered was answered in time
	binds    bool    // the limit refused some requests
	enforced bool    // the limit decided
	gated    bool    // a gate protects the target
}

func (p *Policy) reading(s Snapshot) reading {
	s.At = s.At.UTC().Round(0)
	r := reading{Snapshot: s, dt: s.Interval.Seconds(), demand: max(s.Observed, s.Forwarded-s.Delivered),
		p95:  s.P95.Seconds(),
		rate: s.Limit.Rate(), enforced: s.Mode != FailOpen, gated: s.GateLimit > 0}
	if r.Ended == 0 && (r.p95 > 0 || r.Errors > 0) { // the proxy does not report how many there were
		r.Ended = r.Forwarded * r.dt
	}
	r.good = r.Ended / r.dt * (1 - r.Errors)
	r.binds = r.RejectedShare > bindsFrom && r.enforced
	r.calm = r.p95 <= p.SLO() && !math.IsInf(p.SLO(), 1)
	return r
}

// learn updates the state with r.
func (p *Policy) learn(r reading) {
	elapsed := r.dt
	if p.st.Count > 0 {
		elapsed = r.At.Sub(p.st.At).Seconds()
	}
	g := &p.st.Guard
	// If another writer has lowered the limit, the former one must not return.
	if elapsed > gapMax.Seconds() || r.rate < p.st.Advised.Rate()*(1-deadBand) {
		g.over()
	}
	p.st.Count++
	p.st.At = r.At
	if r.GateShare > gateFull {
		p.st.Full = min(p.st.Full+r.dt, fullMax)
	} else {
		p.st.Full = max(0, p.st.Full-r.dt/fullFade)
	}
	p.faultEnds(r)
	g.State = p.severity(r)
	p.baseline(r, elapsed)
	p.prove(r, elapsed)
	p.employ(r, elapsed)
	p.believe(r, elapsed)
	p.st.Capacity = p.st.Belief.capacity()
}
