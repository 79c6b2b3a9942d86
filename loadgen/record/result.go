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
	// EndStopped: somebody asked for it.
	EndStopped End = "stopped"
)

// Facts are what is known of a run besides what was counted.
type Facts struct {
	TestID    string
	Profile   string // as the log shows it
	URL       string
	StartedAt time.Time
	Planned   time.Duration // how long the schedule was to last
	Elapsed   time.Duration // how long it lasted
	End       End
	Due       uint64  // requests due by its end
	Settled   uint64  // of these, due up to CatchUp before a stop
	TargetRps float64 // planned on average
	Loops     int
	Peak      int // connections open at the same time, at most
	PoolMax   int // connections allowed
	LastFault string
	Config    any // the configuration, with all defaults filled in

	Shard        Shard  // the zero value stands for the only one
	ScheduleHash string // the same for all generators that share a schedule
	Peaks        []Peak // that the schedule had until the run ended
}

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

// Result sums the run up and judges it. Nothing may be added any more.
func (s *Totals) Result(f *Facts, thresholds []Threshold) *Result {
	a := s.all
	e := Evidence{
		Due: f.Settled, Sent: a.Sent - min(a.Sent, a.SentBehind), Late: a.SentLate,
		PacerLagP99: a.PacerLag().P99, LagP99: a.Lag().P99,
		Dialled: a.DialLag().Count > a.BusyLag().Count,
	}
	verdict, reasons := e.Judge()
	r := &Result{
		Schema: schema, TestID: f.TestID, Verdict: verdict, Reasons: reasons, End: f.End,
		StartedAt: f.StartedAt, Profile: f.Profile, URL: f.URL,
		Duration: f.Planned.Seconds(), Elapsed: f.Elapsed.Seconds(),
		Due: f.Due, Sent: a.Sent, Dropped: a.Dropped(), Unsent: a.Unsent, Completed: a.Completed(),
		Success: a.Class[Success], RateLimited: a.Class[RateLimited], Errors: a.Class[Failed],
		Abandoned: a.Abandoned, Retried: a.Retried,
		ErrorsByReason: a.errorsByReason(), StatusCodes: a.statusCodes(), LastFault: f.LastFault,
		TargetRps: f.TargetRps, RateError: e.RateError(), SentLate: a.SentLate, Received: a.Received,
		Latency: a.Latency(), LatencySuccess: a.LatencyOf(Success),
		LatencyRateLimited: a.LatencyOf(RateLimited), LatencyErrors: a.LatencyOf(Failed),
		ServiceTime: a.Service(), Lag: a.Lag(), PacerLag: a.PacerLag(), BusyLag: a.BusyLag(), DialLag: a.DialLag(),
		Loops:       f.Loops,
		Connections: Connections{Max: f.PoolMax, Peak: f.Peak, Opened: a.Opened, Failed: a.DialsFailed},
		Thresholds:  []Checked{}, Series: s.series.clone(), Histograms: a.giveAway(), Config: f.Config,
		ScheduleHash: f.ScheduleHash, Shards: []Shard{f.Shard}, Peaks: append([]Peak{}, f.Peaks...),
	}
	if f.Shard == (Shard{}) {
		r.Shards[0].Of = 1
	}
	if span := f.Elapsed.Seconds(); span > 0 {
		r.SentRps = float64(e.Sent) / span
		r.Throughput = float64(a.InSpan) / span
	}
	for _, t := range thresholds {
		r.Thresholds = append(r.Thresholds, t.Check(r))
	}
	return r
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
