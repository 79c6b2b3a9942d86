package record

// A Phase is the phase of a run.
type Phase string

const (
	PhaseWaiting   Phase = "waiting"   // for its start
	PhaseRunning   Phase = "running"   // requests are sent when they are due
	PhaseFinishing Phase = "finishing" // the schedule is over, answers are awaited
	PhaseOver      Phase = "over"
)

// A Status is the state of a run at a moment. Spans are in seconds. Percentiles are those of the run
// so far, up to a second old.
type Status struct {
	Running bool   `json:"running"`
	TestID  string `json:"testId"`
	// ScheduleHash is the same for generators that share a schedule.
	ScheduleHash string `json:"scheduleHash"`
	Profile      string `json:"profile"`
	URL          string `json:"limiterUrl"`
	Phase        Phase  `json:"phase"`
	// StartAt is when the first request may be due, empty until it is known: all
	// generators that share a schedule say the same.
	StartAt     string  `json:"startAt,omitempty"`
	Elapsed     float64 `json:"elapsedTime"`
	Duration    float64 `json:"duration"`
	Sent        uint64  `json:"requestsSent"`
	Completed   uint64  `json:"completed"`
	Success     uint64  `json:"success"`
	RateLimited uint64  `json:"rateLimited"`
	Shed        uint64  `json:"shed"`
	Errors      uint64  `json:"errors"`
	CurrentRps  float64 `json:"currentRps"` // sent in the last second
	TargetRps   float64 `json:"targetRps"`  // of the schedule, now
	Latency     struct {
		Mean float64 `json:"mean"`
		P50  float64 `json:"p50"`
		P95  float64 `json:"p95"`
		P99  float64 `json:"p99"`
	} `json:"latency"`
	Lag struct {
		P99 float64 `json:"p99"`
	} `json:"lag"`
	Verdict Validity `json:"verdict"`
	Reasons []string `json:"reasons,omitempty"` // for the verdict, the most important first

	// InFlight and Connections are for the metrics and the progress line.
	InFlight    int `json:"-"`
	Connections int `json:"-"`
	// Course is the run second by second, for what is drawn of it.
	Course Series `json:"-"`
}

// Count sets the counts from c, and the percentiles.
func (s *Status) Count(c *Counts, latency, lag Summary) {
	s.Sent, s.Completed = c.Sent(), c.Completed()
	s.Success, s.RateLimited, s.Shed, s.Errors = c.Class[Success], c.Class[RateLimited], c.Class[Shed], c.Class[Failed]
	s.Latency.Mean, s.Latency.P50, s.Latency.P95, s.Latency.P99 = latency.Mean, latency.P50, latency.P95, latency.P99
	s.Lag.P99 = lag.P99
}
