package limit

import (
	"math"
	"time"
)

// Never is the RetryAfter of a cost that the limit can never hold, whatever the
// client waits for.
const Never = time.Duration(math.MaxInt64)

// longest is the longest wait that is not Never.
const longest = Never - time.Microsecond

// A Decision says whether the ask was admitted, and what the key can still do.
type Decision struct {
	Allowed    bool
	Remaining  int64         // whole permits left at now, without overshoot and what is kept back from who asks
	Limit      int64         // the limit; token, leaky: the capacity; off: Unlimited
	RetryAfter time.Duration // until this cost is admitted if nobody else comes; 0 when Allowed
	ResetAfter time.Duration // until the key is as new; 0 when it is
	Delay      time.Duration // leaky: until the slot that was booked, rounded up; 0 when nothing was
	Slot       int64         // leaky: when that is by the clock of whoever decides, µs since the epoch, for Release; 0 when there is no wait
}

// TTL returns for how long from now a store must keep the state that d is about:
// until the key is as new, rounded up to milliseconds, and a margin, so that
// neither rounding nor a clock which steps back a little hands a bucket back
// earlier than it refills.
func (d Decision) TTL() time.Duration {
	const margin = time.Second
	if d.ResetAfter > longest-2*margin {
		return longest
	}
	return (d.ResetAfter+time.Millisecond-1)/time.Millisecond*time.Millisecond + margin
}

// span is the time between two instants, from ≤ until.
func span(from, until int64) time.Duration {
	if until-from > int64(longest/time.Microsecond) {
		return longest
	}
	return time.Duration(until-from) * time.Microsecond
}
