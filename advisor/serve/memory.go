package serve

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goccy/go-json"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/state"
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
	changes []change // the oldest first
	shifts  []shift  // the oldest first
	rounds  uint64   // that were learned from
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

// learn takes in a snapshot of the time we are in. changed is the change of the
// recommendation that comes of it, nil when there is none.
func (m *memory) learn(s *snapshot) (changed *change, err error) {
	sum, ended, err := m.fleet.add(s)
	if err != nil || !ended {
		return nil, err
	}
	m.rounds++
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
	m.changes = append(m.changes, change{
		At: sum.At, From: sum.Limit, To: rec.Limit, Codes: rec.Codes, Reason: rec.Reason,
		Predicted: rec.PredictedRPS, Confidence: rec.Confidence,
	})
	if len(m.changes) > changesMax {
		m.changes = slices.Delete(m.changes, 0, len(m.changes)-changesMax)
	}
	return &m.changes[len(m.changes)-1], nil
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

// The parts of a state file.
const (
	partForecast = "forecast"
	partPolicy   = "policy"
	partTrack    = "track"
	partRest     = "rest"
)

// rest is what has no form of its own.
type rest struct {
	Fleet   fleet    `json:"fleet"`
	Advice  advice   `json:"advice"`
	Changes []change `json:"changes"`
	Shifts  []shift  `json:"shifts"`
	Rounds  uint64   `json:"rounds"`
}

// parts writes the memory down.
func (m *memory) parts() ([]state.Part, error) {
	future, err := m.future.MarshalBinary()
	if err != nil {
		return nil, err
	}
	rules, err := json.Marshal(m.policy.State())
	if err != nil {
		return nil, err
	}
	others, err := json.Marshal(rest{m.fleet, m.advice, m.changes, m.shifts, m.rounds})
	if err != nil {
		return nil, err
	}
	return []state.Part{{Name: partForecast, Data: future}, {Name: partPolicy, Data: rules}, {Name: partTrack, Data: m.track.encode()}, {Name: partRest, Data: others}}, nil
}

// remember makes a memory of what parts wrote.
func remember(t *Tuning, image *state.Image) (*memory, error) {
	m := newMemory(t)
	if err := m.future.UnmarshalBinary(image.Part(partForecast)); err != nil {
		return nil, fmt.Errorf("restore the forecast: %w", err)
	}
	var rules policy.State
	err := json.Unmarshal(image.Part(partPolicy), &rules)
	if err == nil {
		err = m.policy.Restore(rules)
	}
	if err != nil {
		return nil, fmt.Errorf("restore the policy: %w", err)
	}
	if m.track, err = decodeTrack(image.Part(partTrack)); err != nil {
		return nil, fmt.Errorf("restore the track: %w", err)
	}
	var r rest
	if err := json.Unmarshal(image.Part(partRest), &r); err != nil {
		return nil, fmt.Errorf("restore the fleet: %w", err)
	}
	m.fleet, m.advice, m.changes, m.shifts, m.rounds = r.Fleet, r.Advice, r.Changes, r.Shifts, r.Rounds
	return m, nil
}
