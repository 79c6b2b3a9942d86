package serve

import (
	"math"
	"slices"
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
	horizon = 15 * time.Minute
	// stepMin keeps an outlook to 60 points.
	stepMin = 15 * time.Second
	// stepMax is the coarsest outlook.
	stepMax = time.Hour
)

// A memory is all that was learned from one course of time. It is what the state
// file keeps, and what is exchanged when time jumps.
//
// Owned by the core.
type memory struct {
	fleet   fleet
	future  *forecast.Forecaster
	policy  *policy.Policy
	track   *track
	advice  advice
	changes []change      // the oldest first
	shifts  []shift       // the oldest first
	rounds  uint64        // that were learned from
	most    float64       // the largest rate of about the last week
	fitted  time.Time     // newest of the data of the last refit
	every   time.Duration // of the last round
}

// An advice is the newest recommendation, and what it was given for.
type advice struct {
	Given bool                  `json:"given"`
	At    time.Time             `json:"at"`
	Sum   policy.Snapshot       `json:"sum"`
	Rec   policy.Recommendation `json:"rec"`
}

// A change is a recommendation that differs from the one before.
type change struct {
	At         time.Time    `json:"at"`
	From       policy.Limit `json:"from"` // in force then
	To         policy.Limit `json:"to"`
	Codes      []string     `json:"codes"`
	Reason     string       `json:"reason"`
	Predicted  float64      `json:"predictedRps"`
	Confidence float64      `json:"confidence"`
}

// A shift is when the level of the rate changed for good.
type shift struct {
	At time.Time `json:"at"`
	Up bool      `json:"up"`
}

// Tuning is what a memory is made with.
type Tuning struct {
	Forecast forecast.Settings
	Policy   policy.Settings
}

func newMemory(t *Tuning) *memory {
	return &memory{future: forecast.New(t.Forecast), policy: policy.New(t.Policy), track: newTrack()}
}

// newest is the end of what is known; zero when nothing is.
func (m *memory) newest() time.Time {
	at := m.fleet.Newest
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

// refit hands out a refit when one is due and worth its while.
func (m *memory) refit() (job *forecast.Job, due bool) {
	at := m.forecastAt()
	alarm := len(m.shifts) > 0 && m.shifts[len(m.shifts)-1].At.Sub(m.fitted) > time.Second
	if !alarm && !m.fitted.IsZero() && at.Sub(m.fitted) < pace(m.every) {
		return nil, false
	}
	if job, due = m.future.Refit(); due {
		m.fitted = at
	}
	return job, due
}

// learn takes in a snapshot of the time we are in. changed is the change of the
// recommendation that comes of it, nil when there is none; it is the caller's own.
func (m *memory) learn(s *snapshot) (changed *change, err error) {
	sum, ended, err := m.fleet.add(s)
	if err != nil || !ended {
		return nil, err
	}
	m.rounds++
	m.every = sum.Interval
	if newest, ok := m.future.History().Newest(); ok {
		m.rate(sum.Observed, sum.At.Sub(newest))
	} else {
		m.rate(sum.Observed, 0)
	}
	m.future.Observe(sum.At, sum.Interval, sum.Observed)
	m.notice()
	if !known(sum.Limit) {
		m.note(&sum, math.NaN())
		return nil, nil
	}
	rec := m.policy.Advise(sum, m.outlook(sum.Interval))
	before := m.advice
	m.advice = advice{Given: true, At: sum.At, Sum: sum, Rec: rec}
	m.note(&sum, rec.Rate())
	if before.Given && before.Rec.Limit == rec.Limit || !before.Given && sum.Limit == rec.Limit {
		return nil, nil
	}
	changed = &change{
		At: sum.At, From: sum.Limit, To: rec.Limit, Codes: rec.Codes, Reason: rec.Reason,
		Predicted: rec.PredictedRPS, Confidence: rec.Confidence,
	}
	m.changes = append(m.changes, *changed)
	if len(m.changes) > changesMax {
		m.changes = slices.Delete(m.changes, 0, len(m.changes)-changesMax)
	}
	return changed, nil
}

// notice remembers a change of level that the forecast has just found.
func (m *memory) notice() {
	at, up, known := m.future.Shift()
	at = at.UTC()
	if !known || len(m.shifts) > 0 && !at.After(m.shifts[len(m.shifts)-1].At) {
		return
	}
	m.shifts = append(m.shifts, shift{at, up})
	if len(m.shifts) > shiftsMax {
		m.shifts = slices.Delete(m.shifts, 0, len(m.shifts)-shiftsMax)
	}
}

// outlook is the forecast in the form and with the steps of the policy.
func (m *memory) outlook(interval time.Duration) policy.Outlook {
	step := min(max(interval, stepMin), stepMax)
	points := m.future.Outlook(max(horizon, step), step)
	o := policy.Outlook{Step: step, Points: make([]policy.Point, len(points))}
	for i, p := range points {
		o.Points[i] = policy.Point{Q05: p.Q05, Q50: p.Q50, Q80: p.Q80, Q95: p.Q95, Q99: p.Q99}
	}
	return o
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
		valObserved: float32(sum.Observed), valForwarded: float32(sum.Forwarded),
		valLimit: unknown(sum.Limit.Rate()), valRecommended: unknown(recommended),
		valLow: unknown(capacity.Q20), valMid: unknown(capacity.Q50), valHigh: unknown(capacity.Q80),
		valP95: unknown(sum.P95.Seconds()), valErrors: float32(sum.Errors),
	})
}
