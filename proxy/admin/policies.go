package admin

import (
	"fmt"
	"sync/atomic"

	"weir/proxy/decide"
)

// Policies joins the global limit and the rules to what sessions enforce.
//
// Safe for concurrent use: what was joined last is behind an atomic pointer, and
// two who join at the same time make the same.
type Policies struct {
	limits *Limits
	rules  *Rules
	last   atomic.Pointer[joined]
}

// joined is a policy and what it was made of.
//
// Immutable after New.
type joined struct {
	limits *Active
	rules  *ActiveRules
	policy *decide.Policy
}

// NewPolicies joins the two.
func NewPolicies(limits *Limits, rules *Rules) *Policies {
	return &Policies{limits: limits, rules: rules}
}

// Policy is the policy in force now. It is called for every request.
func (p *Policies) Policy() *decide.Policy {
	limits, rules := p.limits.Active(), p.rules.Active()
	if last := p.last.Load(); last != nil && last.limits == limits && last.rules == rules {
		return last.policy
	}
	version := fmt.Sprintf("limits %d of %s, rules %d of %s", limits.Version, limits.Source, rules.Epoch, rules.Source)
	next := &joined{limits, rules, limits.Policy.With(rules.Set, version)}
	p.last.Store(next)
	return next.policy
}
