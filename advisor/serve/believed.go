package serve

import (
	"net/http"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/internal/service"
)

// A believed is the JSON of GET /v1/state. Times are seconds.
type believed struct {
	Newest         *time.Time    `json:"newest"`
	Rounds         uint64        `json:"rounds"`
	HistorySpan    float64       `json:"historySpan"`
	Recommendation *advised      `json:"recommendation"`
	InForce        *policy.Limit `json:"inForce"`
	Capacity       capacityJSON  `json:"capacity"`
	Guard          policy.Guard  `json:"guard"`
	LastGood       *policy.Limit `json:"lastGood"`
	Base           float64       `json:"baseLatency"` // p95 at low load
	Forecast       []mixtureJSON `json:"forecast"`
	Shifts         []shift       `json:"shifts"`
	Instances      []instance    `json:"instances"`
	Changes        []change      `json:"changes"` // the newest first
	Parked         *time.Time    `json:"parked,omitempty"`
	Jumps          uint64        `json:"jumps"`
}

// A capacityJSON is what the target is believed to take; no quantiles: unknown.
type capacityJSON struct {
	Known bool `json:"known"`
	policy.Capacity
}

// A mixtureJSON is what the forecast of one horizon is made of.
type mixtureJSON struct {
	Horizon float64            `json:"horizon"`
	Error   float64            `json:"error"` // sum of errors over sum of rates
	Scored  int64              `json:"scored"`
	Weights map[string]float64 `json:"weights"`
}

// An instance is a proxy.
type instance struct {
	Name      string    `json:"name"`
	At        time.Time `json:"at"`
	Interval  float64   `json:"interval"`
	Observed  float64   `json:"observedRps"`
	Forwarded float64   `json:"forwardedRps"`
	Counts    bool      `json:"counts"` // false: it has been silent for too long
}

// instancesShown bounds the proxies in an answer.
const instancesShown = 200

func (s *Server) serveState(w http.ResponseWriter, _ *http.Request) {
	service.WriteJSON(w, http.StatusOK, s.core.believed())
}

// believed copies what is believed.
func (c *core) believed() *believed {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.now
	known := m.policy.State()
	b := &believed{
		Rounds: m.rounds, HistorySpan: m.future.History().Age().Seconds(), Jumps: c.jumps,
		Capacity: capacityJSON{known.Capacity.Q50 > 0, known.Capacity}, Guard: known.Guard, LastGood: known.LastGood, Base: known.Base,
		Forecast: mixtures(m.future.Weights()), Shifts: append([]shift{}, m.shifts...), Instances: m.instances(), Changes: []change{},
	}
	if at := m.newest(); !at.IsZero() {
		at = at.UTC()
		b.Newest = &at
	}
	if c.parked != nil {
		at := c.parkedTo.UTC()
		b.Parked = &at
	}
	if m.advice.Given {
		r := reply{limit: m.advice.Rec.Limit, advice: m.advice.Rec, at: m.advice.At}
		advised := r.JSON()
		advised.Forecast = nil
		limit := m.advice.Sum.Limit
		b.Recommendation, b.InForce = &advised, &limit
	}
	for i := len(m.changes) - 1; i >= 0; i-- {
		b.Changes = append(b.Changes, m.changes[i])
	}
	return b
}

func mixtures(list []forecast.Mixture) []mixtureJSON {
	all := make([]mixtureJSON, len(list))
	for i, m := range list {
		all[i] = mixtureJSON{m.Ahead.Seconds(), m.Error, m.Scored, make(map[string]float64)}
		for _, w := range m.Weights {
			all[i].Weights[w.Expert] = w.Share
		}
	}
	return all
}

// instances are the proxies that are known, those that count first.
func (m *memory) instances() []instance {
	all := []instance{}
	for _, counts := range []bool{true, false} {
		for _, p := range m.fleet.Members {
			if m.fleet.live(p) == counts && len(all) < instancesShown {
				all = append(all, instance{p.Name, p.At.UTC(), p.Interval.Seconds(), p.Last.Observed, p.Last.Forwarded, counts})
			}
		}
	}
	return all
}
