package policy

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/advisor/forecast"
)

// start is the time at which all tests begin.
var start = time.Date(2026, 1, 19, 16, 0, 0, 0, time.UTC)

// A world is a target with many workers and a queue, as a fluid: requests beyond its capacity
// wait, and clients that wait too long give up. Its p95 follows M/M/c with noise.
type world struct {
	capacity func(t float64) float64 // requests/s
	demand   func(t float64) float64 // requests/s
	faults   func(t float64) float64 // share of 5xx, whatever the load
	width    float64                 // workers
	dt       float64                 // s between snapshots
	noise    float64                 // deviation of ln p95
	foresee  bool                    // an exact forecast
	lost     int                     // every so many snapshots one is lost; 0: none
	gated    bool                    // a gate holds back excess load
	sheds    bool                    // the target refuses excess load at once

	limit   Limit
	now     float64
	backlog float64 // requests
	rng     *rand.Rand
	good    float64 // requests answered well
	refused float64
	offered float64
}

const (
	worldBase     = 0.14 // s
	worldPatience = 2.0  // s
)

// steady returns a world that does not change.
func steady(capacity, demand float64) *world {
	return &world{
		capacity: func(float64) float64 { return capacity },
		demand:   func(float64) float64 { return demand },
		faults:   func(float64) float64 { return 0 },
		width:    8, dt: 30, noise: 0.05,
		limit: Limit{Algorithm: Token, Capacity: 20, FillRate: 100},
		rng:   rand.New(rand.NewPCG(1, 2)),
	}
}

// interval plays dt seconds and returns their snapshot.
func (w *world) interval() Snapshot {
	demand, capacity := w.demand(w.now), w.capacity(w.now)
	demand *= 1 + 0.02*w.rng.NormFloat64()
	admitted := min(demand, w.limit.Rate())
	excess := admitted - capacity
	before := w.backlog
	w.backlog = min(max(0, before+excess*w.dt), 10*capacity)
	waits := max(before, w.backlog) / capacity
	u := min(admitted/capacity, 0.999)
	p95 := worldBase*(1+math.Pow(u, math.Sqrt(2*(w.width+1))-1)/(w.width*(1-u))) + waits
	late := 0.0 // share of the interval in which new clients give up
	if waits > worldPatience {
		late = min(1, (waits-worldPatience)*capacity/max(math.Abs(excess)*w.dt, 1))
		p95 = worldPatience
	}
	bound := 0.0
	sent := admitted
	if w.gated && admitted > 0.98*capacity { // and answers what it can
		sent, waits, late, w.backlog, bound = 0.98*capacity, worldBase, 0, 0, 1
		p95 = 2 * worldBase
	}
	if w.sheds {
		w.backlog, late, p95 = 0, max(0, 1-capacity/sent), 2*worldBase
	}
	errors := late + (1-late)*w.faults(w.now)
	slow := 0.05 // of the answers at a p95 of the SLO; few below, all far above
	slow = min(1, slow*math.Pow(p95/(3*worldBase), 3))
	w.good += sent * w.dt * (1 - errors) * (1 - slow)
	w.offered += demand * w.dt
	w.refused += (demand - admitted) * w.dt
	w.now += w.dt
	gate := 0.0
	if w.gated {
		gate = 20
	}
	return Snapshot{
		Ended: sent * w.dt, GateLimit: gate, GateShare: bound,
		At:            start.Add(time.Duration(w.now * float64(time.Second))),
		Interval:      time.Duration(w.dt * float64(time.Second)),
		Observed:      demand,
		Forwarded:     admitted,
		RejectedShare: 1 - admitted/demand,
		P95:           time.Duration(p95 * math.Exp(w.noise*w.rng.NormFloat64()) * float64(time.Second)),
		Errors:        errors,
		Limit:         w.limit,
	}
}

// outlook is an exact forecast, or none.
func (w *world) outlook() DemandForecast {
	if !w.foresee {
		return DemandForecast{}
	}
	step := time.Duration(w.dt * float64(time.Second))
	o := DemandForecast{Step: step}
	for t := w.now; t < w.now+900; t += w.dt {
		d := w.demand(t)
		o.Points = append(o.Points, forecast.Point{Q05: 0.95 * d, Q50: d, Q80: 1.02 * d, Q95: 1.05 * d, Q99: 1.07 * d})
	}
	return o
}

// run plays n intervals and applies the recommendations of p. It calls each, unless nil.
func (w *world) run(p *Policy, n int, each func(Snapshot, Recommendation)) {
	for i := range n {
		s := w.interval()
		if w.lost > 0 && i%w.lost == w.lost-1 {
			continue
		}
		r := p.Advise(s, w.outlook())
		if each != nil {
			each(s, r)
		}
		w.limit = r.Limit
	}
}

// reset resets the counts.
func (w *world) reset() { w.good, w.refused, w.offered = 0, 0, 0 }

// from returns before until t, and then after.
func from(t, before, after float64) func(float64) float64 {
	return func(now float64) float64 {
		if now < t {
			return before
		}
		return after
	}
}

// between returns inside from t to u, and outside otherwise.
func between(t, u, inside, outside float64) func(float64) float64 {
	return func(now float64) float64 {
		if now >= t && now < u {
			return inside
		}
		return outside
	}
}

// ramp rises from before to after between t and u.
func ramp(t, u, before, after float64) func(float64) float64 {
	return func(now float64) float64 {
		x := min(max((now-t)/(u-t), 0), 1)
		return before + x*(after-before)
	}
}
