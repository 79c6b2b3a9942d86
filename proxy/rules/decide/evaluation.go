package decide

import (
	"net/netip"
	"time"

	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A ChargedCounter is one of the counters that the store is asked about.
type ChargedCounter struct {
	store.Counter // its Rule is the name of the counter; its Key is borrowed
	Rule          *rule.Rule
	Index         int   // index of the rule in its set; -1: the global one
	Slot          int64 // slot booked in a queue; see limit.Decision.Slot
	Lacks         bool  // the request lacks a part of the key
}

// A Request is a request as the limiter sees it.
type Request struct {
	Described *keys.Request
	Client    netip.Addr // behind trusted proxies, not the peer of the connection
	Trusted   bool       // its fields may state its priority class
	Preflight bool       // counted separately
	Delivery  bool       // a stored request, which leaves a share of the limit to others
	// MaxDelay bounds how long leaky limits may hold the request, besides the bounds of their rules,
	// in whole microseconds; 0: no bound.
	MaxDelay time.Duration
}

// delay returns how long the request may be held by a leaky limit with the given bound, where 0
// means no bound.
func (r *Request) delay(own time.Duration) time.Duration {
	if own == 0 || r.MaxDelay == 0 {
		return max(own, r.MaxDelay)
	}
	return min(own, r.MaxDelay)
}

// An Evaluation determines which rules apply to a request, and what the store is asked about it.
// It is reused for one request after another, and borrows from each.
//
// Owned by its loop.
type Evaluation struct {
	Policy  *Policy
	Client  netip.Addr         // of the request
	Rank    int                // rank of its priority class; see [rule.Set.Rank]
	Matched []rule.MatchedRule // the rules that apply
	Exempt  int                // index of the rule that exempts the request, or -1
	Lacks   *rule.MatchedRule  // the rule that refuses the request because it lacks a part of the key, or nil
	Shadows []ChargedCounter   // counters of rules that are not enforced; no request waits for the answer
	Asked   []ChargedCounter   // counters of Ask
	Defers  bool               // one of the rules may have the request delivered later
	Ask     store.Ask          // set only if the request is neither exempt nor refused

	scratch rule.Scratch
}

// Begin starts with another request. It returns false if more rules could apply than can
// be decided together; nothing else is known about the request then.
func (c *Evaluation) Begin(p *Policy, r *Request) bool {
	c.Policy, c.Client, c.Rank, c.Exempt = p, r.Client, 0, -1
	c.Matched, c.Lacks, c.Shadows, c.Defers = nil, nil, c.Shadows[:0], false
	c.Asked = append(c.Asked[:0], p.counted(r))
	c.Ask.N = 1
	c.Ask.Counters = append(c.Ask.Counters[:0], c.Asked[0].Counter)
	if p.Rules == nil {
		return true
	}
	if index, exempt := p.Rules.Exempt(r.Described, r.Client, &c.scratch); exempt {
		c.Exempt = index
	} else if c.Matched = p.Rules.Match(r.Described, r.Client, &c.scratch); len(c.Matched) > rule.MatchedRulesMax {
		return false
	}
	c.Rank = p.Rules.Rank(&c.scratch, r.Trusted)
	if c.Lacks = rule.FirstRefusing(c.Matched); c.Lacks == nil {
		c.count(r)
	}
	return true
}

// count adds the counters of the rules that apply. Those in shadow are asked about
// separately and never affect the request.
func (c *Evaluation) count(r *Request) {
	for i := range c.Matched {
		h := &c.Matched[i]
		counted := ChargedCounter{Rule: h.Rule, Index: h.Index, Lacks: h.Lacks != nil,
			Counter: store.Counter{Rule: h.Rule.ID, Key: h.Key, Limit: h.Limit, Cost: h.Cost, Reserve: h.Reserve,
				MaxDelay: r.delay(h.MaxDelay)}}
		if r.Preflight {
			counted.Counter.Rule = h.Rule.Preflights()
		}
		if h.Rule.Mode == rule.Shadow {
			c.Shadows = append(c.Shadows, counted)
			continue
		}
		if d := h.Rule.Defer; d != nil {
			c.Defers = true
			if r.Delivery { // at most what leaves room for the request itself
				counted.Reserve = max(counted.Reserve, min(h.Limit.Reserve(d.ReserveThousandths()), h.Limit.Burst()-h.Cost))
			}
		}
		c.Asked = append(c.Asked, counted)
		c.Ask.Counters = append(c.Ask.Counters, counted.Counter)
	}
}
