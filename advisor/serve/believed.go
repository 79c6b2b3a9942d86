package serve

import (
	"net/http"
	"time"

	"weir/advisor/core"
	"weir/advisor/policy"
)

// A believed is the JSON of GET /v1/state. Times are in seconds.
type believed struct {
	Newest         *time.Time            `json:"newest"`
	Rounds         uint64                `json:"rounds"`
	HistorySpan    float64               `json:"historySpan"`
	Recommendation *advised              `json:"recommendation"`
	InForce        *policy.Limit         `json:"inForce"`
	Capacity       capacityJSON          `json:"capacity"`
	Guard          policy.OverloadPeriod `json:"guard"`
	Base           float64               `json:"baseLatency"` // p95 at low load
	Forecast       []mixtureJSON         `json:"forecast"`
	Shifts         []core.LevelShift     `json:"shifts"`
	Instances      []core.Proxy          `json:"instances"`
	Changes        []core.Change         `json:"changes"` // the newest first
	Jumps          uint64                `json:"jumps"`
	Unshared       int                   `json:"unshared,omitempty"` // proxies with stores of their own, if there are several
}

// A capacityJSON is the estimate of the target's capacity; without quantiles it is
// unknown.
type capacityJSON struct {
	Known bool `json:"known"`
	policy.Capacity
}

// A mixtureJSON describes the forecast of one horizon.
type mixtureJSON struct {
	Horizon float64            `json:"horizon"`
	Error   float64            `json:"error"` // sum of errors over sum of rates
	Scored  int64              `json:"scored"`
	Weights map[string]float64 `json:"weights"`
}

func (s *Server) serveState(http.ResponseWriter, *http.Request) (any, error) {
	v := s.locked.view()
	return newBelieved(&v), nil
}

// newBelieved converts a view.
func newBelieved(v *core.View) *believed {
	known := &v.PolicyState
	b := &believed{
		Newest: instant(v.Newest), Rounds: v.Rounds, HistorySpan: v.Age.Seconds(), Jumps: v.Jumps,
		Unshared: several(v.OwnStores),
		Capacity: capacityJSON{known.Capacity.Q50 > 0, known.Capacity}, Guard: known.Guard, Base: known.Base,
		Forecast: make([]mixtureJSON, len(v.Mixtures)),
		Shifts:   append([]core.LevelShift{}, v.Shifts...), Instances: append([]core.Proxy{}, v.Proxies...),
		Changes: append([]core.Change{}, v.Changes...),
	}
	if a := &v.Recommendation; a.Given {
		advised := adviceJSON(&core.Response{Limit: a.Rec.Limit, Recommendation: a.Rec})
		advised.Forecast = nil
		b.Recommendation, b.InForce = &advised, &a.Sum.Limit
	}
	for i, m := range v.Mixtures {
		b.Forecast[i] = mixtureJSON{m.Ahead.Seconds(), m.Error, m.Scored, make(map[string]float64)}
		for _, w := range m.Weights {
			b.Forecast[i].Weights[w.Expert] = w.Share
		}
	}
	return b
}
