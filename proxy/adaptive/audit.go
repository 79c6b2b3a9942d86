package adaptive

import (
	"net/http"
	"slices"
	"time"

	"weir/internal/metric"
	"weir/internal/service"
	"weir/proxy/guard"
	"weir/proxy/limit"
)

// linesMax is how many updates are remembered.
const linesMax = 100

// A Line is one update, as it is remembered.
//
// Immutable after New.
type Line struct {
	At             time.Time       `json:"at"` // by the real clock
	Result         Result          `json:"result"`
	Reason         string          `json:"reason,omitempty"` // why not, or not quite
	Crossed        []guard.Rail    `json:"crossed,omitempty"`
	Config         *limit.Config   `json:"config,omitempty"`  // put in force, or it would have been
	Version        int64           `json:"version,omitempty"` // of what was put in force
	Snapshot       *Snapshot       `json:"snapshot"`
	Recommendation *Recommendation `json:"recommendation,omitempty"`
	Candidate      *trial          `json:"candidate,omitempty"` // mode shadow: tried since the update before, which may be another than Config
}

// A trial is what became of the requests that a candidate was asked about: what it
// would have done, and what the limit in force did.
type trial struct {
	limit.Config // of the candidate
	verdicts
	Enforced verdicts `json:"enforced"`
}

// verdicts are how many requests a limit lets pass and refuses.
type verdicts struct {
	Admitted uint64 `json:"admitted"`
	Refused  uint64 `json:"refused"`
}

func (v verdicts) since(before verdicts) verdicts {
	return verdicts{v.Admitted - before.Admitted, v.Refused - before.Refused}
}

// trial is what was counted of the candidate since it is on trial; nil without one.
func (a *Adaptive) trial() *trial {
	t := a.cfg.Candidate()
	if t.Config == (limit.Config{}) {
		return nil
	}
	return &trial{Config: t.Config, verdicts: verdicts{t.Admitted, t.Refused}, Enforced: verdicts(t.Enforced)}
}

// tried is what was counted of the candidate since the last update; nil without one.
func (a *Adaptive) tried() *trial {
	now := a.trial()
	if now == nil {
		return nil
	}
	since := *now
	if before := a.before; before != nil && before.Config == now.Config {
		since.verdicts, since.Enforced = now.since(before.verdicts), now.Enforced.since(before.Enforced)
	}
	a.before = now
	return &since
}

// public is what others may read.
type public struct {
	leader    bool
	stale     bool
	failures  int // in a row
	predicted float64
	success   time.Time // of the last usable recommendation
	next      time.Time // turn
	lines     []Line    // the oldest first
}

// note remembers a line. The list is made anew when it is full, so that readers
// keep what they have.
func (p *public) note(l Line) {
	if len(p.lines) >= linesMax {
		p.lines = slices.Clone(p.lines[len(p.lines)-linesMax+1:])
	}
	p.lines = append(p.lines, l)
}

// show changes what others may read.
func (a *Adaptive) show(change func(p *public)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.public)
}

// read is what others may read now.
func (a *Adaptive) read() public {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.public
}

// answer is GET /config/adaptive.
type answer struct {
	Mode           string          `json:"mode"`
	Advisor        string          `json:"advisor,omitempty"`
	Instance       string          `json:"instance,omitempty"`
	Interval       float64         `json:"interval,omitempty"` // seconds by the snapshots' clock
	TimeScale      float64         `json:"timeScale,omitempty"`
	Leader         bool            `json:"leader"` // applies recommendations
	Stale          bool            `json:"stale"`
	Failures       int             `json:"failures"` // in a row
	LastSuccess    *time.Time      `json:"lastSuccess,omitempty"`
	NextUpdate     *time.Time      `json:"nextUpdate,omitempty"`
	Snapshot       *Snapshot       `json:"snapshot,omitempty"`       // the last that was answered, or should have been
	Recommendation *Recommendation `json:"recommendation,omitempty"` // the last
	Result         *Result         `json:"result,omitempty"`         // of the last update
	Reason         string          `json:"reason,omitempty"`
	Candidate      *trial          `json:"candidate,omitempty"` // mode shadow: on trial, and since it is
	Updates        []Line          `json:"updates"`             // the latest first
}

// answer returns the audit.
func (a *Adaptive) answer() answer {
	s, p := &a.cfg.Settings, a.read()
	out := answer{Mode: s.Mode, Leader: p.leader, Stale: p.stale, Failures: p.failures, Updates: make([]Line, 0, len(p.lines))}
	if a.off() {
		return out
	}
	out.Advisor, out.Instance, out.Interval, out.TimeScale = s.URL, a.cfg.Instance, s.Interval.Seconds(), s.Scale
	out.LastSuccess, out.NextUpdate = instant(p.success), instant(p.next)
	out.Candidate = a.trial()
	for i := len(p.lines) - 1; i >= 0; i-- {
		l := p.lines[i]
		out.Updates = append(out.Updates, l)
		if out.Recommendation == nil {
			out.Recommendation = l.Recommendation
		}
	}
	if len(out.Updates) > 0 {
		last := &out.Updates[0]
		out.Snapshot, out.Result, out.Reason = last.Snapshot, &last.Result, last.Reason
	}
	return out
}

// instant is a time, nil for the zero one.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(time.Millisecond)
	return &t
}

// Register adds GET /config/adaptive to own.
func (a *Adaptive) Register(own *service.Endpoints) {
	own.HandleFunc("GET /config/adaptive", func(w http.ResponseWriter, _ *http.Request) {
		service.WriteJSON(w, http.StatusOK, a.answer())
	})
}

// RegisterMetrics adds the metrics to set.
func (a *Adaptive) RegisterMetrics(set *metric.Set) {
	for r := range resultCount {
		set.Counter("ratelimiter_adaptive_updates_total"+metric.Labels("result", r.String()), "updates of the limit by the advisor, by what came of them",
			a.results[r].Load)
	}
	gauge := func(name, help string, of func(p *public) float64) {
		set.Gauge(name, help, func() float64 { p := a.read(); return of(&p) })
	}
	gauge("ratelimiter_adaptive_predicted_rps", "requests per second that the advisor expects; 0: it has not said",
		func(p *public) float64 { return p.predicted })
	gauge("ratelimiter_adaptive_last_success_timestamp_seconds", "when the advisor last gave a usable answer; 0: never", func(p *public) float64 {
		if p.success.IsZero() {
			return 0
		}
		return float64(p.success.UnixMilli()) / 1000
	})
	gauge("ratelimiter_adaptive_stale", "1 while the advisor has given no usable answer for ADAPTIVE_STALE_AFTER updates",
		func(p *public) float64 { return one(p.stale) })
	gauge("ratelimiter_adaptive_leader", "1 on the proxy that applies the advisor's recommendations", func(p *public) float64 { return one(p.leader) })
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
