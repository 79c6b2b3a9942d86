package envoy

import (
	"time"

	"weir/internal/data/strict"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/rls"
	"weir/proxy/store"
)

const (
	togetherMax = 8       // limits that are decided together; if there are more, each is decided separately
	keptMax     = 16      // descriptors, and entries of each, whose memory is reused
	keptBytes   = 4 << 10 // memory for keys that is reused
	hitsMax     = 1 << 53 // of a descriptor: larger numbers are not counted exactly
)

// Settings are the operator's settings.
type Settings struct {
	AllOrNothing bool  // nothing is charged if any limit refuses; false: each is decided separately
	Shadow       bool  // nothing is refused
	Quota        bool  // a request is refused if all its limits refuse, instead of any
	Metadata     bool  // responses have dynamic metadata
	DebtMax      int64 // bound of a key's debt, as a multiple of its limit
	NearRatio    float64
	LimitFields  decide.LimitFields // of fields for the client
	Fields       [3]string          // names in place of RateLimit-Limit, -Remaining and -Reset; empty: these
}

// Why a request is not decided, in the words of envoyproxy/ratelimit if it has the same error.
var (
	errUnconfigured = strict.Fault{Message: "no rate limit configuration loaded"}
	errNoDomain     = strict.Fault{Path: "domain", Message: "rate limit domain must not be empty"}
	errNothing      = strict.Fault{Path: "descriptors", Message: "rate limit descriptor list must not be empty"}
	errHits         = strict.Fault{Path: "hitsAddend", Message: "must be at most 9007199254740992"}
	errUnit         = strict.Fault{Path: "limit.unit",
		Message: "must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK"}
)

// An Evaluation is one request. It is reused, and borrows from each request.
//
// Owned by its loop.
type Evaluation struct {
	Request  rls.Request
	Response rls.Response // after Respond; borrowed until Begin

	// Asks are the asks for the store.
	Asks []store.Ask
	// Refunds are the keys to which hits are given back.
	Refunds []Refund
	// Refused copies and remembers a refusal, and returns its id; nil: refusals have no ids.
	Refused func(now time.Time, r *decide.Refusal) (id []byte)
	// Apart says that the request has more limits than can be decided together.
	Apart bool
	// Closed says that the store is unavailable and everything is refused.
	Closed bool

	settings *Settings
	counts   *RequestCounts
	domain   *descriptor.Domain
	asked    []asked
	counters []store.Counter
	found    descriptor.LookupResult
	keys     []byte
	fields   clientFields
}

// A Refund is a number of hits to give back to a key.
type Refund struct {
	Rule string
	Key  []byte // borrowed
	N    int64

	PerSecond bool // of a limit per second
}

// PerSecond reports whether a limit is one per second, as envoyproxy/ratelimit has them.
func PerSecond(l *limit.Limit) bool { return l.Algorithm() == limit.Fixed && l.Window() == time.Second }

// An asked is a descriptor and its result.
type asked struct {
	limit    *descriptor.Limit // nil: none
	own      descriptor.Limit  // the limit in the request, if it has one
	replaced bool              // another limit applies instead
	key      [2]int            // range in Evaluation.keys
	hits     int64
	late     bool // charged even if it is refused; or charges nothing, and is refused if nothing is left
	series   *DescriptorCounts

	ask, counter int // indexes in Asks, and in the ask
	decision     limit.Decision
	known        bool // decision is set
	cached       bool
	at           int64 // store.Answer.At
}

// Begin begins to decide the request in c. domains is nil if none were ever loaded. The error is
// a [strict.Fault].
func (c *Evaluation) Begin(s *Settings, counts *RequestCounts, domains *descriptor.Domains) error {
	c.settings, c.counts = s, counts
	c.Asks, c.Refunds, c.Apart, c.Closed = c.Asks[:0], c.Refunds[:0], false, false
	c.asked, c.counters, c.keys = c.asked[:0], c.counters[:0], c.keys[:0]
	r := &c.Request
	switch {
	case len(r.Domain) == 0:
		return errNoDomain
	case len(r.Descriptors) == 0:
		return errNothing
	case domains == nil:
		return errUnconfigured
	}
	if c.domain = domains.Domain(r.Domain); c.domain == nil {
		counts.NotFound(r.Domain, len(r.Descriptors))
	}
	for range r.Descriptors {
		c.asked = append(c.asked, asked{})
	}
	for i := range r.Descriptors {
		if err := c.find(&r.Descriptors[i], &c.asked[i]); err != nil {
			return strict.WithPath(strict.ElementPath("descriptors", i), err)
		}
	}
	c.replace()
	c.ask()
	return nil
}

// Reset drops what was borrowed, and reports whether the memory of c is small enough to be
// kept. Otherwise texts of a request would live as long as c, and memory for many entries
// would add up.
func (c *Evaluation) Reset() (little bool) {
	r := &c.Request
	little = len(r.Descriptors) <= keptMax && cap(c.keys) <= keptBytes
	for i := range r.Descriptors {
		entries := r.Descriptors[i].Entries
		little = little && len(entries) <= keptMax
		clear(entries)
	}
	r.Domain, c.Response.Metadata = nil, nil
	return little
}

