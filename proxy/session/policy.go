package session

import (
	"math"
	"strconv"

	"weir/proxy/limit"
)

// A Policy is what the limiter enforces. It is replaced whole.
//
// Immutable after New.
type Policy struct {
	// Rule is the id of the one global rule.
	Rule string
	// Limit is what the rule allows.
	Limit limit.Limit

	ruleJSON []byte // the rule's id as a JSON string
	fields   []byte // RateLimit-Policy, and RateLimit up to the remaining permits
}

// NewPolicy returns the policy of one rule. In the fields of
// draft-ietf-httpapi-ratelimit-headers-10 a token bucket's quota is its
// capacity, and its window the time that it takes to fill.
func NewPolicy(rule string, l limit.Limit) *Policy {
	p := &Policy{Rule: rule, Limit: l, ruleJSON: strconv.AppendQuote(nil, rule)}
	window := l.Window().Seconds()
	if l.Algorithm() == limit.Token {
		window = float64(l.Permits()) / l.Rate()
	}
	f := append(p.fields, "RateLimit-Policy: "...)
	f = append(f, p.ruleJSON...)
	f = append(f, ";q="...)
	f = strconv.AppendInt(f, l.Permits(), 10)
	f = append(f, ";w="...)
	f = strconv.AppendInt(f, max(1, int64(math.Ceil(window))), 10)
	f = append(f, "\r\nRateLimit: "...)
	f = append(f, p.ruleJSON...)
	p.fields = append(f, ";r="...)
	return p
}
