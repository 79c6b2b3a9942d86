package closedloop

import "weir/proxy/limit"

// The names of the contestants that others are measured by.
const (
	PerfectName = "perfect gate"
	AdvisorName = "limit, gate and advisor"
)

// perfectPart is the share of the promise that the perfect gate lets a request wait: so
// long a crowd can be worked off in time, and few of the answers are late when it lasts.
const perfectPart = 0.5

// Perfect is the gate that sees the target's queue. No limit, and no gate that has to
// learn, does much better than it.
func Perfect() Contestant {
	return Contestant{PerfectName, func(*Scenario) Control {
		return Control{Initial: limit.Config{Algorithm: limit.Off}, Perfect: perfectPart}
	}}
}

// Unlimited lets everything through.
func Unlimited() Contestant {
	return Contestant{"no limit", func(*Scenario) Control { return Control{Initial: limit.Config{Algorithm: limit.Off}} }}
}

// Gated has the proxy's gate, and no limit.
func Gated() Contestant {
	return Contestant{"gate", func(*Scenario) Control { return Control{Initial: limit.Config{Algorithm: limit.Off}, Gate: true} }}
}

// Limited keeps the limit that is configured at first, beside the gate or alone.
func Limited(name string, gate bool) Contestant {
	return Contestant{name, func(s *Scenario) Control { return Control{Initial: s.Initial(), Gate: gate} }}
}

// Advisor is the advisor as it is, beside the gate.
func Advisor() Contestant { return advised(AdvisorName, true) }

// Alone is the advisor of a proxy without a gate.
func Alone() Contestant { return advised("limit and advisor", false) }

// Contestants are all, the one that others are measured by first.
func Contestants() []Contestant {
	return []Contestant{Perfect(), Unlimited(), Limited("limit", false), Alone(),
		Gated(), Limited("limit and gate", true), Advisor()}
}