func (c *Evaluation) find(d *rls.Descriptor, a *asked) error {
	hits := d.Hits.Value
	if !d.Hits.Given {
		hits = uint64(max(1, c.Request.HitsAddend))
	}
	switch {
	case hits > hitsMax:
		return errHits
	case d.Override.Given && d.Override.Unit.Window() == 0:
		return errUnit
	case c.domain == nil:
		return nil
	}
	a.hits = int64(hits)
	f := &c.found
	if o := &d.Override; o.Given {
		f.Limit = nil
		a.own.Limit, _ = limit.NewFixed(int64(o.RequestsPerUnit), o.Unit.Window()) // is valid by its type
		a.own.Rule, a.own.Shown = c.domain.Rule, rls.Limit{Given: true, RequestsPerUnit: o.RequestsPerUnit, Unit: o.Unit}
		a.limit = &a.own
	} else {
		c.domain.Walk(d.Entries, f)
		a.limit = f.Limit
	}
	if !a.limits() {
		return nil
	}
	at := len(c.keys)
	c.keys = f.AppendKey(c.keys, d.Entries)
	end := len(c.keys)
	a.key = [2]int{at, end}
	c.keys = f.AppendSeries(c.keys, d.Entries)
	a.series = c.counts.Series(c.domain.Name, c.keys[end:])
	c.keys = c.keys[:end]
	return nil
}

// keyOf returns the key of a descriptor with a limit.
func (c *Evaluation) keyOf(a *asked) []byte { return c.keys[a.key[0]:a.key[1]] }

// replace drops the limits that others replace by name.
func (c *Evaluation) replace() {
	for i := range c.asked {
		if by := c.asked[i].limit; by != nil {
			for _, name := range by.Replaces {
				c.drop(name)
			}
		}
	}
}

// drop drops the limits with a name, except unlimited ones.
func (c *Evaluation) drop(name string) {
	for i := range c.asked {
		if a := &c.asked[i]; a.limits() && a.limit.Shown.Name == name {
			a.replaced = true
		}
	}
}

// ask makes the asks: one for the enforced limits, and one for each other limit.
func (c *Evaluation) ask() {
	enforced := 0
	for i := range c.asked {
		a := &c.asked[i]
		a.ask = -1
		if a.enforced(c.settings) {
			enforced++
		}
		if a.limits() && c.Request.Descriptors[i].Negative && a.hits > 0 {
			c.Refunds = append(c.Refunds, Refund{a.limit.Rule, c.keyOf(a), a.hits, PerSecond(&a.limit.Limit)})
			a.hits = 0
		} else {
			a.late = c.Request.Descriptors[i].Hits.Given
		}
	}
	c.Apart = c.settings.AllOrNothing && enforced > togetherMax
	together := c.settings.AllOrNothing && !c.Apart
	if cap(c.counters) < len(c.asked) {
		c.counters = make([]store.Counter, 0, len(c.asked)) // asks point into it
	}
	if together {
		c.group()
	}
	for i := range c.asked {
		a := &c.asked[i]
		if !a.limits() {
			continue
		}
		if a.ask < 0 {
			c.count(a, len(c.counters))
		}
		a.series.TotalHits.Add(uint64(a.hits))
	}
}

// group makes one ask for the enforced limits. If a key occurs twice, the second one is asked
// separately.
func (c *Evaluation) group() {
	begin := len(c.counters)
	for i := range c.asked {
		if a := &c.asked[i]; a.enforced(c.settings) && !c.counted(a) {
			c.count(a, begin)
		}
	}
}

// counted reports whether the key of a is counted in the first ask.
func (c *Evaluation) counted(a *asked) bool {
	for i := range c.counters {
		if n := &c.counters[i]; n.Rule == a.limit.Rule && string(n.Key) == string(c.keyOf(a)) {
			return true
		}
	}
	return false
}

// count adds a counter to the ask whose counters begin at begin.
func (c *Evaluation) count(a *asked, begin int) {
	counter := store.Counter{Rule: a.limit.Rule, Key: c.keyOf(a), Limit: &a.limit.Limit, Cost: a.hits}
	if a.late {
		counter.Debt = counter.Limit.Debt(c.settings.DebtMax)
	}
	c.counters = append(c.counters, counter)
	n := len(c.counters)
	if n-begin == 1 {
		c.Asks = append(c.Asks, store.Ask{N: 1})
	}
	a.ask, a.counter = len(c.Asks)-1, n-begin-1
	c.Asks[a.ask].Counters = c.counters[begin:n:n]
}

// unlimited reports whether the limit of the descriptor says that there is none.
func (a *asked) unlimited() bool { return a.limit != nil && a.limit.Unlimited }

// limits reports whether the descriptor has a limit.
func (a *asked) limits() bool { return a.limit != nil && !a.limit.Unlimited && !a.replaced }

// enforced reports whether the descriptor alone can cause a refusal.
func (a *asked) enforced(s *Settings) bool {
	return a.limits() && !s.Quota && !a.limit.Shadow && !a.limit.Quota
}

// AddAnswer handles the store's answer to ask i.
func (c *Evaluation) AddAnswer(i int, ans *store.Answer) {
	c.Closed = c.Closed || ans.Mode == store.Closed
	for k := range c.asked {
		a := &c.asked[k]
		if a.ask != i || !a.limits() {
			continue
		}
		a.at, a.cached = ans.At, ans.Mode == store.Cached
		if a.known = a.counter < len(ans.Decisions) && ans.Mode != store.FailOpen && ans.Mode != store.Closed; a.known {
			a.decision = ans.Decisions[a.counter]
			if a.decision.Clipped {
				c.counts.Clipped.Add(1)
			}
		}
	}
}
