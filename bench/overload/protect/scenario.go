// Package protect overloads a target behind nothing, a limit, the gate, the advisor,
// HAProxy, or failsafe-go's adaptive limiter. It measures how much of what the target
// could have answered in time was answered.
package protect

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A Phase is a part of a scenario in which nothing changes.
type Phase struct {
	For   time.Duration
	Rate  float64       // requests per second, Poisson
	Delay time.Duration // the target's mean service time; 0 if the target is down
	// Bad marks the phases with the trouble from which the target should be protected. They follow
	// one another.
	Bad bool
}

// A Scenario is a target, a load, and what goes wrong.
type Scenario struct {
	Name, About string
	Phases      []Phase
	Workers     int
	Queue       int // places in the target's queue
	// Varied says that service times are lognormal with a coefficient of
	// variation of 2, otherwise they are exponential.
	Varied bool
	// SlowShare is the ratio of requests to a route with slowFactor times the service time to all
	// others. They are not counted.
	SlowShare float64
	// Kinds are the mean service times of two kinds of answers on one route, whose shares follow
	// from the mean of the phase. Zero: there is one kind.
	Kinds    [2]time.Duration
	Dips     TargetSlowdowns
	Keys     int           // that the target caches answers for, see cache; 0: it has no cache
	Retries  int           // of a request by its client after attempts that failed or took too long
	Proxies  int           // which share the target and the load evenly
	Redis    bool          // our limits are in a Redis that is killed in the bad phase
	InTime   time.Duration // bound of the latency of answers in time
	Sides    []string
	Rounds   int
	Goal     Goal
	Together bool // the sides of a round run at the same time
}

// A Goal is the goal of the gate.
type Goal struct {
	InTime float64       // share of the ideal
	P99    time.Duration // of requests answered with 200; 0 for none
	Shed   float64       // bound of the share of requests shed needlessly; 0 for none
	// Behind is by how much the goodput may be less than a peer's; 0 for any.
	Behind float64
}

const (
	slowFactor = 50
	slowPath   = "/slow"
	// redisGone is when Redis is killed, after the start of the bad phase.
	redisGone = 3 * time.Second
)

// everywhere lists the sides of most scenarios.
var everywhere = []string{"none", "gate", "haproxy", "failsafe"}

// usual returns a scenario with a target that can serve 1,500/s, and trouble for 14 of 25 seconds.
func usual(name, about string, rate float64) Scenario {
	const ms, s = time.Millisecond, time.Second
	return Scenario{Name: name, About: about, Workers: 15, Queue: 1000, Proxies: 1, InTime: 100 * ms,
		Sides: everywhere, Rounds: 3, Goal: Goal{InTime: .95, Behind: .01},
		Phases: []Phase{{5 * s, rate, 10 * ms, false}, {14 * s, rate, 20 * ms, true}, {6 * s, rate, 10 * ms, false}}}
}

