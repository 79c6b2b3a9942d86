package core

import (
	"math"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
)

const (
	// changesMax bounds the recommendations that are remembered.
	changesMax = 100
	// shiftsMax bounds the changes of level that are remembered.
	shiftsMax = 50
	// horizon is how far ahead the policy looks, at least.
	horizon = 20 * time.Minute
	// stepMin keeps an outlook to 80 points.
	stepMin = 15 * time.Second
	// stepMax is the coarsest outlook.
	stepMax = time.Hour
)

// A memory is all that was learned from one course of time. It is what is written
// down, and what is begun anew when time jumps.
//
// Owned by its Core.
type memory struct {
	kept
	future *forecast.Forecaster
	policy *policy.Policy
	track  *track
	slot   slot
}

// kept is the part of a memory that has no form of its own.
type kept struct {
	Fleet   fleet    `json:"fleet"`
	Advice  Advice   `json:"advice"`
	Changes []Change `json:"changes"` // the oldest first
	Shifts  []Shift  `json:"shifts"`  // the oldest first
	Rounds  uint64   `json:"rounds"`  // that were learned from
	Most    float64  `json:"most"`    // the largest rate of about the last week
	// Every is how long rounds are while no gate holds requests back.
	Every time.Duration `json:"every"`
	Zone  string        `json:"zone"` // that the forecast was learned in
}

// An Advice is the newest recommendation, and what it was given for.
type Advice struct {
	Given bool                  `json:"given"`
	At    time.Time             `json:"at"`
	Sum   policy.Snapshot       `json:"sum"`
	Rec   policy.Recommendation `json:"rec"`
}

// A Change is a recommendation that differs from the one before.
type Change struct {
	At         time.Time    `json:"at"`
	From       policy.Limit `json:"from"` // in force then
	To         policy.Limit `json:"to"`
	Codes      []string     `json:"codes"`
	Reason     string       `json:"reason"`
	Predicted  float64      `json:"predictedRps"`
	Confidence float64      `json:"confidence"`
}

// A Shift is when the level of the rate changed for good.
type Shift struct {
	At time.Time `json:"at"`
	Up bool      `json:"up"`
}

// Tuning is what a Core is made with.
type Tuning struct {
	Forecast forecast.Settings
	Policy   policy.Settings
}

// zone is the name of the time zone.
func (t *Tuning) zone() string {
	if t.Forecast.Location == nil {
		return time.UTC.String()
	}
	return t.Forecast.Location.String()
}

func newMemory(t *Tuning) *memory {
	return &memory{future: forecast.New(t.Forecast), policy: policy.New(t.Policy), track: newTrack(), kept: kept{Zone: t.zone()}}
}

// newest is the end of what is known; zero when nothing is.
func (m *memory) newest() time.Time {
	at := m.Fleet.Newest
	if h, ok := m.future.History().Newest(); ok && h.After(at) {
		return h
	}
	return at
}

// forecastAt is when the forecast begins; zero when there is none.
func (m *memory) forecastAt() time.Time {
	at, ok := m.future.History().Newest()
	if !ok {
		return time.Time{}
	}
	return at
}

// learn takes in a snapshot of the time we are in. changed is the change of the
// recommendation that comes of it, nil when there is none; it is the caller's own.
func (m *memory) learn(s *Snapshot) (changed *Change, err error) {
	sum, ended, err := m.Fleet.add(s)
	if err != nil || !ended {
		return nil, err
	}
	m.Rounds++
	m.foresee(&sum)
	if !known(sum.Limit) {
		m.note(&sum, math.NaN())
		return nil, nil
	}
	rec := m.policy.Advise(sum, m.outlook(m.Every))
	before := m.Advice
	m.Advice = Advice{Given: true, At: sum.At, Sum: sum, Rec: rec}
	m.note(&sum, rec.Rate())
	if before.Given && before.Rec.Limit == rec.Limit || !before.Given && sum.Limit == rec.Limit {
		return nil, nil
	}
	changed = &Change{
		At: sum.At, From: sum.Limit, To: rec.Limit, Codes: rec.Codes, Reason: rec.Reason,
		Predicted: rec.PredictedRPS, Confidence: rec.Confidence,
	}
	m.Changes = forget(append(m.Changes, *changed), changesMax)
	return changed, nil
}

// A slot collects rounds that the forecast sees as one: while gates hold requests
// back rounds are short, and a forecast needs slots of one width.
type slot struct {
	requests float64
	span     time.Duration
}

const (
	// everyFirst is how long rounds are until one is known that no gate made short, and
	// everyMax bounds a slot.
	everyFirst = 30 * time.Second
	everyMax   = 5 * time.Minute
)

// foresee lets the forecast learn from a round.
func (m *memory) foresee(sum *policy.Snapshot) {
	m.slot.requests += sum.Observed * sum.Interval.Seconds()
	m.slot.span += sum.Interval
	if m.Every == 0 {
		m.Every = everyFirst
	}
	held := sum.GateShare > 0
	if held && m.slot.span < min(m.Every, everyMax) {
		return
	}
	rate, span := m.slot.requests/m.slot.span.Seconds(), min(m.slot.span, IntervalMax)
	if m.slot.span == sum.Interval {
		rate = sum.Observed // exactly, without rounding
	}
	if !held {
		m.Every = span
	}
	m.slot = slot{}
	passed := time.Duration(0)
	if newest, ok := m.future.History().Newest(); ok {
		passed = sum.At.Sub(newest)
	}
	m.rate(rate, passed)
	m.future.Observe(sum.At, span, rate)
	m.notice()
}

// notice remembers a change of level that the forecast has just found.
func (m *memory) notice() {
	at, up, known := m.future.Shift()
	at = at.UTC()
	if known && (len(m.Shifts) == 0 || at.After(m.Shifts[len(m.Shifts)-1].At)) {
		m.Shifts = forget(append(m.Shifts, Shift{at, up}), shiftsMax)
	}
}

// outlook is the forecast in the form and with the steps of the policy.
func (m *memory) outlook(interval time.Duration) policy.Outlook {
	step := min(max(interval, stepMin), stepMax)
	return policy.Outlook{Step: step, Points: m.points(max(horizon, step), step)}
}

// points are the quantiles of the forecast at even steps up to a horizon.
func (m *memory) points(ahead, step time.Duration) []policy.Point {
	points := m.future.Outlook(ahead, step)
	all := make([]policy.Point, len(points))
	for i, p := range points {
		all[i] = policy.Point{Q05: p.Q05, Q50: p.Q50, Q80: p.Q80, Q95: p.Q95, Q99: p.Q99}
	}
	return all
}

// note puts a round on the track.
func (m *memory) note(sum *policy.Snapshot, recommended float64) {
	unknown := func(v float64) float32 {
		if !(v > 0) || math.IsInf(v, 0) {
			return float32(math.NaN())
		}
		return float32(v)
	}
	capacity := m.policy.State().Capacity
	m.track.add(sum.At, &[valuesN]float32{
		ValObserved: float32(sum.Observed), ValForwarded: float32(sum.Forwarded),
		ValLimit: unknown(sum.Limit.Rate()), ValRecommended: unknown(recommended),
		ValLow: unknown(capacity.Q20), ValMid: unknown(capacity.Q50), ValHigh: unknown(capacity.Q80),
		ValP95: unknown(sum.P95.Seconds()), ValErrors: float32(sum.Errors),
	})
}
