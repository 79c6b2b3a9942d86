package decide

import (
	"math"
	"strconv"

	"weir/internal/net/http1"
	"weir/proxy/limit"
	"weir/proxy/rules/rule"
)

// A Policy is what the limiter enforces: the global limit and the rules. It is replaced
// as a whole, so that no request sees half of a change.
//
// Immutable after New.
type Policy struct {
	Limit   limit.Limit // of the rule [rule.GlobalID]
	Rules   *rule.Set   // the other rules, or nil
	Version string      // identifies the limits and rules in explanations of decisions

	global rule.Rule // the global rule in the form of the others
	fields []byte    // its RateLimit-Policy, and RateLimit up to the remaining permits
	legacy []byte    // its X-RateLimit-Limit, and X-RateLimit-Remaining up to the remaining permits
}

// NewPolicy returns the policy of the global rule alone.
func NewPolicy(l limit.Limit) *Policy {
	return &Policy{Limit: l, global: rule.Rule{ID: rule.GlobalID, Limit: l.Config()},
		fields: appendPolicy(nil, rule.GlobalID, &l),
		legacy: appendLegacy(nil, l.Quota())}
}

// appendLegacy appends X-RateLimit-Limit, and X-RateLimit-Remaining up to the remaining permits.
func appendLegacy(dst []byte, quota int64) []byte {
	return append(http1.AppendFieldInt(dst, "X-RateLimit-Limit", quota), "X-RateLimit-Remaining: "...)
}

// globalPreflights is the name of the global counter of preflights.
var globalPreflights = rule.PreflightCounter(rule.GlobalID)

// setGlobal sets c to the global counter for a request of cost 1.
func (p *Policy) setGlobal(c *ChargedCounter, r *Request) {
	*c = ChargedCounter{Rule: &p.global, Index: -1}
	c.Counter.Rule, c.Limit, c.Cost, c.MaxDelay = rule.GlobalID, &p.Limit, 1, r.MaxDelay
	if r.Preflight {
		c.Counter.Rule = globalPreflights
	}
}

// With returns the policy with the given rules, which may be nil.
func (p *Policy) With(rules *rule.Set, version string) *Policy {
	both := *p
	if rules != nil && rules.Len()+rules.Exempting() == 0 {
		rules = nil
	}
	both.Rules, both.Version = rules, version
	return &both
}

// appendPolicy appends RateLimit-Policy, and RateLimit up to the remaining permits, of
// draft-ietf-httpapi-ratelimit-headers-10. The quota of a bucket or queue is its
// capacity, and its window the time that it takes to fill. The same holds for gcra with a
// burst larger than its limit.
func appendPolicy(dst []byte, id string, l *limit.Limit) []byte {
	dst = append(dst, "RateLimit-Policy: "...)
	dst = appendID(dst, id)
	dst = append(dst, ";q="...)
	dst = strconv.AppendInt(dst, l.Quota(), 10)
	dst = append(dst, ";w="...)
	dst = strconv.AppendInt(dst, windowSeconds(l), 10)
	dst = append(dst, "\r\nRateLimit: "...)
	dst = appendID(dst, id)
	return append(dst, ";r="...)
}

// windowSeconds returns the window in whole seconds, at least 1.
func windowSeconds(l *limit.Limit) int64 {
	window := l.Window().Seconds()
	if a := l.Algorithm(); a == limit.Token || a == limit.Leaky || l.Quota() > l.Permits() {
		window = float64(l.Quota()) / l.Rate()
	}
	return max(1, int64(math.Ceil(window)))
}
