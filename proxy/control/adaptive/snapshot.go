package adaptive

import (
	"math"
	"time"

	"weir/proxy/control/admin"
	"weir/proxy/limit"
	"weir/proxy/wire/report"
)

// A Snapshot is what is sent to the advisor. Rates are per real second, shares from 0 to
// 1, times in seconds. LatencyP95 covers answers to forwarded requests, from the end of
// sending the request to the target until the head of the answer arrived, so that slow
// clients do not count. Errors5xx covers forwarded requests, too. A client that
// disconnects before its request is complete, or soon after, counts for neither.
type Snapshot struct {
	Timestamp    time.Time `json:"timestamp"` // the end of the interval, by the snapshots' clock
	Interval     float64   `json:"interval"`  // by the same clock
	ObservedRPS  float64   `json:"observedRps"`
	ForwardedRPS float64   `json:"forwardedRps"`
	RejectedRate float64   `json:"rejectedRate"`
	LatencyP95   float64   `json:"latencyP95"` // 0: no target has answered
	Errors5xx    float64   `json:"errors5xx"`
	limit.Config           // in force
	Instance     string    `json:"instance"`

	// Ended is the number of requests that ended, with or without an answer: their rate ×
	// Interval. Mode says whether the limit decided: normal, it did; failopen, for a while it did
	// not, because the store was unavailable; shadow, it did and recommendations are not applied.
	// Store reports whether other proxies share the store.
	Ended float64 `json:"ended"`
	Mode  string  `json:"mode"`  // normal, failopen, shadow
	Store string  `json:"store"` // shared, local
	// DeliveredRPS is the rate of stored requests that were forwarded. They do not count in
	// ObservedRPS, ForwardedRPS and RejectedRate, because they arrived and were refused in an
	// earlier interval. They count in LatencyP95, Errors5xx, Ended and the fields below.
	DeliveredRPS float64 `json:"deliveredRps,omitempty"`
	// InFlight is the mean number of concurrent exchanges at the targets, without streams and
	// tunnels, GateLimit the mean sum of the gates' limits, and GateShare the part of GateLimit that
	// belonged to gates that were full.
	InFlight       float64 `json:"inFlight"`
	GateLimit      float64 `json:"gateLimit"` // 0: there are no gates
	GateShare      float64 `json:"gateShare"`
	HealthyTargets int     `json:"healthyTargets"` // at the end of the interval
}

// A clock is the snapshots' clock: it starts at real time and runs scale times as fast. It
// follows changes of the wall clock. Snapshots are due at its turns.
//
// Immutable after New.
type clock struct {
	began    time.Time     // real time
	interval time.Duration // between turns, by this clock
	scale    float64
}

// at returns the time of this clock at a real time.
func (c clock) at(real time.Time) time.Time {
	return real.Round(0).UTC().Add(time.Duration(float64(real.Sub(c.began)) * (c.scale - 1)))
}

// then returns the time of this clock for a real time in the past, which may be that of another
// machine's clock.
func (c clock) then(now, past time.Time) time.Time {
	ago := max(0, now.Round(0).Sub(past.Round(0)))
	return c.at(now).Add(-time.Duration(min(float64(ago)*c.scale, float64(1<<62))))
}

// due returns the real time at which turn n is due. Turn 0 is the start.
func (c clock) due(n int64) time.Time {
	return c.began.Add(time.Duration(float64(n) * float64(c.interval) / c.scale))
}

// turn returns the last turn that is due at a real time.
func (c clock) turn(now time.Time) int64 {
	n := int64(float64(now.Sub(c.began)) * c.scale / float64(c.interval))
	for n > 0 && c.due(n).After(now) {
		n--
	}
	for !c.due(n + 1).After(now) {
		n++
	}
	return n
}

// A reading is a copy of the counters at one time.
//
// Immutable after New.
type reading struct {
	at      time.Time // real time
	turn    int64
	traffic *report.TrafficTotals
}

// intervalMax is the longest interval that the advisor accepts.
const intervalMax = time.Hour

// snapshot returns what happened between two readings under the limit in force. Its time is when
// the second reading was due, even if that was taken a little later.
func (c clock) snapshot(before, now *reading, a *admin.ActiveLimit, instance string) *Snapshot {
	t := now.traffic.Since(before.traffic)
	seconds := now.at.Sub(before.at).Seconds()
	arrived := t.Admitted + t.Denied
	interval := min(math.Round(float64(now.turn-before.turn)*c.interval.Seconds()*1e3)/1e3, intervalMax.Seconds())
	late := now.at.Sub(c.due(now.turn))
	return &Snapshot{
		Timestamp:    c.at(now.at.Add(-late)).Round(time.Millisecond),
		Interval:     interval,
		ObservedRPS:  share(float64(arrived), seconds),
		ForwardedRPS: share(float64(t.Admitted), seconds),
		RejectedRate: share(float64(t.Denied), float64(arrived)),
		LatencyP95:   t.Times.Quantile(0.95).Seconds(),
		Errors5xx:    min(1, share(float64(t.Failed), float64(t.Ended))),
		Config:       a.Policy.Limit.Config(),
		Instance:     instance,

		DeliveredRPS: share(float64(t.Delivered), seconds),

		Ended:    math.Round(share(float64(t.Ended), seconds) * interval),
		InFlight: share(float64(t.Taken)/1e6, seconds), GateLimit: share(float64(t.Places)/1e6, seconds), GateShare: full(&t),
		HealthyTargets: t.Targets,
	}
}

// full returns the share of all places that belonged to gates that were full.
func full(t *report.TrafficTotals) float64 { return min(1, share(float64(t.Bound), float64(t.Places))) }

// share returns part/whole, or 0 if whole is 0.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
