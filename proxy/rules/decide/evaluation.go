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
	PartMissing   bool  // the request lacks a part of the key
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
	Policy    *Policy
	Client    netip.Addr         // of the request
	Rank      int                // rank of its priority class; see [rule.Set.Rank]
	Matched   []rule.MatchedRule // the rules that apply
	Exempt    int                // index of the rule that exempts the request, or -1
	RefusedBy *rule.MatchedRule  // the rule that refuses the request because it lacks a part of the key, or nil
	Shadows   []ChargedCounter   // counters of rules that are not enforced; no request waits for the answer
	Asked     []ChargedCounter   // counters of Ask
	Defers    bool               // one of the rules may have the request delivered later
	Ask       store.Ask          // set only if the request is neither exempt nor refused

	scratch rule.Scratch
}

// Begin starts with another request. It returns false if more rules could apply than can
// be decided together; nothing else is known about the request then.
func (e *Evaluation) Begin(p *Policy, r *Request) bool {
	e.Policy, e.Client, e.Rank, e.Exempt = p, r.Client, 0, -1
	e.Matched, e.RefusedBy, e.Shadows, e.Defers = nil, nil, e.Shadows[:0], false
	e.Asked = append(e.Asked[:0], ChargedCounter{})
	p.setGlobal(&e.Asked[0], r)
	e.Ask.N = 1
	e.Ask.Counters = append(e.Ask.Counters[:0], e.Asked[0].Counter)
	if p.Rules == nil {
		return true
	}
	if index, exempt := p.Rules.Exempt(r.Described, r.Client, &e.scratch); exempt {
		e.Exempt = index
	} else if e.Matched = p.Rules.Match(r.Described, r.Client, &e.scratch); len(e.Matched) > rule.MatchedRulesMax {
		return false
	}
	e.Rank = p.Rules.Rank(&e.scratch, r.Trusted)
	if e.RefusedBy = rule.FirstRefusing(e.Matched); e.RefusedBy == nil {
		e.count(r)
	}
	return true
}

// count adds the counters of the rules that apply. Those in shadow are asked about
// separately and never affect the request.
func (e *Evaluation) count(r *Request) {
	for i := range e.Matched {
		h := &e.Matched[i]
		counted := ChargedCounter{Rule: h.Rule, Index: h.Index, PartMissing: h.MissingPart != nil,
			Counter: store.Counter{Rule: h.Rule.ID, Key: h.Key, Limit: h.Limit, Cost: h.Cost, Reserve: h.Reserve,
				MaxDelay: r.delay(h.MaxDelay)}}
		if r.Preflight {
			counted.Counter.Rule = h.Rule.Preflights()
		}
		if h.Rule.Mode == rule.Shadow {
			e.Shadows = append(e.Shadows, counted)
			continue
		}
		if d := h.Rule.Defer; d != nil {
			e.Defers = true
			if r.Delivery { // at most what leaves room for the request itself
				counted.Reserve = max(counted.Reserve, min(h.Limit.Reserve(d.ReserveThousandths()), h.Limit.Burst()-h.Cost))
			}
		}
		e.Asked = append(e.Asked, counted)
		e.Ask.Counters = append(e.Ask.Counters, counted.Counter)
	}
}
