package rule

import "weir/proxy/rules/keys"

// IsPreflight reports whether a request has the form of a CORS preflight (Fetch standard,
// section 3.3). Any client can send such a request.
func IsPreflight(r *keys.Request) bool {
	return string(r.MethodText) == "OPTIONS" && r.Has("origin") && r.Has("access-control-request-method")
}

// Preflights returns the name of the rule's counters of preflights, if they are counted
// separately. No rule has it as its id.
func (r *Rule) Preflights() string { return r.preflights }

// PreflightCounter returns the name of the counters of preflights of the rule with the given
// id.
func PreflightCounter(id string) string { return id + " preflights" }
