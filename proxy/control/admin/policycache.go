package admin

import (
	"fmt"
	"sync/atomic"

	"weir/proxy/rules/decide"
)

// PolicyCache joins the global limit and the rules to the policy that sessions enforce.
//
// Safe for concurrent use: the last result is behind an atomic pointer, and concurrent
// calls compute the same.
type PolicyCache struct {
	Limits *Limits
	Rules  *Rules
	last   atomic.Pointer[joined]
}

// joined is a policy and what it was made from.
//
// Immutable after New.
type joined struct {
	limits *ActiveLimit
	rules  *ActiveRules
	policy *decide.Policy
}

// Policy returns the policy in force. It is called for every request.
func (p *PolicyCache) Policy() *decide.Policy {
	limits, rules := p.Limits.Active(), p.Rules.Active()
	if last := p.last.Load(); last != nil && last.limits == limits && last.rules == rules {
		return last.policy
	}
	version := fmt.Sprintf("limits %d of %s, rules %d of %s", limits.Version, limits.Source, rules.Epoch, rules.Source)
	next := &joined{limits, rules, limits.Policy.With(rules.Set, version)}
	p.last.Store(next)
	return next.policy
}