// Scenarios returns all scenarios.
func Scenarios() []Scenario {
	const ms, s = time.Millisecond, time.Second
	half := usual("half", "A target of 15 workers × 10 ms loses half its speed for 20 s, under 2,000/s.", 2000)
	half.Phases[1].For, half.Sides, half.Rounds = 20*s, []string{"none", "limit", "gate", "limit-gate", "advisor",
		"haproxy", "failsafe"}, 5
	half.Goal = Goal{InTime: .98, P99: 120 * ms}
	most := usual("most", "A target of 8 workers × 8 ms loses 70 % of its speed, under 800/s.", 800)
	most.Workers, most.Rounds = 8, 5
	most.Goal = Goal{InTime: .97}
	most.Phases[0].Delay, most.Phases[1].Delay, most.Phases[2].Delay = 8*ms, time.Duration(math.Round(8e6/.3)), 8*ms
	wide := usual("wide", "A target of 64 workers × 40 ms loses 40 % of its speed, under 1,400/s.", 1400)
	wide.Workers, wide.InTime, wide.Rounds = 64, 200*ms, 5
	wide.Goal = Goal{InTime: .95}
	wide.Phases[0].Delay, wide.Phases[1].Delay, wide.Phases[2].Delay = 40*ms, time.Duration(math.Round(40e6/.6)), 40*ms
	sheds := usual("sheds", "A target without a queue, which answers 503 at once when its 15 workers are busy, loses "+
		"half its speed, under 2,000/s.", 2000)
	sheds.Queue, sheds.Rounds = 0, 5
	sheds.Goal = Goal{InTime: .96}
	crowd := usual("crowd", "The load rises from 1,000/s to 4,000/s at once, on a target that can serve 1,500/s.", 1000)
	crowd.Phases[1].Rate, crowd.Phases[1].Delay, crowd.Rounds = 4000, 10*ms, 5
	crowd.Goal = Goal{InTime: .98}
	proxies := usual("proxies",
		"Two independent proxies share the load and the target, which loses half its speed, under 2,000/s.", 2000)
	proxies.Proxies = 2
	varied := usual("varied", "Service times are lognormal with a coefficient of variation of 2; the target loses half "+
		"its speed, under 1,200/s.", 1200)
	varied.Varied = true
	slow := usual("slow", "In addition to 800/s to fast routes, 8/s go to one that takes 50 times as long. Nothing "+
		"goes wrong: the utilisation of the target is 80 %. Only the fast routes are counted.", 800)
	slow.Phases, slow.SlowShare = []Phase{{25 * s, 800, 10 * ms, false}}, 0.01
	restart := usual("restart", "The target is killed under 1,000/s and restarted after 2 s.", 1000)
	restart.Phases[0].For, restart.Phases[1] = 8*s, Phase{2 * s, 1000, 0, true}
	restart.Phases[2].For = 15 * s
	redis := usual("redis", "The limits (10,000/s, which is never reached) are in a Redis that is killed while the "+
		"target works at half its speed, under 1,200/s.", 1200)
	redis.Redis = true
	steady := usual("steady", "90 % of the target's capacity for five minutes; nothing goes wrong. The sides run at "+
		"the same time, each with its own target.", 1350)
	steady.Goal.Shed = .0001
	steady.Phases, steady.Sides, steady.Together = []Phase{{300 * s, 1350, 10 * ms, false}}, []string{"none", "gate"}, true
	return append([]Scenario{half, most, wide, sheds, crowd, proxies, varied, slow, restart, redis, steady},
		unsteady()...)
}

// unsteady returns the scenarios in which service times change within a phase or gradually, or
// depend on earlier requests, and the one in which the load depends on the answers.
func unsteady() []Scenario {
	const ms, s = time.Millisecond, time.Second
	stops := usual("stops", "A target of 15 workers × 10 ms stands still for 0.4 s every 5 s, under 900/s. Requests "+
		"then wait in it, which all could be answered in time.", 900)
	stops.Phases, stops.Dips = []Phase{{30 * s, 900, 10 * ms, false}}, TargetSlowdowns{Every: 5 * s, For: 400 * ms}
	stops.InTime, stops.Goal = 500*ms, Goal{InTime: .995}
	blips := usual("blips", "A target of 15 workers × 10 ms is six times slower for 0.3 s every 3 s, under 900/s.", 900)
	blips.Phases, blips.Dips = []Phase{{30 * s, 900, 10 * ms, false}}, TargetSlowdowns{Every: 3 * s, For: 300 * ms,
		Speed: 1. / 6}
	blips.InTime, blips.Goal = 250*ms, Goal{InTime: .985}
	relative := Goal{Behind: .01}
	mix := usual("mix", "One answer in ten takes 60 ms on average, the others 6 ms; for 16 s it is four in ten, under "+
		"1,100/s, which 15 workers cannot answer.", 1100)
	mix.Kinds, mix.InTime, mix.Goal = [2]time.Duration{6 * ms, 60 * ms}, 250*ms, relative
	mix.Phases = []Phase{{5 * s, 1100, 11400 * time.Microsecond, false},
		{16 * s, 1100, 27600 * time.Microsecond, true}, {5 * s, 1100, 11400 * time.Microsecond, false}}
	flush := usual("flush", "A target answers from its cache within 1 ms, without a worker. Other answers take 8 "+
		"workers 40 ms each. Keys follow Zipf's law. All are in the cache until it is flushed, under 1,000/s. The ideal "+
		"is that all are answered.", 1000)
	flush.Keys, flush.Workers, flush.InTime, flush.Goal = 2500, 8, 250*ms, relative
	flush.Phases = []Phase{{8 * s, 1000, 40 * ms, false}, {10 * s, 1000, 40 * ms, true}, {8 * s, 1000, 40 * ms, false}}
	ramp := usual("ramp", "The speed of a target falls to a fifth within 15 s, and then is as before, under 1,350/s.",
		1350)
	ramp.Phases, ramp.Goal = []Phase{{3 * s, 1350, 10 * ms, false}}, relative
	const pieces = 30
	for i := range pieces {
		speed := 1 - .8*(float64(i)+.5)/pieces
		ramp.Phases = append(ramp.Phases, Phase{15 * s / pieces, 1350, time.Duration(float64(10*ms) / speed), true})
	}
	ramp.Phases = append(ramp.Phases, Phase{7 * s, 1350, 10 * ms, false})
	retries := usual("retries", "A target of 4 workers × 10 ms works at a third of its speed for 5 s, under 300/s from "+
		"clients that retry an attempt up to three times if it fails or takes 1 s. It also serves the attempts that its "+
		"clients have abandoned. Requests count once, from when their first attempt was due.", 300)
	retries.Workers, retries.Queue, retries.Retries, retries.InTime, retries.Goal = 4, 500, 3, s, relative
	retries.Phases = []Phase{{5 * s, 300, 10 * ms, false}, {5 * s, 300, 30 * ms, true}, {15 * s, 300, 10 * ms, false}}
	return []Scenario{stops, blips, mix, flush, ramp, retries}
}

