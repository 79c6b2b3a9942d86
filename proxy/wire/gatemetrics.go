package wire

import (
	"weir/internal/metric"
	"weir/proxy/gate"
)

// registerGates adds the metrics of the gates, if there are any.
func (f *Front) registerGates(set *metric.Set) {
	if f.cfg.Gate.Mode == gate.Off {
		return
	}
	gauge := func(name, help string, of func(g *gateSum) float64) {
		set.Gauges(name, help, func(yield func(string, float64) bool) {
			for _, spec := range f.Targets.All() {
				if g := f.gateSum(spec); !yield(f.Targets.Labels(spec), of(&g)) {
					return
				}
			}
		})
	}
	gauge("ratelimiter_gate_limit", "requests that may be in flight to a target; 0: it was not asked yet", func(g *gateSum) float64 { return float64(g.limit) })
	gauge("ratelimiter_gate_limit_min", "below which the limit never falls", func(g *gateSum) float64 { return float64(g.least) })
	gauge("ratelimiter_gate_in_flight", "requests in flight to a target, without tunnels and streams", func(g *gateSum) float64 { return float64(g.inFlight) })
	gauge("ratelimiter_gate_waiting", "requests that wait for a place at a target", func(g *gateSum) float64 { return float64(g.waiting) })
	gauge("ratelimiter_gate_baseline_seconds", "median answer time of a target without a queue; 0: not known yet", func(g *gateSum) float64 { return g.baseline.Seconds() })
	gauge("ratelimiter_gate_median_seconds", "median answer time of a target; 0: not known yet", func(g *gateSum) float64 { return g.median.Seconds() })
	set.Counter("ratelimiter_gate_would_wait_total", "requests that GATE=shadow would have had wait", func() uint64 { return f.sum(func(c *counts) uint64 { return c.gateWould.Load() }) })
	set.Counters("ratelimiter_gate_shed_total", "requests that waited for a place at a target in vain, by priority class", func(yield func(string, uint64) bool) {
		classes := f.classes.list()
		for _, spec := range f.Targets.All() {
			for class, name := range classes {
				n := uint64(0)
				for t := range f.sides.of(spec) {
					n += t.shed[class].Load()
				}
				if (n > 0 || class == classDefault) && !yield(f.Targets.Labels(spec, "class", name), n) {
					return
				}
			}
		}
	})
	set.Counters("ratelimiter_gate_cuts_total", "falls of a limit: because requests waited in the target, or because it refused them", func(yield func(string, uint64) bool) {
		for _, spec := range f.Targets.All() {
			g := f.gateSum(spec)
			for why, n := range g.cuts {
				if !yield(f.Targets.Labels(spec, "reason", gate.Reason(why).String()), n) {
					return
				}
			}
		}
	})
}
