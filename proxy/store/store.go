package store

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"weir/proxy/limit"
)

// CountersMax is the largest number of counters in one ask: the global limit and 8
// rules.
const CountersMax = 9

// A Counter is one thing to be counted: a key within a rule, its limit and what
// a request costs there. One whose limit is off is admitted without a state.
type Counter struct {
	Rule     string        // the rule's id; the counters of one ask have different ones
	Key      []byte        // borrowed during the call
	Limit    *limit.Limit  // as it is now; it may differ from ask to ask
	Cost     int64         // ≥ 1, or 0 to look only
	Reserve  int64         // permits that must be left, see [limit.Ask]
	MaxDelay time.Duration // leaky: the longest wait, whole microseconds; 0: as long as the queue is
}

// Ask returns what n requests want of the counter's key.
func (c *Counter) Ask(n int64) limit.Ask {
	return limit.Ask{Cost: c.Cost, N: n, Reserve: c.Reserve, MaxDelay: c.MaxDelay}
}

// An Ask is N requests, at least 1, which wait for the same 1 to [CountersMax]
// counters.
//
// Owned by its loop.
type Ask struct {
	Counters []Counter
	N        int
	// Traced has the answer tell what it was worked out from. Such an ask is not answered
	// from memory.
	Traced bool
}

// An Answer says how many of an ask's requests may go, and why not more. A store
// overwrites all of it and reuses the memory of Decisions.
//
// Owned by its loop.
type Answer struct {
	// Granted is how many may go, the ones that came first: 0 to Ask.N.
	Granted int
	// Decisions holds one decision for each counter, in the ask's order, about the
	// last of the requests. Where that one was refused, Allowed is false for the
	// counters which refused it, and the numbers are those before it.
	Decisions []limit.Decision
	// Tightest is the index of the decision that the client is told about: see
	// [Tightest].
	Tightest int
	// Mode is how the answer came about.
	Mode Mode
	// At is when the store decided, by its clock, in µs since the epoch; of several
	// instants the first. 0: it has not, or all counters are off.
	At int64
	// Traces holds for each counter of an ask that is Traced what its decision was worked
	// out from. It is empty when no store has decided.
	Traces []Trace
}

// A Trace is the state in which a store found the key of a counter. With it the decision
// about each of several requests can be worked out elsewhere.
type Trace struct {
	At     int64       // when, by the store's clock, in µs since the epoch; 0 for a counter that is off
	Before limit.State // shares nothing with the store
}

// Delay returns how long a request must wait that was granted alone: until its slot
// in each queue has come.
func (a *Answer) Delay() (longest time.Duration) {
	for i := range a.Decisions {
		longest = max(longest, a.Decisions[i].Delay)
	}
	return longest
}

// Decision returns the decision of the tightest counter.
func (a *Answer) Decision() limit.Decision { return a.Decisions[a.Tightest] }

// A Mode says how an answer came about.
type Mode uint8

const (
	Exact    Mode = iota // the store decided
	Cached               // refused before, and the time to retry has not come
	FailOpen             // the store was away: admitted
	Local                // the store was away: decided by this proxy alone
	Closed               // the store was away: refused
)

// String returns the word used in logs and metrics.
func (m Mode) String() string {
	switch m {
	case Exact:
		return "exact"
	case Cached:
		return "cached"
	case FailOpen:
		return "failopen"
	case Local:
		return "local"
	}
	return "closed"
}

// Tightest returns the index of the decision about counters that matters to the client:
// of those that refuse, the one with the longest RetryAfter; if none refuses, the one
// with the smallest share remaining of what may be taken at once. The first of equals.
func Tightest(counters []Counter, decisions []limit.Decision) int {
	tightest := 0
	for i := 1; i < len(decisions); i++ {
		if tighter(&decisions[i], &decisions[tightest], counters[i].Limit.Burst(), counters[tightest].Limit.Burst()) {
			tightest = i
		}
	}
	return tightest
}

// tighter compares two decisions about limits of such bursts.
func tighter(d, than *limit.Decision, burst, thanBurst int64) bool {
	switch {
	case d.Allowed != than.Allowed:
		return !d.Allowed
	case !d.Allowed:
		return d.RetryAfter > than.RetryAfter
	}
	// d.Remaining/burst < than.Remaining/thanBurst
	if (d.Limit == limit.Unlimited) != (than.Limit == limit.Unlimited) {
		return than.Limit == limit.Unlimited // any limit is tighter than none
	}
	h1, l1 := bits.Mul64(uint64(d.Remaining), uint64(thanBurst))
	h2, l2 := bits.Mul64(uint64(than.Remaining), uint64(burst))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// A Document is a small value that a store keeps under a name, such as
// ratelimiter:config, for all proxies that share it.
type Document struct {
	Body    []byte
	Version int64 // 1 when first written, one more with each change
}

// Foreign is the version of a document that something else than a proxy has written.
const Foreign = -1

// DocumentBytesMax is the size of the largest body that a store keeps.
const DocumentBytesMax = 4 << 20

// A SizeError is the size in bytes of a body that is larger than DocumentBytesMax.
type SizeError int

// Error names both sizes.
func (e SizeError) Error() string {
	return fmt.Sprintf("must be at most %d bytes as JSON, is %d", DocumentBytesMax, int(e))
}

// ErrReadOnly is the error of a write to documents that are changed elsewhere.
var ErrReadOnly = errors.New("a sidecar reads its configuration from its master: change it there")

// CheckSize returns a SizeError for a body that is too large, or nil.
func CheckSize(body []byte) error {
	if len(body) > DocumentBytesMax {
		return SizeError(len(body))
	}
	return nil
}
