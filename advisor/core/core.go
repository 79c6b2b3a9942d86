package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
)

// IntervalMax is the longest interval of a snapshot: a proxy that could not report for a
// long time reports all of it.
const IntervalMax = 24 * time.Hour

// A Snapshot is what one proxy observed in one interval.
type Snapshot struct {
	At        time.Time     // its end
	Interval  time.Duration // > 0, ≤ IntervalMax
	Instance  string        // which proxy
	Observed  float64       // requests per second that arrived
	Forwarded float64       // … and were let through
	Rejected  float64       // share of those that arrived
	Delivered float64       // requests per second that had been refused and stored before, and were forwarded now
	P95       float64       // of the answers, in seconds; 0: there were none
	Errors    float64       // share of the answers
	Ended     float64       // answers, including those that did not come
	Limit     policy.Limit  // in force

	Mode      policy.Mode
	OwnStore  bool    // it has a store of its own, and all of Limit to itself
	GateLimit float64 // sum of its gates' limits, mean; 0: no gates
	GateShare float64 // share of the interval in which gates held requests back
	InFlight  float64 // requests at the targets, mean
}

// A Result is how a snapshot was handled.
type Result uint8

const (
	Learned     Result = iota // learned from, and answered
	Late                      // not newer than its proxy's newest: answered
	Doubtful                  // its rate is not confirmed yet: answered
	Old                       // of a past time: refused
	Ahead                     // of a time that is not accepted yet: refused
	Invalid                   // invalid numbers or form: refused, not seen by a Core
	Full                      // too many proxies: refused
	Failed                    // error of the advisor itself: answered
	ResultCount = iota
)

// String returns the name used in metrics.
func (r Result) String() string {
	return [...]string{"learned", "late", "doubtful", "old", "ahead", "invalid", "full", "failed"}[r]
}

// A Response is the answer to a snapshot.
type Response struct {
	Result         Result
	Limit          policy.Limit          // for the requesting proxy
	Recommendation policy.Recommendation // for all proxies together
	At             time.Time             // of the forecast
	Points         []forecast.Point      // ForecastStep apart, up to ForecastHorizon
	Newest         time.Time             // the newest snapshot before this one
	Changed        *Change               // nil unless the recommendation has changed; a copy for the caller
	// number of proxies with stores of their own between which the limit is divided; 0: it is not divided
	Shares    int
	Restarted bool  // another time was accepted, and what was known is lost
	Err       error // if the snapshot is refused
}

// The part of the forecast in every answer.
const (
	ForecastHorizon = 10 * time.Minute
	ForecastStep    = time.Minute
)

// A Core has everything that the advisor knows, and decides.
//
// Owned by one goroutine.
type Core struct {
	settings Settings
	clock    clock
	doubt    doubt
	now      *memory
	jumps    uint64
}

// New returns a Core without knowledge.
func New(t Settings) *Core { return &Core{settings: t, now: newMemory(&t)} }

// HandleSnapshot processes a snapshot and answers it.
func (c *Core) HandleSnapshot(s *Snapshot) Response {
	newest := c.now.newest()
	anew := false
	switch c.clock.rule(s, &c.now.Fleet) {
	case rulingLate:
		return c.answer(s, Late, nil)
	case rulingOld:
		return Response{Result: Old, Newest: newest, Err: errOld}
	case rulingAhead:
		return Response{Result: Ahead, Newest: newest, Err: errAhead}
	case rulingGap:
		c.jumps++
	case rulingOther:
		c.jumps++
		c.now, anew = newMemory(&c.settings), true
	}
	if most := c.now.believable(); !c.doubt.rule(s, most) {
		return doubtful(s, most)
	}
	changed, err := c.now.learn(s)
	if err != nil {
		return Response{Result: Full, Err: err}
	}
	r := c.answer(s, Learned, changed)
	r.Newest, r.Restarted = newest, anew
	return r
}

