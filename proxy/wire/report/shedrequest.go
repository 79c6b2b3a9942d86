package report

import (
	"net/netip"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
)

// A ShedRequest is a request that was given up because its target was overloaded.
type ShedRequest struct {
	At                time.Time
	Target            *roster.Target
	Client            netip.Addr
	Class             uint8 // see gates.MetricClasses
	InFlight, Waiting int
	Waited            time.Duration
	RequestID         string

	limit            int // of the gate
	baseline, median time.Duration
	last             gate.Decrease // zero if there was none
}

// SetGate stores the state of the gate. It does not refer to memory of l.
func (d *ShedRequest) SetGate(l gate.State) {
	d.limit, d.baseline, d.median, d.last = l.Limit, l.Baseline, l.Median, gate.Decrease{}
	if n := len(l.Last); n > 0 {
		d.last = l.Last[n-1]
	}
}

// A ShedExplanation is the JSON form of a request shed by a gate at GET
// /config/decisions/<id>, with the state of the gate at that time. Times are in seconds.
type ShedExplanation struct {
	ID       string          `json:"id"`
	At       time.Time       `json:"at"`
	Reason   string          `json:"reason"` // gate
	URL      string          `json:"target"`
	Address  string          `json:"address"`
	Client   netip.Addr      `json:"client"`
	Class    string          `json:"class"` // the request's priority class
	Limit    int             `json:"limit"`
	InFlight int             `json:"inFlight"`
	Waiting  int             `json:"waiting"` // for a place, in addition to this one
	Waited   float64         `json:"waited"`
	Baseline float64         `json:"baseline"` // median answer time without a queue; 0: unknown
	Median   float64         `json:"median"`
	Last     *gates.Decrease `json:"lastCut,omitempty"`
	// RequestID is empty if requests have no ids.
	RequestID string `json:"requestId,omitempty"`
}

// Explain returns the explanation of a stored decision.
func (d *ShedRequest) Explain(id string, classes *gates.MetricClasses) ShedExplanation {
	e := ShedExplanation{ID: id, At: d.At.UTC(), Reason: "gate", URL: d.Target.URL, Address: d.Target.Addr,
		Client: d.Client, Class: classes.Name(d.Class),
		Limit: d.limit, InFlight: d.InFlight, Waiting: d.Waiting,
		Waited: d.Waited.Seconds(), Baseline: d.baseline.Seconds(), Median: d.median.Seconds(), RequestID: d.RequestID}
	if !d.last.At.IsZero() {
		last := gates.DecreaseOf(&d.last)
		e.Last = &last
	}
	return e
}
