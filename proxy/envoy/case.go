package envoy

import (
	"fmt"
	"strconv"
	"time"

	"weir/proxy/decide"
	"weir/proxy/descriptor"
	"weir/proxy/limit"
	"weir/proxy/rls"
	"weir/proxy/store"
)

const (
	// descriptorsMax bounds the descriptors of a request.
	descriptorsMax = 256
	// togetherMax is how many limits are decided together; of more each is by itself.
	togetherMax = 8
	// keptMax bounds the descriptors, and the entries of each, whose memory is kept.
	keptMax = 16
	// keptBytes bounds the memory for keys that is kept.
	keptBytes = 4 << 10
	// hitsMax bounds the hits of a descriptor: numbers beyond are not counted exactly.
	hitsMax = 1 << 53
)

// Settings are what the operator says.
type Settings struct {
	Together  bool // nothing is charged when any limit refuses; false: each is decided by itself
	Shadow    bool // nothing is refused
	Quota     bool // a request is refused when all its limits refuse, not when any does
	Metadata  bool // responses have dynamic metadata
	NearRatio float64
	Families  decide.Families // of fields for the client
}

// A Refused says why a request is not decided, in the words of envoyproxy/ratelimit where it
// has some.
type Refused struct {
	Path    string // of what is wrong; empty: the whole
	Message string
}

// Error is the message.
func (r *Refused) Error() string { return r.Message }

// The faults of whole requests.
var (
	errUnconfigured = &Refused{Message: "no rate limit configuration loaded"}
	errNoDomain     = &Refused{"domain", "rate limit domain must not be empty"}
	errNothing      = &Refused{"descriptors", "rate limit descriptor list must not be empty"}
	errTooMany      = &Refused{"descriptors", "must be at most " + strconv.Itoa(descriptorsMax)}
)

// A Case is one request. It is used for one after another, and borrows from each.
//
// Owned by its loop.
type Case struct {
	Request  rls.Request
	Response rls.Response // after Judge; borrowed until Open

	// Asks are what the store is asked.
	Asks []store.Ask
	// Gives are the keys that get hits back.
	Gives []Give
	// Refused remembers a refusal, which it copies, and names it; nil: none has an id.
	Refused func(now time.Time, r *decide.Refusal) (id []byte)
	// Apart reports that there are more limits than can be decided together.
	Apart bool

	settings *Settings
	counts   *Counts
	domain   *descriptor.Domain
	asked    []asked
	counters []store.Counter
	found    descriptor.Found
	keys     []byte
	told     telling
}

// A Give is hits that a key gets back.
type Give struct {
	Rule string
	Key  []byte // borrowed
	N    int64
}

// An asked is a descriptor, and what came of it.
type asked struct {
	limit     *descriptor.Limit // nil: none, or one that the descriptor has brought
	own       limit.Limit       // that it has brought
	shown     rls.Limit         // not Given: nothing limits it
	unlimited bool
	rule      string
	key       [2]int // of keys
	hits      int64
	stops     bool // a look that is refused when nothing is left
	series    *Series

	ask, counter int // of Asks, and in it
	decision     limit.Decision
	known        bool // decision is one
	cached       bool
	at           int64 // store.Answer.At
}

// Open begins with the request in c. domains are nil when none were ever loaded. The error
// is a *[Refused].
func (c *Case) Open(s *Settings, counts *Counts, domains *descriptor.Domains) error {
	c.settings, c.counts = s, counts
	c.Asks, c.Gives, c.Apart = c.Asks[:0], c.Gives[:0], false
	c.asked, c.counters, c.keys = c.asked[:0], c.counters[:0], c.keys[:0]
	r := &c.Request
	switch {
	case len(r.Domain) == 0:
		return errNoDomain
	case len(r.Descriptors) == 0:
		return errNothing
	case len(r.Descriptors) > descriptorsMax:
		return errTooMany
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
			err.Path = fmt.Sprintf("descriptors[%d].%s", i, err.Path)
			return err
		}
	}
	c.replace()
	c.ask()
	return nil
}

