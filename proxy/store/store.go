package store

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"weir/proxy/limit"
)

// CountersMax is the largest number of counters in one ask: the global limit and 8 rules.
const CountersMax = 9

// A Counter is one thing to count: a key within a rule, its limit, and the cost of a request. A
// counter whose limit is off admits everything and has no state.
type Counter struct {
	Rule     string        // the rule's id; no two counters of an ask have the same rule and key
	Key      []byte        // borrowed during the call
	Limit    *limit.Limit  // current limit; may differ from ask to ask
	Cost     int64         // ≥ 1; or 0 to charge nothing
	Reserve  int64         // permits that must be left; see [limit.Charge]
	MaxDelay time.Duration // leaky: the longest wait, whole microseconds; 0: the length of the queue
	Debt     int64         // not 0: charged even if a counter of the ask refuses; see [limit.Charge]
}

// ExactIntMax bounds the numbers that a float64 represents exactly.
const ExactIntMax = 1 << 53

// Params returns the numbers of a counter for the functions inside databases that repeat the
// arithmetic of package limit: algorithm, burst, number, cost, the limit of gcra, reserve, the longest
// delay of leaky, overshoot, grace, and debt; times are in µs. A cost or reserve that is never admitted
// is replaced by one that a float64 can represent.
func (c *Counter) Params() [10]int64 {
	l := c.Limit
	overshoot, grace := l.Overshoot()
	most := max(l.Burst()+overshoot, c.Debt)
	held := func(permits int64) int64 {
		if permits > most {
			return 2*most + 2
		}
		return permits
	}
	n := [...]int64{int64(l.Algorithm()), l.Burst(), l.WindowOrRate(), held(c.Cost), 0, held(c.Reserve), 0, overshoot,
		grace.Microseconds(), c.Debt}
	switch l.Algorithm() {
	case limit.GCRA:
		n[4] = l.Permits()
	case limit.Leaky:
		n[6] = min(max(0, c.MaxDelay.Microseconds()), ExactIntMax)
	}
	return n
}

// Charge returns what n requests ask of the counter's key.
func (c *Counter) Charge(n int64) limit.Charge {
	return limit.Charge{Cost: c.Cost, N: n, Reserve: c.Reserve, MaxDelay: c.MaxDelay, Debt: c.Debt}
}

// Decide decides n requests of which the counters of their ask admit the first granted, and returns
// the decision about the last.
func (c *Counter) Decide(now int64, s *limit.State, n, granted int64) limit.Decision {
	charged := granted
	if c.Debt > 0 {
		charged = n
	}
	_, d := c.Limit.Decide(now, s, c.Charge(charged))
	if charged < n {
		d = c.Limit.Preview(now, s, c.Charge(1))
	}
	return d
}

// An Ask is N ≥ 1 requests that wait for the same 1 to [CountersMax] counters.
//
// Owned by its loop.
type Ask struct {
	Counters []Counter
	N        int
	// WantsPrior asks for the states that the answer was computed from. Such an ask is not
	// answered from memory.
	WantsPrior bool
}

// An Answer says how many of an ask's requests are admitted, and the decisions. A store
// overwrites all of it and reuses the memory of Decisions.
//
// Owned by its loop.
type Answer struct {
	// Granted is how many requests are admitted, counted from the first: 0 to Ask.N.
	Granted int
	// Decisions holds one decision per counter, in the ask's order, about the last
	// request. If that one was refused, Allowed is false for the counters that refused
	// it, and the numbers are those before it.
	Decisions []limit.Decision
	// Tightest is the index of the decision that is shown to the client; see [Tightest].
	Tightest int
	// Mode is how the answer was reached.
	Mode Mode
	// At is when the store decided, by its clock, in µs since the epoch; the first of
	// several instants. It is 0 if the store did not decide or all counters are off.
	At int64
	// Prior holds for each counter of an ask that WantsPrior what its decision was computed from.
	// It is empty if no store has decided.
	Prior []PriorState
}

// A PriorState is the state in which a store found the key of a counter. It allows computing
// the decision about each of several requests elsewhere.
type PriorState struct {
	At     int64       // time of the decision by the store's clock, in µs since the epoch; 0 if the limit is off
	Before limit.State // shares nothing with the store
}

// Delay returns how long a request that was granted alone must wait until its slots in
// all queues are due.
func (a *Answer) Delay() (longest time.Duration) {
	for i := range a.Decisions {
		longest = max(longest, a.Decisions[i].Delay)
	}
	return longest
}

// Decision returns the decision of the tightest counter.
func (a *Answer) Decision() limit.Decision { return a.Decisions[a.Tightest] }

// A Mode is how an answer was reached.
type Mode uint8

const (
	Exact    Mode = iota // the store decided
	Cached               // refused from memory, as the store has just refused it
	FailOpen             // store unavailable: admitted
	Local                // store unavailable: decided by this proxy alone
	Closed               // store unavailable: refused
)

// String returns the word used in logs and metrics.
func (m Mode) String() string {
	return [...]string{"exact", "cached", "failopen", "local", "closed"}[min(m, Closed)]
}

// Tightest returns the index of the decision that matters most to the client: of those
// that refuse, the one with the longest RetryAfter; if none refuses, the one with the
// smallest remaining share of the burst. The first of equals wins.
func Tightest(counters []Counter, decisions []limit.Decision) int {
	tightest := 0
	for i := 1; i < len(decisions); i++ {
		if tighter(&decisions[i], &decisions[tightest], counters[i].Limit.Burst(), counters[tightest].Limit.Burst()) {
			tightest = i
		}
	}
	return tightest
}

// tighter compares two decisions about limits with the given bursts.
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

// UnknownVersion is the version of a document that something other than a proxy has written.
const UnknownVersion = -1

// DocumentBytesMax is the size of the largest body that a store keeps.
const DocumentBytesMax = 4 << 20

// A SizeError is the size in bytes of a body that is larger than DocumentBytesMax.
type SizeError int

// Error names both sizes.
func (e SizeError) Error() string {
	return fmt.Sprintf("must be at most %d bytes as JSON, is %d", DocumentBytesMax, int(e))
}

// ErrReadOnly is the error of writing documents that are changed elsewhere.
var ErrReadOnly = errors.New("a sidecar reads its configuration from its master: change it there")

// CheckSize returns a SizeError for a body that is too large, or nil.
func CheckSize(body []byte) error {
	if len(body) > DocumentBytesMax {
		return SizeError(len(body))
	}
	return nil
}