// Length returns the length of a run.
func (s *Scenario) Length() (sum time.Duration) {
	for _, p := range s.Phases {
		sum += p.For
	}
	return sum
}

// shorten makes the phases and dips shorter by a factor.
func (s *Scenario) shorten(factor float64) {
	shorter := func(d *time.Duration) { *d = time.Duration(float64(*d) / factor) }
	for i := range s.Phases {
		shorter(&s.Phases[i].For)
	}
	shorter(&s.Dips.Every)
	shorter(&s.Dips.For)
}

// capacity returns how many requests per second the target can answer in a phase, dips included.
// That of a target with a cache depends on the requests, and counts as unlimited.
func (s *Scenario) capacity(p Phase) float64 {
	switch {
	case s.Keys > 0:
		return math.Inf(1)
	case p.Delay == 0:
		return 0
	}
	mean := p.Delay.Seconds() * (1 + slowFactor*s.SlowShare) / (1 + s.SlowShare)
	return float64(s.Workers) / mean * s.Dips.mean()
}

// ideal returns how many counted requests per second can be answered in a phase.
func (s *Scenario) ideal(p Phase) float64 {
	return min(p.Rate, s.capacity(p)/(1+s.SlowShare))
}

// bad returns the span of the bad phases.
func (s *Scenario) bad() (from, to time.Duration, ok bool) {
	var at time.Duration
	for _, p := range s.Phases {
		if p.Bad && !ok {
			from, ok = at, true
		}
		if at += p.For; p.Bad {
			to = at
		}
	}
	return from, to, ok
}

// phase returns the index of the phase at an instant; the last one does not end.
func (s *Scenario) phase(at time.Duration) int {
	last := len(s.Phases) - 1
	for i, p := range s.Phases[:last] {
		if at -= p.For; at < 0 {
			return i
		}
	}
	return last
}

// outage returns when the target is down; to is 0 if it never is.
func (s *Scenario) outage() (from, to time.Duration) {
	if from, to, ok := s.bad(); ok && s.Phases[s.phase(from)].Delay == 0 {
		return from, to
	}
	return 0, 0
}

// steps returns a share of the load.
func (s *Scenario) steps(share float64) []rig.RateStep {
	return result.Map(s.Phases, func(p Phase) rig.RateStep { return rig.RateStep{For: p.For, Rate: p.Rate * share} })
}

// arrivals draws when the requests of the load are due.
func (s *Scenario) arrivals(chance *rand.Rand) (due []time.Duration) {
	var from time.Duration
	for _, p := range s.Phases {
		gap := func() time.Duration { return time.Duration(chance.ExpFloat64() / p.Rate * float64(time.Second)) }
		for at := from + gap(); at < from+p.For; at += gap() {
			due = append(due, at)
		}
		from += p.For
	}
	return due
}

// end returns when a service ends that a worker begins at an instant.
func (s *Scenario) end(chance *rand.Rand, at time.Duration, slow bool) time.Duration {
	return s.Dips.end(at, s.draw(chance, s.Phases[s.phase(at)].Delay, slow))
}

// draw returns a random service time with the given mean.
func (s *Scenario) draw(chance *rand.Rand, mean time.Duration, slow bool) time.Duration {
	if fast, heavy := s.Kinds[0], s.Kinds[1]; heavy > 0 {
		share := float64(mean-fast) / float64(heavy-fast)
		if mean = fast; chance.Float64() < share {
			mean = heavy
		}
	}
	service := float64(mean)
	if slow {
		service *= slowFactor
	}
	if s.Varied { // the mean of e^(σz−σ²/2) is 1, its variance e^σ²−1
		variance := math.Log(1 + 2*2)
		return time.Duration(service * math.Exp(math.Sqrt(variance)*chance.NormFloat64()-variance/2))
	}
	return time.Duration(service * chance.ExpFloat64())
}
