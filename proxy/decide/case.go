package decide

import (
	"net/netip"

	"weir/proxy/keys"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// A Counted is one of the counters that a request was asked about.
type Counted struct {
	Rule  *rule.Rule
	Name  string       // of the counter in the store
	Index int          // of the rule in its set; -1: the global one
	Limit *limit.Limit // the rule's, or the client's
	Cost  int64
	Key   []byte // borrowed
	Slot  int64  // booked in a queue, see limit.Decision.Slot
	Lacks bool   // the request does not have all parts of the key
}

// A Shadow is a counter that nobody waits for.
type Shadow struct {
	Counted Counted
	Counter store.Counter
}

// A Request is one request as the limiter sees it.
type Request struct {
	Described keys.Request
	Client    netip.Addr // behind trusted proxies not the other end of the connection
	Trusted   bool       // its fields may say its priority class
	Preflight bool       // it is counted apart
	Delivery  bool       // it was stored, and leaves a part of the limit to others
}

// A Case is what the rules say about a request, and what the store is to be asked
// about it. It is used for one request after another, and borrows from each.
//
// Owned by its loop.
type Case struct {
	Policy  *Policy
	Client  netip.Addr // of the request
	Rank    int        // of its priority class, see [rule.Set.Rank]
	Hits    []rule.Hit // the rules that apply
	Exempt  int        // the index of the rule that says that no limit applies; -1: none
	Lacks   *rule.Hit  // the request is refused as it lacks a part of this rule's key; nil: it is not
	Shadows []Shadow   // of rules that are not enforced: the store is to count, and nobody waits
	Asked   []Counted  // the counters of Ask
	Defers  bool       // a rule of theirs may have the request delivered later
	Ask     store.Ask  // only if the request is neither exempt nor refused

	scratch rule.Scratch
}

// Open begins with another request. It returns false for a request of which nothing
// else can be said: so many rules could apply that they cannot be decided together.
func (c *Case) Open(p *Policy, r *Request) bool {
	c.Policy, c.Client, c.Rank, c.Exempt = p, r.Client, 0, -1
	c.Hits, c.Lacks, c.Shadows, c.Defers = nil, nil, c.Shadows[:0], false
	c.Asked = append(c.Asked[:0], p.counted(r.Preflight))
	c.Ask.N = 1
	c.Ask.Counters = append(c.Ask.Counters[:0], store.Counter{Rule: c.Asked[0].Name, Limit: &p.Limit, Cost: 1})
	if p.Rules == nil {
		return true
	}
	if index, exempt := p.Rules.Exempt(r.Described, r.Client, &c.scratch); exempt {
		c.Exempt = index
	} else if c.Hits = p.Rules.Match(r.Described, r.Client, &c.scratch); len(c.Hits) > rule.HitsMax {
		return false
	}
	c.Rank = p.Rules.Rank(&c.scratch, r.Trusted)
	if c.Lacks = rule.Refusing(c.Hits); c.Lacks == nil {
		c.count(r)
	}
	return true
}

// count adds the counters of the rules that apply. Those in shadow are asked by
// themselves: whatever comes of it, the request does not notice.
func (c *Case) count(r *Request) {
	for i := range c.Hits {
		h := &c.Hits[i]
		counted := Counted{Rule: h.Rule, Name: h.Rule.ID, Index: h.Index, Limit: h.Limit, Cost: h.Cost, Key: h.Key, Lacks: h.Lacks != nil}
		if r.Preflight {
			counted.Name = h.Rule.Preflights()
		}
		counter := store.Counter{Rule: counted.Name, Key: h.Key, Limit: h.Limit, Cost: h.Cost, Reserve: h.Reserve, MaxDelay: h.MaxDelay}
		if h.Rule.Mode == rule.Shadow {
			c.Shadows = append(c.Shadows, Shadow{counted, counter})
			continue
		}
		if d := h.Rule.Defer; d != nil {
			c.Defers = true
			if r.Delivery { // at most what leaves room for the request itself
				counter.Reserve = max(counter.Reserve, min(h.Limit.Reserve(d.Kept()), h.Limit.Burst()-h.Cost))
			}
		}
		c.Asked = append(c.Asked, counted)
		c.Ask.Counters = append(c.Ask.Counters, counter)
	}
}
