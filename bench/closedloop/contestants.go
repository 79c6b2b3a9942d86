package closedloop

import "weir/proxy/limit"

// The names of the contestants that tables and verdicts refer to.
const (
	PerfectName = "perfect gate"
	AdvisorName = "limit, gate and advisor"
)

// perfectPart is the share of the promise for which the perfect gate lets a request wait:
// short crowds are served in time, and few answers are late in long ones.
const perfectPart = 0.5

// Perfect returns the gate that knows the target's queue. Limits, and gates that have to
// learn, are hardly ever much better.
func Perfect() Contestant {
	return Contestant{PerfectName, func(*Scenario) Control {
		return Control{Initial: limit.Config{Algorithm: limit.Off}, Perfect: perfectPart}
	}}
}

// Unlimited returns the contestant that admits everything.
func Unlimited() Contestant {
	return Contestant{"no limit", func(*Scenario) Control { return Control{Initial: limit.Config{Algorithm: limit.Off}} }}
}

// Gated returns the proxy's gate without a limit.
func Gated() Contestant {
	return Contestant{"gate", func(*Scenario) Control { return Control{Initial: limit.Config{Algorithm: limit.Off}, Gate: true} }}
}

// Limited returns a constant limit, with the gate or alone.
func Limited(name string, gate bool) Contestant {
	return Contestant{name, func(s *Scenario) Control { return Control{Initial: s.Initial(), Gate: gate} }}
}

// Advisor returns the advisor with the gate.
func Advisor() Contestant { return advised(AdvisorName, true) }

// Alone returns the advisor of a proxy without a gate.
func Alone() Contestant { return advised("limit and advisor", false) }

// Contestants returns all, first the one that the others are compared with.
func Contestants() []Contestant {
	return []Contestant{Perfect(), Unlimited(), Limited("limit", false), Alone(),
		Gated(), Limited("limit and gate", true), Advisor()}
}
