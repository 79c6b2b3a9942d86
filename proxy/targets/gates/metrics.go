package gates

import (
	"weir/internal/program/metric"
	"weir/proxy/targets/gate"
)

// Register adds the metrics of the gates, if there are any.
func (g *Gates) Register(set *metric.Set) {
	if g.cfg.Mode == gate.Off {
		return
	}
	gauge := func(name, help string, of func(s *state) float64) {
		set.Gauges(name, help, func(add func(labels string, v float64)) {
			for _, spec := range g.cfg.Targets.All() {
				s := g.state(spec)
				add(g.cfg.Targets.Labels(spec), of(&s))
			}
		})
	}
	gauge("ratelimiter_gate_limit", "requests that may be in flight to a target; 0 before the first request",
		func(s *state) float64 { return float64(s.Limit) })
	gauge("ratelimiter_gate_limit_min", "lower bound of the limit", func(s *state) float64 { return float64(s.least) })
	gauge("ratelimiter_gate_in_flight", "requests in flight to a target, without tunnels and streams",
		func(s *state) float64 { return float64(s.inFlight) })
	gauge("ratelimiter_gate_waiting", "requests that wait for a place at a target",
		func(s *state) float64 { return float64(s.waiting) })
	gauge("ratelimiter_gate_baseline_seconds", "median answer time of a target without a queue; 0: not known yet",
		func(s *state) float64 { return s.Baseline.Seconds() })
	gauge("ratelimiter_gate_median_seconds", "median answer time of a target; 0: not known yet",
		func(s *state) float64 { return s.Median.Seconds() })
	set.Counters("ratelimiter_gate_shed_total",
		"requests that waited for a place at a target in vain, by priority class", func(add func(labels string, n uint64)) {
			classes := g.cfg.Classes.list()
			for _, spec := range g.cfg.Targets.All() {
				for class, name := range classes {
					n := uint64(0)
					if of := g.cfg.Of(spec); of != nil {
						n = of.Shed[class].Load()
					}
					if n > 0 || class == ClassDefault {
						add(g.cfg.Targets.Labels(spec, "class", name), n)
					}
				}
			}
		})
	set.Counters("ratelimiter_gate_cuts_total",
		"falls of the limit, because requests waited in the target (latency) or because it refused them (errors)",
		func(add func(labels string, n uint64)) {
			for _, spec := range g.cfg.Targets.All() {
				for why, n := range g.state(spec).Cuts {
					add(g.cfg.Targets.Labels(spec, "reason", gate.Reason(why).String()), n)
				}
			}
		})
}