var (
	errOld   = errors.New("is more than a minute older than the newest snapshot")
	errAhead = errors.New("is far ahead of the newest snapshot, and is accepted when another one confirms it")
)

// Replay processes a snapshot that was learned from before: it is not doubted.
func (c *Core) Replay(s *Snapshot) error {
	_, err := c.now.learn(s)
	return err
}

// answer returns the newest recommendation as an answer to s.
func (c *Core) answer(s *Snapshot, what Result, changed *Change) Response {
	a := &c.now.Advice
	n := c.now.Fleet.sharers(s)
	var r Response
	switch {
	case !known(s.Limit):
		r = KeepLimit(s, what, "unknown_algorithm", "the algorithm is unknown, the limit stays")
	case !a.Given:
		return KeepLimit(s, what, policy.Hold.Code, "nothing is known yet, the limit stays")
	case !a.meets(s):
		r = KeepLimit(s, what, ReasonLimitChanged,
			"the limit is not the one that the newest recommendation was based on, it stays until the next")
	case n > 1 && c.now.Fleet.first(s.Instance): // the proxy that it may have replaced still counts
		r = KeepLimit(s, what, reasonUnshared,
			"the proxy is new and has a store of its own, the limit stays until it has reported again")
	case n > 1:
		r = divided(s, what, a, n)
	default:
		r = Response{Result: what, Limit: a.Rec.Limit, Recommendation: a.Rec}
	}
	if s.OwnStore {
		r.Shares = n
	}
	r.Changed, r.Recommendation.GateMax = changed, a.Rec.GateMax
	r.At, r.Points = c.Forecast(ForecastHorizon, ForecastStep)
	return r
}

// ReasonLimitChanged is the reason code if the recommendation was made for another limit.
const ReasonLimitChanged = "changed"

// rounded is the share by which a limit may differ because numbers were rounded to
// integers.
const rounded = 0.01

// meets reports whether the recommendation was made for the limit of s. That limit may
// have been changed since the round, or proxies whose limits were added up may share a
// store again. A limit on the way to the recommendation was clipped by the proxy.
func (r *LatestRecommendation) meets(s *Snapshot) bool {
	before, after, now := r.Sum.Limit.Rate(), r.Rec.Rate(), s.Limit.Rate()
	switch {
	case s.Limit == r.Sum.Limit:
		return true
	case s.Limit.Algorithm == policy.Off || r.Rec.Limit.Algorithm == policy.Off || now == 0:
		return false
	case s.OwnStore: // its limit is one of those that were added up
		return true
	}
	return s.Limit.Algorithm == r.Rec.Limit.Algorithm && now >= min(before, after)*(1-rounded) &&
		now <= max(before, after)*(1+rounded)
}

// KeepLimit returns an answer that keeps the limit in force.
func KeepLimit(s *Snapshot, what Result, code, reason string) Response {
	return Response{Result: what, Limit: s.Limit, At: s.At, Recommendation: policy.Recommendation{
		PredictedRPS: s.Observed, Predicted95: s.Observed, ValidFor: 2 * s.Interval, Codes: []string{code}, Reason: reason,
	}}
}

// doubtful answers a snapshot whose rate is not confirmed.
func doubtful(s *Snapshot, most float64) Response {
	r := KeepLimit(s, Doubtful, "doubtful_rate", fmt.Sprintf(
		"%.4g/s is more than %g times what the last week had, the limit stays until another snapshot confirms it",
		s.Observed, doubtFactor))
	r.Recommendation.PredictedRPS, r.Recommendation.Predicted95 = most, most
	return r
}

// known reports whether the policy knows the algorithm of l.
func known(l policy.Limit) bool {
	return slices.Contains([]string{policy.Fixed, policy.Sliding, policy.Token, policy.SlidingLog, policy.GCRA,
		policy.Leaky, policy.Off}, l.Algorithm)
}
