package limit

import (
	"math"
	"time"
)

// Never is the RetryAfter of a cost that the limit can never admit.
const Never = time.Duration(math.MaxInt64)

// longest is the longest wait that is not Never.
const longest = Never - time.Microsecond

// A Decision says whether the ask was admitted, and how many permits the key has left.
type Decision struct {
	Allowed    bool
	Remaining  int64         // whole permits left at now, without overshoot and reserve
	Limit      int64         // the limit; token, leaky: the capacity; off: Unlimited
	RetryAfter time.Duration // until this cost is admitted if no other ask takes permits; 0 if Allowed
	ResetAfter time.Duration // until the key is as new; 0 if it is
	Delay      time.Duration // leaky: until the booked slot, rounded up; 0 if none was booked
	Slot       int64         // leaky: instant of the slot by the decider's clock, µs since the epoch, for Release; 0 without a wait
}

// TTL returns how long from now a store must keep the key's state: until the key is as
// new, rounded up to milliseconds, plus a margin, so that neither rounding nor a clock
// that steps back a little returns permits early.
func (d Decision) TTL() time.Duration {
	const margin = time.Second
	if d.ResetAfter > longest-2*margin {
		return longest
	}
	return (d.ResetAfter+time.Millisecond-1)/time.Millisecond*time.Millisecond + margin
}

// span returns the time between two instants, from ≤ until.
func span(from, until int64) time.Duration {
	if until-from > int64(longest/time.Microsecond) {
		return longest
	}
	return time.Duration(until-from) * time.Microsecond
}
