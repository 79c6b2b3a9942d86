package record

// rowsMax bounds the rows of a Series. A run of up to an hour has a row for
// every second; a longer one has rows of two seconds, of four, and so on.
const rowsMax = 3600

// A Row is one step of a run. Its time is where the step begins, in seconds
// after the start. Percentiles of a step longer than a second are those of its
// worst second.
type Row struct {
	T           float64 `json:"t"`
	Due         uint64  `json:"due"`
	Sent        uint64  `json:"sent"`
	Success     uint64  `json:"success"`
	RateLimited uint64  `json:"rateLimited"`
	Errors      uint64  `json:"errors"`
	LatencyP50  float64 `json:"latencyP50"`
	LatencyP99  float64 `json:"latencyP99"`
	LagP99      float64 `json:"lagP99"`
}

// merge adds the step that follows.
func (r *Row) merge(next *Row) {
	r.Due += next.Due
	r.Sent += next.Sent
	r.Success += next.Success
	r.RateLimited += next.RateLimited
	r.Errors += next.Errors
	r.LatencyP50 = max(r.LatencyP50, next.LatencyP50)
	r.LatencyP99 = max(r.LatencyP99, next.LatencyP99)
	r.LagP99 = max(r.LagP99, next.LagP99)
}

// A Series is the course of a run in even steps.
//
// Owned by one goroutine.
type Series struct {
	Step float64 `json:"step"` // seconds
	Rows []Row   `json:"rows"`

	pending int // seconds already in the last row when Step is more than one
}

// add appends a row of one second.
func (s *Series) add(r Row) {
	if s.Step == 0 {
		s.Step = 1
	}
	if s.pending > 0 {
		s.Rows[len(s.Rows)-1].merge(&r)
	} else {
		if len(s.Rows) == rowsMax {
			s.halve()
		}
		s.Rows = append(s.Rows, r)
	}
	if s.pending++; s.pending >= int(s.Step) {
		s.pending = 0
	}
}

// halve merges each two rows into one.
func (s *Series) halve() {
	for i := range rowsMax / 2 {
		s.Rows[i] = s.Rows[2*i]
		s.Rows[i].merge(&s.Rows[2*i+1])
	}
	s.Rows = s.Rows[:rowsMax/2]
	s.Step *= 2
}
