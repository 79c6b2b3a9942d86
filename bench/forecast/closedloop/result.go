package closedloop

// A Result is the outcome of a run.
type Result struct {
	Seconds int
	// Requests: Offered, of which First are not retries, = Rejected + Gated + Shed + TimedOut + Answered.
	Offered, First     int
	Rejected           int // by the limit, or by the perfect gate
	Gated              int // by the gate
	Shed               int // by the target, as its queue was full
	TimedOut, Answered int
	Failed             int // of Answered: 5xx
	Good               int // of Answered: no 5xx, within the SLO

	P95, P99 float64 // seconds, of all admitted requests, timeouts included
	// Overload is how many seconds had a request that waited at the target for longer
	// than the SLO; QueueArea is the sum over seconds of the longest wait beyond the
	// SLO. A request that times out without such a wait takes long by itself.
	Overload  int
	QueueArea float64

	// Needless were rejected by the limit although a worker was idle and the demand was
	// below 95 % of the capacity. OfferedLow arrived while it was below 85 %; of these
	// RejectedLow were rejected, by the limit or the gate.
	Needless, OfferedLow, RejectedLow int

	// How far the limit was below the need and above the capacity, as means over time, and
	// for what share of the time.
	BelowNeed, AboveCapacity         float64
	BelowNeedTime, AboveCapacityTime float64

	Updates    int
	Variation  float64 // sum of |ln limit − ln limit before|
	Violations []string
	// Recovery is the longest time in seconds from an event to the start of 30 seconds
	// with 90 % of the possible goodput.
	Recovery float64

	Timeline  []IntervalRates // if the scenario records
	Forecasts []ForecastPoint // likewise
}

// An IntervalRates has the rates of ten seconds, per second.
type IntervalRates struct {
	At                    float64
	Demand, Offered, Good float64
	Capacity, Limit       float64 // Limit: 0 when there is none
	Wait                  float64 // longest, seconds
}

// ErrorShare returns the share of the admitted that got a 5xx, a timeout or no place in
// the queue.
func (r *Result) ErrorShare() float64 {
	return float64(r.Failed+r.Shed+r.TimedOut) / float64(max(1, r.Offered-r.Rejected-r.Gated))
}

// MissedShare returns the share of the offered that was admitted and not answered.
func (r *Result) MissedShare() float64 {
	return float64(r.TimedOut+r.Shed) / float64(max(1, r.Offered))
}

// NeedlessShare returns the share of the offered that was rejected needlessly.
func (r *Result) NeedlessShare() float64 { return float64(r.Needless) / float64(max(1, r.Offered)) }

// LowShare returns the share rejected of what was offered while the demand was
// below 85 % of the capacity.
func (r *Result) LowShare() float64 { return float64(r.RejectedLow) / float64(max(1, r.OfferedLow)) }

// Regret returns by what share of its goodput r falls behind other.
func (r *Result) Regret(other *Result) float64 {
	return 1 - float64(r.Good)/float64(max(1, other.Good))
}
