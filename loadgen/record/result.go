package record

import (
	"slices"
	"strconv"
	"time"

	"weir/loadgen/pace"
)

// An End says why a run ended.
type End string

const (
	EndCompleted End = "completed" // the whole schedule
	EndStopped   End = "stopped"
)

// A Shard identifies one of several generators that share a schedule.
type Shard = pace.Shard

// A Peak is a part of the schedule with a rate far above usual, which an observer of the target
// should notice. Start and End are in seconds after the start of the run; the rate is that of all
// generators together.
type Peak struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Rps   float64 `json:"rps"`
}

// A Result is the result of a run, in the form that is written to files. Spans are in seconds, rates
// per second.
type Result struct {
	Schema    int       `json:"schema"`
	TestID    string    `json:"testId"`
	Verdict   Validity  `json:"verdict"`
	Reasons   []string  `json:"reasons"`
	End       End       `json:"end"`
	StartedAt time.Time `json:"startedAt"`
	Profile   string    `json:"profile"`
	URL       string    `json:"limiterUrl"`
	Duration  float64   `json:"duration"`
	Elapsed   float64   `json:"elapsedTime"`

	ScheduleHash string  `json:"scheduleHash"`
	Shards       []Shard `json:"shards"` // of the generators
	Peaks        []Peak  `json:"peaks"`  // of the schedule, not of the sent requests

	// Due requests were Sent, Unconnected because connecting failed or their heads are too large,
	// Dropped after waiting too long for a connection, or left Unsent by a stop. All but the last have
	// Completed, except for those Abandoned by a stop. Completed is the sum of Success, RateLimited, Shed and Errors.
	Due         uint64 `json:"requestsDue"`
	Sent        uint64 `json:"requestsSent"`
	Unconnected uint64 `json:"unconnected"`
	Dropped     uint64 `json:"dropped"`
	Unsent      uint64 `json:"unsent"`
	Completed   uint64 `json:"completed"`
	Success     uint64 `json:"success"`
	RateLimited uint64 `json:"rateLimited"`
	Shed        uint64 `json:"shed"` // by a gate, because the target was overloaded
	Errors      uint64 `json:"errors"`
	Abandoned   uint64 `json:"abandoned"`
	Retried     uint64 `json:"retried"` // sent again because the target had closed an idle connection, or not processed them

	ErrorsByReason map[string]uint64 `json:"errorsByReason"`
	StatusCodes    map[string]uint64 `json:"statusCodes"`
	LastFault      string            `json:"lastConnectFault,omitempty"`

	TargetRps  float64 `json:"targetRps"`
	SentRps    float64 `json:"sentRps"`
	RateError  float64 `json:"rateError"`  // share of the due requests that were not sent in time
	Throughput float64 `json:"throughput"` // answers per second until the end of the schedule
	SentLate   uint64  `json:"sentLate"`   // missed their time: more than 10 ms late through the generator's fault
	Received   uint64  `json:"receivedBytes"`

	Latency            Summary `json:"latency"` // of all completed requests
	LatencySuccess     Summary `json:"latencySuccess"`
	LatencyRateLimited Summary `json:"latencyRateLimited"`
	LatencyShed        Summary `json:"latencyShed"`
	LatencyErrors      Summary `json:"latencyErrors"`
	ServiceTime        Summary `json:"serviceTime"`
	Lag                Summary `json:"lag"`
	PacerLag           Summary `json:"pacerLag"` // the generator was late while connections were idle
	BusyLag            Summary `json:"busyLag"`  // requests waited for a busy connection; only those that did
	DialLag            Summary `json:"dialLag"`  // requests waited for a new connection; only those that did

	Loops       int               `json:"loops"`
	Connections Connections       `json:"connections"`
	Thresholds  []ThresholdResult `json:"thresholds"`
	Series      Series            `json:"series"`
	Histograms  Histograms        `json:"histograms"`
	Config      any               `json:"config"`
}

// Connections describe a run's connections.
type Connections struct {
	Max    int    `json:"max"`  // allowed
	Peak   int    `json:"peak"` // open at the same time
	Opened uint64 `json:"opened"`
	Failed uint64 `json:"failed"` // dials
}

// schema is incremented with incompatible changes of Result.
const schema = 1

// Result completes r, which holds what is not counted, and judges it; settled is the number of
// requests that were due up to LateThreshold before a stop. Nothing may be added afterwards.
func (s *Totals) Result(r Result, settled uint64, thresholds []Threshold) *Result {
	a := s.all
	e := a.Evidence()
	e.Count(&a.Counts, settled)
	r.Schema, r.RateError = schema, e.RateError()
	r.Verdict, r.Reasons = e.Judge()
	r.Sent, r.Unconnected, r.Dropped, r.Unsent, r.Completed = a.Sent(), a.Unconnected, a.Dropped(), a.Unsent, a.Completed()
	r.Success, r.RateLimited, r.Shed, r.Errors = a.Class[Success], a.Class[RateLimited], a.Class[Shed], a.Class[Failed]
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
		r.SentRps = float64(e.Started-min(e.Started, e.Unconnected)) / r.Elapsed
		r.Throughput = float64(a.InSpan) / r.Elapsed
	}
	r.check(thresholds)
	return &r
}

func (r *Result) spread() {
	h := &r.Histograms
	r.Latency, r.LatencySuccess = h.Latency().Summary(), h.LatencySuccess.Summary()
	r.LatencyRateLimited, r.LatencyShed, r.LatencyErrors = h.LatencyRateLimited.Summary(), h.LatencyShed.Summary(),
		h.LatencyErrors.Summary()
	r.ServiceTime, r.Lag = h.ServiceTime.Summary(), h.Lag.Summary()
	r.PacerLag, r.BusyLag, r.DialLag = h.PacerLag.Summary(), h.BusyLag.Summary(), h.DialLag.Summary()
}

func (r *Result) check(thresholds []Threshold) {
	r.Thresholds = []ThresholdResult{}
	for _, t := range thresholds {
		r.Thresholds = append(r.Thresholds, t.Check(r))
	}
}

// ThresholdsHeld reports whether all thresholds were met.
func (r *Result) ThresholdsHeld() bool {
	return !slices.ContainsFunc(r.Thresholds, func(t ThresholdResult) bool { return !t.Held })
}

// Attempted returns the number of requests that were sent or would have been, had connecting not
// failed.
func (r *Result) Attempted() uint64 { return r.Sent + r.Unconnected }

// Share returns n as a share of all completed requests.
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
