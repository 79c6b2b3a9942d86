package record

import (
	"strconv"
	"time"
)

// An End says why a run ended.
type End string

const (
	// EndCompleted: the schedule was over.
	EndCompleted End = "completed"
	// EndStopped: by request.
	EndStopped End = "stopped"
)

// A Shard says which of several generators on one schedule it was.
type Shard struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// A Peak is a stretch of the schedule in which it asked for more than usual:
// what an observer of the target ought to notice. Start and End are in seconds
// after the start of the run, the rate is that of all generators together.
type Peak struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Rps   float64 `json:"rps"`
}

// A Result is everything there is to say about a run, and the form in which it
// is written to a file. Spans are in seconds, rates per second.
type Result struct {
	Schema    int       `json:"schema"`
	TestID    string    `json:"testId"`
	Verdict   Verdict   `json:"verdict"`
	Reasons   []string  `json:"reasons"`
	End       End       `json:"end"`
	StartedAt time.Time `json:"startedAt"`
	Profile   string    `json:"profile"`
	URL       string    `json:"limiterUrl"`
	Duration  float64   `json:"duration"`
	Elapsed   float64   `json:"elapsedTime"`

	ScheduleHash string  `json:"scheduleHash"`
	Shards       []Shard `json:"shards"` // whose result this is
	Peaks        []Peak  `json:"peaks"`  // of the schedule, not of what was sent

	// Due requests either were Sent, or Dropped after waiting too long for a
	// connection, or left Unsent by a stop. Sent and Dropped ones have
	// Completed, but for those that a stop Abandoned. Completed is the sum of
	// Success, RateLimited and Errors.
	Due         uint64 `json:"requestsDue"`
	Sent        uint64 `json:"requestsSent"`
	Dropped     uint64 `json:"dropped"`
	Unsent      uint64 `json:"unsent"`
	Completed   uint64 `json:"completed"`
	Success     uint64 `json:"success"`
	RateLimited uint64 `json:"rateLimited"`
	Errors      uint64 `json:"errors"`
	Abandoned   uint64 `json:"abandoned"`
	Retried     uint64 `json:"retried"` // sent again after a kept connection turned out closed

	ErrorsByReason map[string]uint64 `json:"errorsByReason"`
	StatusCodes    map[string]uint64 `json:"statusCodes"`
	LastFault      string            `json:"lastConnectFault,omitempty"`

	TargetRps  float64 `json:"targetRps"`
	SentRps    float64 `json:"sentRps"`
	RateError  float64 `json:"rateError"`  // share of what was due that did not leave in time
	Throughput float64 `json:"throughput"` // answers per second until the end of the schedule
	SentLate   uint64  `json:"sentLate"`   // missed their time: more than 10 ms late through the generator's fault
	Received   uint64  `json:"receivedBytes"`

	Latency            Spread `json:"latency"` // of everything that completed
	LatencySuccess     Spread `json:"latencySuccess"`
	LatencyRateLimited Spread `json:"latencyRateLimited"`
	LatencyErrors      Spread `json:"latencyErrors"`
	ServiceTime        Spread `json:"serviceTime"`
	Lag                Spread `json:"lag"`
	PacerLag           Spread `json:"pacerLag"` // the generator was late while connections were idle
	BusyLag            Spread `json:"busyLag"`  // requests waited for a busy connection; only those that did
	DialLag            Spread `json:"dialLag"`  // requests waited for a new connection; only those that did

	Loops       int         `json:"loops"`
	Connections Connections `json:"connections"`
	Thresholds  []Checked   `json:"thresholds"`
	Series      Series      `json:"series"`
	Histograms  Histograms  `json:"histograms"`
	Config      any         `json:"config"`
}

// Connections describe a run's connections.
type Connections struct {
	Max    int    `json:"max"`  // allowed
	Peak   int    `json:"peak"` // open at the same time
	Opened uint64 `json:"opened"`
	Failed uint64 `json:"failed"` // dials
}

// schema counts changes of Result that a reader must know of.
const schema = 1

// Result completes r, which says what is known of the run besides what was counted, and
// judges it: settled of the requests due were due up to CatchUp before a stop. Nothing may
// be added any more.
func (s *Totals) Result(r Result, settled uint64, thresholds []Threshold) *Result {
	a := s.all
	e := a.Evidence()
	e.Count(&a.Counts, settled)
	r.Schema, r.RateError = schema, e.RateError()
	r.Verdict, r.Reasons = e.Judge()
	r.Sent, r.Dropped, r.Unsent, r.Completed = a.Sent, a.Dropped(), a.Unsent, a.Completed()
	r.Success, r.RateLimited, r.Errors = a.Class[Success], a.Class[RateLimited], a.Class[Failed]
	r.Abandoned, r.Retried, r.SentLate, r.Received = a.Abandoned, a.Retried, a.SentLate, a.Received
	r.ErrorsByReason, r.StatusCodes = a.errorsByReason(), a.statusCodes()
	r.Connections.Opened, r.Connections.Failed = a.Opened, a.DialsFailed
	r.Series, r.Histograms = s.series.clone(), a.Histograms
	r.spread()
	if len(r.Shards) == 0 {
		r.Shards = []Shard{{Of: 1}}
	}
	r.Peaks = append([]Peak{}, r.Peaks...) // [] in JSON when there are none
	if r.Elapsed > 0 {
		r.SentRps = float64(e.Sent) / r.Elapsed
		r.Throughput = float64(a.InSpan) / r.Elapsed
	}
	r.check(thresholds)
	return &r
}

// spread makes the spreads those of the histograms.
func (r *Result) spread() {
	h := &r.Histograms
	r.Latency, r.LatencySuccess = h.Latency().Spread(), h.LatencySuccess.Spread()
	r.LatencyRateLimited, r.LatencyErrors = h.LatencyRateLimited.Spread(), h.LatencyErrors.Spread()
	r.ServiceTime, r.Lag = h.ServiceTime.Spread(), h.Lag.Spread()
	r.PacerLag, r.BusyLag, r.DialLag = h.PacerLag.Spread(), h.BusyLag.Spread(), h.DialLag.Spread()
}

// check compares r with thresholds.
func (r *Result) check(thresholds []Threshold) {
	r.Thresholds = []Checked{}
	for _, t := range thresholds {
		r.Thresholds = append(r.Thresholds, t.Check(r))
	}
}

// ThresholdsHeld says whether all thresholds were met.
func (r *Result) ThresholdsHeld() bool {
	for _, t := range r.Thresholds {
		if !t.Held {
			return false
		}
	}
	return true
}

// Share is n as a share of everything that completed.
func (r *Result) Share(n uint64) float64 {
	if r.Completed == 0 {
		return 0
	}
	return float64(n) / float64(r.Completed)
}

func (c *Counts) errorsByReason() map[string]uint64 {
	m := make(map[string]uint64)
	for r := NoError + 1; r < Reasons; r++ {
		if n := c.Reason[r]; n > 0 {
			m[r.String()] = n
		}
	}
	return m
}

func (c *Counts) statusCodes() map[string]uint64 {
	m := make(map[string]uint64)
	for status, n := range c.Status {
		if n > 0 {
			m[strconv.Itoa(status)] = n
		}
	}
	return m
}
