package closedloop

// A Result is what a run came to.
type Result struct {
	Seconds int
	// Requests: Offered = First + Retries = Rejected + Gated + Shed + TimedOut + Answered.
	Offered, First, Retries int
	Rejected                int // by the limit, or who takes its place
	Gated                   int // by the gate
	Shed                    int // by the target, as its queue was full
	TimedOut, Answered      int
	Failed                  int // of Answered: 5xx
	Good                    int // of Answered: no 5xx, within the promise

	P95, P99 float64 // seconds, of all who were let in; a timeout counts as what it took
	// Overload is how many seconds had a request that waited at the target for longer
	// than the promise; QueueArea the sum over seconds of the longest wait beyond the
	// promise. A request that times out without such a wait takes long by itself.
	Overload  int
	QueueArea float64

	// Needless were rejected while a worker was idle and all demand would have
	// fit; of those that came while the demand was below 85 % of the capacity,
	// OfferedLow, RejectedLow were rejected, by whomever.
	Needless, OfferedLow, RejectedLow int

	// How the limit kept to what was needed and possible, as means over time: by
	// what share it was below the need, above the capacity, and how often.
	BelowNeed, AboveCapacity         float64
	BelowNeedTime, AboveCapacityTime float64

	Updates    int
	Variation  float64 // sum of |ln limit − ln limit before|
	Violations []string
	// Recovery is how many seconds the slowest of the events took until 30 seconds
	// brought 90 % of the goodput possible.
	Recovery float64

	Timeline []Moment   // when the scenario records
	Foreseen []Foreseen // then, by who forecasts
}

// A Moment is what ten seconds saw, as rates per second.
type Moment struct {
	At                    float64
	Demand, Offered, Good float64
	Capacity, Limit       float64 // Limit: 0 when there is none
	Wait                  float64 // longest, seconds
}

// ErrorShare returns the share of those let in who got a 5xx, a timeout or no room
// in the queue.
func (r *Result) ErrorShare() float64 {
	return float64(r.Failed+r.Shed+r.TimedOut) / float64(max(1, r.Offered-r.Rejected-r.Gated))
}

// MissedShare returns the share of the offered that was let in and timed out.
func (r *Result) MissedShare() float64 {
	return float64(r.TimedOut+r.Shed) / float64(max(1, r.Offered))
}

// NeedlessShare returns the share of the offered that was rejected although there
// was room.
func (r *Result) NeedlessShare() float64 { return float64(r.Needless) / float64(max(1, r.Offered)) }

// LowShare returns the share rejected of what was offered while the demand was
// below 85 % of the capacity.
func (r *Result) LowShare() float64 { return float64(r.RejectedLow) / float64(max(1, r.OfferedLow)) }

// Regret returns by what share of its goodput r falls behind other.
func (r *Result) Regret(other *Result) float64 {
	return 1 - float64(r.Good)/float64(max(1, other.Good))
}
