package rule

import "weir/proxy/keys"

// Preflight reports whether a request has the form of those that browsers make before
// others, to ask whether these may be made (Fetch standard, section 3.3). Any client can
// make such a request.
func Preflight(r keys.Request) bool {
	if method, _ := r.Part(methodPart); string(method) != "OPTIONS" {
		return false
	}
	_, origin := r.Part(originPart)
	_, method := r.Part(preflightPart)
	return origin && method
}

// Preflights returns the name of the rule's counters of preflights, where they are
// counted apart. No rule has it as its id.
func (r *Rule) Preflights() string { return r.preflights }

// PreflightsOf returns the name of the counters of preflights of a rule with that id.
func PreflightsOf(id string) string { return id + " preflights" }
