package closedloop

import "fmt"

// statics are the factors of the constant limits, as shares of the capacity at
// the start.
var statics = [...]float64{0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.2, 1.6, 2.0}

// named are the statics that are shown by themselves.
func named(factor float64) bool { return factor == 0.8 || factor == 1.0 || factor == 1.2 }

// BestStatic is the name of the best of all constant limits, in hindsight.
const BestStatic = "best static"

// Statics are the constant limits. Those whose name is empty serve to find the
// best one only.
func Statics() (all []Contestant) {
	for _, f := range statics {
		name := ""
		if named(f) {
			name = fmt.Sprintf("static %.1f C", f)
		}
		all = append(all, Static(name, f))
	}
	return all
}

// Baselines are who the advisor is compared with, besides the constant limits:
// the oracles first.
func Baselines() []Contestant {
	return []Contestant{Clairvoyant(), Delayed(), Unlimited(), AIMD(), PromisedAIMD(), Gradient2(), Vegas(), BBR(), PI()}
}

// Advisors are the advisor, and what it would be with other forecasts.
func Advisors() []Contestant {
	return []Contestant{Blind(), LastValue(), Prophet(), Advisor(), Prescient()}
}
