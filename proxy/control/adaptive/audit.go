package adaptive

import (
	"net/http"
	"slices"
	"time"

	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/proxy/limit"
	"weir/proxy/limit/rails"
)

// linesMax bounds the remembered updates.
const linesMax = 100

// An UpdateRecord is what is kept of one update.
//
// Immutable after New.
type UpdateRecord struct {
	At             time.Time       `json:"at"` // by the real clock
	Result         Result          `json:"result"`
	Reason         string          `json:"reason,omitempty"` // why it was not applied, or not unchanged
	Crossed        []rails.Rail    `json:"crossed,omitempty"`
	Config         *limit.Config   `json:"config,omitempty"`  // put in force, or in mode shadow what would be
	Version        int64           `json:"version,omitempty"` // of the configuration put in force
	Snapshot       *Snapshot       `json:"snapshot"`
	Recommendation *Recommendation `json:"recommendation,omitempty"`
	// mode shadow: counts since the previous update, whose candidate may differ from Config
	Candidate *trial `json:"candidate,omitempty"`
}

// A trial compares what a candidate would have decided about requests with what the limit in
// force did.
type trial struct {
	limit.Config // of the candidate
	verdicts
	Enforced verdicts `json:"enforced"`
}

// verdicts counts the requests that a limit admits and refuses.
type verdicts struct {
	Admitted uint64 `json:"admitted"`
	Refused  uint64 `json:"refused"`
}

func (v verdicts) since(before verdicts) verdicts {
	return verdicts{v.Admitted - before.Admitted, v.Refused - before.Refused}
}

// trial returns the counts of the candidate since it is on trial, or nil without one.
func (f *Follower) trial() *trial {
	t := f.cfg.Candidate()
	if t.Config == (limit.Config{}) {
		return nil
	}
	return &trial{Config: t.Config, verdicts: verdicts{t.Admitted, t.Refused}, Enforced: verdicts(t.Enforced)}
}

// tried returns the counts of the candidate since the last update, or nil without one.
func (f *Follower) tried() *trial {
	now := f.trial()
	if now == nil {
		return nil
	}
	since := *now
	if before := f.before; before != nil && before.Config == now.Config {
		since.verdicts, since.Enforced = now.since(before.verdicts), now.Enforced.since(before.Enforced)
	}
	f.before = now
	return &since
}

// public is the state that other goroutines may read.
type public struct {
	leader    bool
	stale     bool
	failures  int // in a row
	predicted float64
	success   time.Time      // of the last usable recommendation
	next      time.Time      // real time of the next turn
	lines     []UpdateRecord // oldest first
}

// note adds a line. When the list is full it is copied, so that readers can keep the old one.
func (p *public) note(l UpdateRecord) {
	if len(p.lines) >= linesMax {
		p.lines = slices.Clone(p.lines[len(p.lines)-linesMax+1:])
	}
	p.lines = append(p.lines, l)
}

// show changes the public state.
func (f *Follower) show(change func(p *public)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.public)
}

// read returns a copy of the public state.
func (f *Follower) read() public {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.public
}

// answer is the answer to GET /config/adaptive.
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
	Snapshot       *Snapshot       `json:"snapshot,omitempty"`       // the last one, answered or not
	Recommendation *Recommendation `json:"recommendation,omitempty"` // the last one
	Result         *Result         `json:"result,omitempty"`         // of the last update
	Reason         string          `json:"reason,omitempty"`
	// mode shadow: the candidate on trial, with its counts since the trial began
	Candidate *trial         `json:"candidate,omitempty"`
	Updates   []UpdateRecord `json:"updates"` // latest first
}

// answer returns the audit.
func (f *Follower) answer() answer {
	s, p := &f.cfg.Settings, f.read()
	out := answer{Mode: s.Mode, Leader: p.leader, Stale: p.stale, Failures: p.failures,
		Updates: make([]UpdateRecord, 0, len(p.lines))}
	if f.off() {
		return out
	}
	out.Advisor, out.Instance, out.Interval, out.TimeScale = s.URL, f.cfg.Instance, s.Interval.Seconds(), s.Scale
	out.LastSuccess, out.NextUpdate = instant(p.success), instant(p.next)
	out.Candidate = f.trial()
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

// instant returns a pointer to t, or nil if t is zero.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(time.Millisecond)
	return &t
}

// Register adds GET /config/adaptive to own.
func (f *Follower) Register(own *service.Endpoints) {
	own.HandleFunc("GET /config/adaptive", func(w http.ResponseWriter, _ *http.Request) {
		service.WriteJSON(w, http.StatusOK, f.answer())
	})
}

// RegisterMetrics adds the metrics to set.
func (f *Follower) RegisterMetrics(set *metric.Set) {
	for r := range resultCount {
		set.Counter("ratelimiter_adaptive_updates_total"+metric.Labels("result", r.String()),
			"updates of the limit by the advisor, by outcome",
			f.results[r].Load)
	}
	gauge := func(name, help string, of func(p *public) float64) {
		set.Gauge(name, help, func() float64 { p := f.read(); return of(&p) })
	}
	gauge("ratelimiter_adaptive_predicted_rps", "requests per second that the advisor expects; 0: unknown",
		func(p *public) float64 { return p.predicted })
	gauge("ratelimiter_adaptive_last_success_timestamp_seconds",
		"when the advisor last gave a usable answer; 0: never", func(p *public) float64 {
			if p.success.IsZero() {
				return 0
			}
			return float64(p.success.UnixMilli()) / 1000
		})
	gauge("ratelimiter_adaptive_stale", "1 while the advisor has given no usable answer for ADAPTIVE_STALE_AFTER updates",
		func(p *public) float64 { return metric.Bool(p.stale) })
	gauge("ratelimiter_adaptive_leader", "1 on the proxy that applies the advisor's recommendations",
		func(p *public) float64 { return metric.Bool(p.leader) })
}
