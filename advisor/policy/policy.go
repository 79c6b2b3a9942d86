package policy

import (
	"math"
	"time"
)

// Settings say within which bounds a [Policy] recommends. Zero means the default.
type Settings struct {
	LimitMin     float64       // permits/s; 5
	LimitMax     float64       // permits/s; 100,000
	CapacityHint float64       // requests/s that the target is thought to take; 0: unknown
	SLO          time.Duration // the p95 that is still good; 0: three times the p95 at low load
	RejectCost   float64       // work that a refusal makes for the target, in requests; 0: 0.02, negative: none
}

// A Snapshot is what the proxies saw in one interval, summed over them.
type Snapshot struct {
	At            time.Time     // the end of the interval
	Interval      time.Duration //
	Observed      float64       // requests/s that arrived
	Forwarded     float64       // requests/s that were let through
	RejectedShare float64       // 0 to 1, of those that arrived
	P95           time.Duration // of the forwarded requests' answers; 0: none
	Errors        float64       // 0 to 1, share of the forwarded that failed
	Limit         Limit         // in force at At

	Mode           Mode    // whether Limit decided
	Ended          float64 // answers in the interval, also those that did not come; Forwarded × Interval where proxies do not tell
	InFlight       float64 // requests at the targets, mean of the interval; 0: not told
	GateLimit      float64 // what the gates let in at a time, mean of the interval, all targets together; 0: no gates
	GateShare      float64 // 0 to 1, share of the interval in which gates held requests back
	HealthyTargets int     // targets in use; 0: none, or not told
}

// A Mode says whether the limit decided what was forwarded.
type Mode uint8

const (
	Normal   Mode = iota // it did
	FailOpen             // for a while the store was unavailable: all was let through, or nothing
	Shadow               // recommendations are not put in force; the limit is somebody else's
)

// A Point is quantiles of the demand at one time ahead, in requests/s.
type Point struct{ Q05, Q50, Q80, Q95, Q99 float64 }

// An Outlook is a forecast: Points[i] is (i+1) steps ahead. Empty: no forecast.
type Outlook struct {
	Step   time.Duration
	Points []Point
}

// A Recommendation is the limit that should be in force now.
type Recommendation struct {
	Limit
	PredictedRPS float64       // highest median of the demand within ValidFor
	Predicted95  float64       // highest 95 % quantile of it
	ValidFor     time.Duration // how long this is expected to be right
	Codes        []string      // why, most important first; see the constants
	Reason       string        // why, in one sentence
	Confidence   float64       // 0 to 1: how well the target's capacity is known
}

// A Policy learns a target's capacity from snapshots and recommends limits. The
// only clock it knows is [Snapshot.At].
//
// Owned by one goroutine.
type Policy struct {
	set  Settings
	laws laws
	st   State
	odds *odds // of st.Belief; nil: nothing is known
}

// New returns a policy that knows nothing yet. Settings that make no sense
// (negative, not a number, bounds the wrong way round) count as absent.
func New(s Settings) *Policy {
	p := &Policy{set: s.completed(), laws: newLaws()}
	p.st = State{Version: stateVersion}
	return p
}

const (
	limitMinDefault   = 5
	limitMaxDefault   = 100_000
	rejectCostDefault = 0.02
)

func (s Settings) completed() Settings {
	if !usable(s.LimitMin) {
		s.LimitMin = limitMinDefault
	}
	if !usable(s.LimitMax) {
		s.LimitMax = limitMaxDefault
	}
	s.LimitMax = max(s.LimitMax, s.LimitMin)
	if !usable(s.CapacityHint) {
		s.CapacityHint = 0
	}
	if s.SLO < 0 || s.SLO > delayMax {
		s.SLO = 0
	}
	switch {
	case s.RejectCost == 0 || !(s.RejectCost < 0.5):
		s.RejectCost = rejectCostDefault
	case s.RejectCost < 0:
		s.RejectCost = 0
	}
	return s
}

const (
	delayMax    = time.Hour      // longest p95 that is believed
	intervalMax = 24 * time.Hour // longest interval
)

// valid says whether s can have happened.
func (s Snapshot) valid() bool {
	return s.At.Year() >= 1970 && s.At.Year() < 9999 &&
		s.Interval > 0 && s.Interval <= intervalMax &&
		within(s.Observed, numberMax) && within(s.Forwarded, numberMax) &&
		within(s.RejectedShare, 1) && within(s.Errors, 1) &&
		s.P95 >= 0 && s.P95 <= delayMax && s.Limit.valid()
}

// within says whether 0 ≤ v ≤ bound; it is false for NaN.
func within(v, bound float64) bool { return v >= 0 && v <= bound }

