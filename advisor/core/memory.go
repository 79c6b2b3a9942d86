package core

import (
	"math"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
)

const (
	changesMax = 100              // recommendations that are kept
	shiftsMax  = 50               // changes of level that are kept
	horizon    = 20 * time.Minute // least time that the policy looks ahead
	stepMin    = 15 * time.Second // limits an outlook to 80 points
	stepMax    = time.Hour        // of the coarsest outlook
)

// A memory holds all that was learned in one continuous time. It is what is saved, and is
// replaced by an empty one when time jumps.
//
// Owned by its Core.
type memory struct {
	kept
	future *forecast.Forecaster
	policy *policy.Policy
	track  *track
	slot   slot
}

// kept is the part of a memory without an encoding of its own.
type kept struct {
	Fleet   fleet                `json:"fleet"`
	Advice  LatestRecommendation `json:"advice"`
	Changes []Change             `json:"changes"` // the oldest first
	Shifts  []LevelShift         `json:"shifts"`  // the oldest first
	Rounds  uint64               `json:"rounds"`  // that were learned from
	Most    float64              `json:"most"`    // largest rate of about the last week

	Every time.Duration `json:"every"` // length of rounds while no gate holds requests back
	Zone  string        `json:"zone"`  // time zone of the forecast; that of a nil Location is UTC
}

// A LatestRecommendation is the newest recommendation, and what it was made for.
type LatestRecommendation struct {
	Given bool                  `json:"given"`
	At    time.Time             `json:"at"`
	Sum   policy.Snapshot       `json:"sum"`
	Rec   policy.Recommendation `json:"rec"`
}

// A Change is a recommendation that differs from the previous one.
type Change struct {
	At         time.Time    `json:"at"`
	From       policy.Limit `json:"from"` // in force then
	To         policy.Limit `json:"to"`
	Codes      []string     `json:"codes"`
	Reason     string       `json:"reason"`
	Predicted  float64      `json:"predictedRps"`
	Confidence float64      `json:"confidence"`
}

// A LevelShift is a lasting change of the rate's level.
type LevelShift struct {
	At time.Time `json:"at"`
	Up bool      `json:"up"`
}

// Settings configures a Core.
type Settings struct {
	Forecast forecast.Settings
	Policy   policy.Settings
}

func newMemory(t *Settings) *memory {
	return &memory{future: forecast.New(t.Forecast), policy: policy.New(t.Policy), track: newTrack(),
		kept: kept{Zone: t.Forecast.Location.String()}}
}

// newest returns the end of the known history; zero if there is none.
func (m *memory) newest() time.Time {
	if at := m.future.History().Newest(); at.After(m.Fleet.Newest) {
		return at
	}
	return m.Fleet.Newest
}

// learn processes a snapshot of the current time. changed is the resulting change of the
// recommendation, or nil; it is a copy for the caller.
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
	step := min(max(m.Every, stepMin), stepMax)
	rec := m.policy.Advise(sum, policy.DemandForecast{Step: step, Points: m.future.Outlook(max(horizon, step), step)})
	before := m.Advice
	m.Advice = LatestRecommendation{Given: true, At: sum.At, Sum: sum, Rec: rec}
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

// A slot collects rounds that the forecast sees as one. While gates hold requests back
// rounds are short, but a forecast needs slots of equal width.
type slot struct {
	requests float64
	span     time.Duration
}

const (
	everyFirst = 30 * time.Second // assumed length of rounds until one is known that no gate shortened
	everyMax   = 5 * time.Minute  // of a slot
)

// foresee adds a round to the forecast.
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
	if newest := m.future.History().Newest(); !newest.IsZero() {
		passed = sum.At.Sub(newest)
	}
	m.rate(rate, passed)
	m.future.Observe(sum.At, span, rate)
	m.notice()
}

// notice records a change of level that the forecast has just found.
func (m *memory) notice() {
	at, up, known := m.future.Shift()
	at = at.UTC()
	if known && (len(m.Shifts) == 0 || at.After(m.Shifts[len(m.Shifts)-1].At)) {
		m.Shifts = forget(append(m.Shifts, LevelShift{at, up}), shiftsMax)
	}
}

// note adds a round to the track.
func (m *memory) note(sum *policy.Snapshot, recommended float64) {
	unknown := func(v float64) float32 {
		if !(v > 0) || math.IsInf(v, 0) {
			return float32(math.NaN())
		}
		return float32(v)
	}
	capacity := m.policy.State().Capacity
	m.track.add(sum.At, &[valuesN]float32{
		ObservedValue: float32(sum.Observed), ForwardedValue: float32(sum.Forwarded),
		LimitValue: unknown(sum.Limit.Rate()), RecommendedValue: unknown(recommended),
		LowValue: unknown(capacity.Q20), MidValue: unknown(capacity.Q50), HighValue: unknown(capacity.Q80),
		P95Value: unknown(sum.P95.Seconds()), ErrorsValue: float32(sum.Errors),
	})
}