// Forget drops what was borrowed, and reports whether the memory of c is little enough to be
// kept. Texts of a request would otherwise live as long as c, and what requests need for
// many entries would add up.
func (c *Case) Forget() (little bool) {
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

// find finds the limit of a descriptor.
func (c *Case) find(d *rls.Descriptor, a *asked) *Refused {
	var err *Refused
	if a.hits, err = c.hits(d); err != nil {
		return err
	}
	if d.Override.Given && d.Override.Unit.Window() == 0 {
		return &Refused{"limit.unit", "must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK"}
	}
	if c.domain == nil {
		return nil
	}
	f := &c.found
	if d.Override.Given {
		f.Limit = nil
		a.own, _ = limit.NewFixed(int64(d.Override.RequestsPerUnit), d.Override.Unit.Window()) // is valid by its type
		a.rule, a.shown = c.domain.Rule, rls.Limit{Given: true, RequestsPerUnit: d.Override.RequestsPerUnit, Unit: d.Override.Unit}
	} else {
		if c.domain.Walk(d.Entries, f); f.Limit == nil {
			return nil
		}
		a.limit, a.rule, a.shown, a.unlimited = f.Limit, f.Limit.Rule, f.Limit.Shown, f.Limit.Unlimited
	}
	if a.unlimited {
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

// hits is what a descriptor is to be charged.
func (c *Case) hits(d *rls.Descriptor) (int64, *Refused) {
	hits := d.Hits.Value
	if !d.Hits.Given {
		hits = uint64(max(1, c.Request.HitsAddend))
	}
	if hits > hitsMax {
		return 0, &Refused{"hitsAddend", "must be at most 9007199254740992"}
	}
	return int64(hits), nil
}

// replace drops the limits whose names others replace.
func (c *Case) replace() {
	for i := range c.asked {
		by := c.asked[i].limit
		if by == nil {
			continue
		}
		for _, name := range by.Replaces {
			c.drop(name)
		}
	}
}

// drop drops the limits of a name, but for those that limit nothing anyway.
func (c *Case) drop(name string) {
	for i := range c.asked {
		if a := &c.asked[i]; a.shown.Name == name && !a.unlimited {
			a.shown.Given = false
		}
	}
}

// ask makes the asks: one of the enforced limits, and one of each other.
func (c *Case) ask() {
	enforced := 0
	for i := range c.asked {
		a := &c.asked[i]
		a.ask = -1
		if a.enforced(c.settings) {
			enforced++
		}
		if a.limits() && c.Request.Descriptors[i].Negative && a.hits > 0 {
			c.Gives = append(c.Gives, Give{a.rule, c.keys[a.key[0]:a.key[1]], a.hits})
			a.hits = 0
		} else {
			a.stops = a.hits == 0 && !c.settings.Together
		}
	}
	c.Apart = c.settings.Together && enforced > togetherMax
	together := c.settings.Together && !c.Apart
	if cap(c.counters) < len(c.asked) {
		c.counters = make([]store.Counter, 0, len(c.asked)) // asks point into it
	}
	if together {
		c.group()
	}
	for i := range c.asked {
		if a := &c.asked[i]; a.limits() && a.ask < 0 {
			c.count(a, len(c.counters))
		}
	}
	for i := range c.asked {
		if a := &c.asked[i]; a.limits() {
			a.series.TotalHits.Add(uint64(a.hits))
		}
	}
}

// group makes one ask of the enforced limits. A key that is there twice is asked apart the
// second time.
func (c *Case) group() {
	begin := len(c.counters)
	for i := range c.asked {
		if a := &c.asked[i]; a.enforced(c.settings) && !c.counted(a) {
			c.count(a, begin)
		}
	}
}

// counted reports whether the key of a is counted in the first ask.
func (c *Case) counted(a *asked) bool {
	for i := range c.counters {
		if n := &c.counters[i]; n.Rule == a.rule && string(n.Key) == string(c.keys[a.key[0]:a.key[1]]) {
			return true
		}
	}
	return false
}

// count adds a counter to the ask whose counters begin at begin.
func (c *Case) count(a *asked, begin int) {
	l := &a.own
	if a.limit != nil {
		l = &a.limit.Limit
	}
	c.counters = append(c.counters, store.Counter{Rule: a.rule, Key: c.keys[a.key[0]:a.key[1]], Limit: l, Cost: a.hits})
	n := len(c.counters)
	if n-begin == 1 {
		c.Asks = append(c.Asks, store.Ask{N: 1})
	}
	a.ask, a.counter = len(c.Asks)-1, n-begin-1
	c.Asks[a.ask].Counters = c.counters[begin:n:n]
}

// stop refuses a look when nothing is left: callers that look first, and charge when their
// request is done, would otherwise never be refused. Where limits are decided together it
// does not, as the others are charged already.
func (a *asked) stop() {
	if d := &a.decision; a.stops && d.Allowed && d.Remaining == 0 {
		d.Allowed, d.RetryAfter = false, d.ResetAfter
		if d.RetryAfter == 0 { // the limit is 0
			d.RetryAfter = limit.Never
		}
	}
}

// limits reports whether something limits the descriptor.
func (a *asked) limits() bool { return a.shown.Given && !a.unlimited }

// enforced reports whether the descriptor alone can have the request refused.
func (a *asked) enforced(s *Settings) bool {
	return a.limits() && !s.Quota && (a.limit == nil || !a.limit.Shadow && !a.limit.Quota)
}

// Take takes the store's answer to ask i. It returns false when the store is unavailable and
// refuses everything.
func (c *Case) Take(i int, ans *store.Answer) bool {
	for k := range c.asked {
		a := &c.asked[k]
		if a.ask != i || !a.limits() {
			continue
		}
		a.at, a.cached = ans.At, ans.Mode == store.Cached
		if a.known = a.counter < len(ans.Decisions) && ans.Mode != store.FailOpen && ans.Mode != store.Closed; a.known {
			a.decision = ans.Decisions[a.counter]
			a.stop()
		}
	}
	return ans.Mode != store.Closed
}