// valid says whether o is a forecast that can be used.
func (o Outlook) valid() bool {
	if o.Step <= 0 || o.Step > intervalMax || len(o.Points) == 0 {
		return false
	}
	for _, q := range o.Points {
		for _, v := range [...]float64{q.Q05, q.Q50, q.Q80, q.Q95, q.Q99} {
			if !within(v, numberMax) {
				return false
			}
		}
	}
	return true
}

// Advise learns from s and recommends a limit. Snapshots are told in the order of
// their times; one that is not newer than the last is answered with the limit in
// force and not learned from. A forecast with impossible numbers counts as none.
func (p *Policy) Advise(s Snapshot, o Outlook) Recommendation {
	switch {
	case !s.valid():
		return p.hold(s, InvalidInput)
	case p.st.Count > 0 && !s.At.After(p.st.At):
		return p.hold(s, Stale)
	case !o.valid():
		o = Outlook{}
	}
	r := p.reading(s)
	p.learn(r)
	if s.Limit.Algorithm == Off {
		return p.hold(s, LimiterOff)
	}
	v := p.judge(r)
	t := p.bounded(r, p.aim(r, v, o))
	limit := p.choose(r, v, o, &t)
	return p.recommend(r, o, t, limit)
}

// hold recommends what is in force, for the reason of code.
func (p *Policy) hold(s Snapshot, code string) Recommendation {
	limit := s.Limit
	if !limit.valid() {
		limit = p.fallback()
	}
	r := Recommendation{Limit: limit, Codes: []string{code}, Reason: sentence(code)}
	if within(s.Observed, numberMax) {
		r.PredictedRPS, r.Predicted95 = s.Observed, s.Observed
	}
	r.ValidFor = 2 * min(max(s.Interval, time.Second), validForMax/2)
	r.Confidence = p.st.Capacity.Confidence
	return r
}

// fallback is a limit for when not even the one in force is known.
func (p *Policy) fallback() Limit {
	if p.st.Advised.valid() {
		return p.st.Advised
	}
	rate := min(max(100, p.set.LimitMin), p.set.LimitMax)
	return p.set.cut(Fixed, rate, rate, Limit{})
}

// A reading is a snapshot in the words of the policy.
type reading struct {
	at       time.Time
	dt       float64 // s
	demand   float64 // requests/s
	admitted float64 // requests/s
	refused  float64 // share
	p95      float64 // s; 0: none
	errors   float64 // share
	load     float64 // requests/s that the target worked for: the refused cost it something too
	n        float64 // requests behind p95 and errors
	limit    Limit
	rate     float64 // of limit
	binds    bool    // the limit refused some
}

// bindsShare is the share of refused requests from which a limit counts as used
// to the full.
const bindsShare = 0.002

func (p *Policy) reading(s Snapshot) reading {
	r := reading{
		at:       s.At.UTC().Round(0),
		dt:       s.Interval.Seconds(),
		demand:   max(s.Observed, s.Forwarded),
		admitted: s.Forwarded,
		refused:  s.RejectedShare,
		p95:      s.P95.Seconds(),
		errors:   s.Errors,
		limit:    s.Limit,
		rate:     s.Limit.Rate(),
	}
	r.n = r.admitted * r.dt
	r.load = r.admitted + p.set.RejectCost*(r.demand-r.admitted)
	r.binds = r.refused > bindsShare
	return r
}

// learn takes r into the history and the belief.
func (p *Policy) learn(r reading) {
	elapsed := r.dt
	if p.st.Count > 0 {
		elapsed = r.at.Sub(p.st.At).Seconds()
	}
	if elapsed > gapMax {
		p.st.Guard.resume()
	}
	p.st.Count++
	p.st.At = r.at
	p.st.Traffic.note(r)
	p.baseline(r, elapsed)
	p.believe(r, elapsed)
	p.odds = p.sum()
	p.st.Capacity = p.odds.capacity()
}

// gapMax is the time without snapshots, in seconds, after which what was going on
// before is over.
const gapMax = 600

// slo is the p95 in seconds that is still good; 0 while nothing is known.
func (p *Policy) slo() float64 {
	if p.set.SLO > 0 {
		return p.set.SLO.Seconds()
	}
	return sloFactor * p.st.Base
}

// sloFactor is how much slower than at low load is still good, when nobody says.
const sloFactor = 3

// ratioMin is the least that the SLO is above the p95 at low load, for the
// arithmetic's sake.
const ratioMin = 1.3

// ratio is slo over the p95 at low load.
func (p *Policy) ratio() float64 {
	if p.st.Base <= 0 {
		return sloFactor
	}
	return math.Min(math.Max(p.slo()/p.st.Base, ratioMin), clip-1)
}
