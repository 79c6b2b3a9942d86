package closedloop

import (
	"math"
	"time"

	"weir/proxy/limit"
)

// Unlimited lets everything through.
func Unlimited() Contestant {
	return Contestant{"no limit", func(*Scenario) Control { return Control{Initial: limit.Config{Algorithm: limit.Off}} }}
}

// Static keeps a limit of factor times the capacity at the start.
func Static(name string, factor float64) Contestant {
	return Contestant{name, func(s *Scenario) Control { return Control{Initial: tokens(factor * s.Target.Capacity(0))} }}
}

// Clairvoyant knows the capacity of each second before it begins, and who will
// come, and leaves room for what refusals cost.
func Clairvoyant() Contestant {
	return Contestant{"oracle", func(s *Scenario) Control {
		best := func(t, offered float64) limit.Config { return tokens(s.roomAt(t, offered)) }
		return Control{Initial: best(0, s.Demand.At(0)), Prompt: best}
	}}
}

// drain is the share of the room that the delayed oracle lets in while the queue is
// full of requests nobody waits for: in a cycle of 30 s it works off 10 s.
const drain = 2.0 / 3

// Delayed knows the true capacity and demand at the last snapshot, and lets a
// queue drain that made clients give up.
func Delayed() Contestant {
	return Contestant{"delayed oracle", func(s *Scenario) Control {
		return Control{Initial: tokens(s.roomAt(0, s.Demand.At(0))), Advise: func(n Snapshot) (limit.Config, bool) {
			room := s.roomAt(n.Elapsed, n.Observed)
			if n.P95.Seconds() >= 0.95*timeout {
				room *= drain
			}
			return tokens(room), true
		}}
	}}
}

// roomAt returns the limit at which the work of answers and of refusals is as
// much as the target can do: a + cost × (demand − a) = best.
func (s *Scenario) roomAt(t, demand float64) float64 {
	best, cost := s.Best(t), s.Target.DenyCost
	if demand <= best {
		return best
	}
	return max(best/10, (best-cost*demand)/(1-cost))
}

// A proportional-integral controller of the latency, as one would write it
// without a model: the error is how far the latency is from the promise, in
// octaves and bounded.
const (
	piProportional = 0.3
	piIntegral     = 0.1
	piErrorMax     = 1.0
)

// PI moves the limit by the 95th percentile of the latency at each snapshot. It
// raises only while it refuses.
func PI() Contestant {
	return Contestant{"PI on p95", func(s *Scenario) Control {
		least, most := s.Bounds()
		rate, last := s.Hint, 0.0
		if rate == 0 {
			rate = 1.5 * s.Target.Capacity(0)
		}
		return Control{Initial: s.Initial(), Advise: func(n Snapshot) (limit.Config, bool) {
			if n.P95 == 0 {
				return limit.Config{}, false
			}
			e := math.Log2(s.Promise() / n.P95.Seconds())
			e = min(max(e, -piErrorMax), piErrorMax)
			step := piProportional*(e-last) + piIntegral*e
			last = e
			if step > 0 && n.RejectedShare == 0 {
				return limit.Config{}, false
			}
			rate = min(max(rate*math.Exp(step), least), most)
			return tokens(rate), true
		}}
	}}
}

// Calibrate returns the share of the capacity at which the most requests are
// answered in time when far more is offered than can be let in, found on long
// runs to a hundredth. More would wait too long, less leaves work undone. At the
// whole capacity a queue never gets shorter again, so that is never the answer.
func Calibrate(workers int, seed uint64) (float64, error) {
	const seconds = 900
	return calibrate(workers, seconds, seed)
}

func calibrate(workers, seconds int, seed uint64) (float64, error) {
	s := &Scenario{Target: Target{Workers: workers, ServiceMean: ServiceMean, ServiceCV: ServiceCV}, Cycle: time.Minute, Load: 1, Seed: seed,
		Demand: Demand{Start: time.Unix(0, 0).UTC(), Step: time.Second, Dispersion: 2}}
	s.Demand.Rates = make([]float64, seconds)
	for i := range s.Demand.Rates {
		s.Demand.Rates[i] = 2 * s.Target.Capacity(0)
	}
	best, most := 0.0, 0
	for percent := 93; percent < 100; percent++ {
		load := float64(percent) / 100
		r, err := Run(s, Static("", load).New(s))
		if err != nil {
			return 0, err
		}
		if r.Good > most {
			best, most = load, r.Good
		}
	}
	return best, nil
}

// The service of all targets.
const (
	ServiceMean = 0.05 // seconds
	ServiceCV   = 1.0
)
