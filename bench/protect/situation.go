// Package protect overloads a target behind nothing, a limit, the gate, the advisor,
// HAProxy, or failsafe-go's adaptive limiter. It measures how much of what the target
// could have answered in time was answered.
package protect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// A Phase is a stretch of a situation in which nothing changes.
type Phase struct {
	For   time.Duration
	Rate  float64       // requests per second, Poisson
	Delay time.Duration // the target's mean service time; 0: the target is away
	// Bad says that this is the trouble which the target is to be protected
	// from. A situation has one bad phase at most.
	Bad bool
}

// A Situation is a target, what is asked of it, and what goes wrong.
type Situation struct {
	Name, About string
	Phases      []Phase
	Workers     int
	Queue       int // places in the target's queue
	// Varied says that service times are lognormal with a coefficient of
	// variation of 2, otherwise they are exponential.
	Varied bool
	// SlowShare is how many requests to a route with slowFactor times the
	// service time there are for each of the others. They are not counted.
	SlowShare float64
	Proxies   int           // that share the target and the load evenly
	Redis     bool          // our limits are in a Redis that is killed in the bad phase
	InTime    time.Duration // how long after its due time an answer is in time
	Sides     []string
	Rounds    int
	Goal      Goal
	Together  bool // the sides of a round run at the same time
}

// A Goal is what is expected of the gate.
type Goal struct {
	InTime float64       // share of the ideal
	P99    time.Duration // of what is answered 200; 0: none
	Shed   float64       // share of the requests that may be shed needlessly; 0: none
	// Behind is how much less of the ideal it may be than behind a peer; 0: any.
	Behind float64
}

const (
	slowFactor = 50
	slowPath   = "/slow"
	// redisGone is how long after the begin of the bad phase Redis is killed.
	redisGone = 3 * time.Second
)

// everywhere are the sides of most situations.
var everywhere = []string{"none", "gate", "haproxy", "failsafe"}

// Situations are all situations; the first belong to the table of the goals.
func Situations() []Situation {
	const ms, s = time.Millisecond, time.Second
	// usual is a target that can do 1,500/s, trouble for 14 of 25 seconds.
	usual := func(name, about string, rate float64) Situation {
		return Situation{Name: name, About: about, Workers: 15, Queue: 1000, Proxies: 1, InTime: 100 * ms, Sides: everywhere, Rounds: 3, Goal: Goal{InTime: .95, Behind: .01},
			Phases: []Phase{{5 * s, rate, 10 * ms, false}, {14 * s, rate, 20 * ms, true}, {6 * s, rate, 10 * ms, false}}}
	}
	half := usual("half", "A target of 15 workers × 10 ms loses half its speed for 20 s, under 2,000/s.", 2000)
	half.Phases[1].For, half.Sides, half.Rounds = 20*s, []string{"none", "limit", "gate", "limit-gate", "advisor", "haproxy", "failsafe"}, 5
	half.Goal = Goal{InTime: .98, P99: 120 * ms}
	most := usual("most", "A target of 8 workers × 8 ms loses 70 % of its speed, under 800/s.", 800)
	most.Workers, most.Rounds = 8, 5
	most.Goal = Goal{InTime: .97}
	most.Phases[0].Delay, most.Phases[1].Delay, most.Phases[2].Delay = 8*ms, time.Duration(math.Round(8e6/.3)), 8*ms
	wide := usual("wide", "A target of 64 workers × 40 ms loses 40 % of its speed, under 1,400/s.", 1400)
	wide.Workers, wide.InTime, wide.Rounds = 64, 200*ms, 5
	wide.Goal = Goal{InTime: .95}
	wide.Phases[0].Delay, wide.Phases[1].Delay, wide.Phases[2].Delay = 40*ms, time.Duration(math.Round(40e6/.6)), 40*ms
	sheds := usual("sheds", "A target without a queue, which answers 503 at once when its 15 workers are busy, loses half its speed, under 2,000/s.", 2000)
	sheds.Queue, sheds.Rounds = 0, 5
	sheds.Goal = Goal{InTime: .96}
	crowd := usual("crowd", "The load rises from 1,000/s to 4,000/s at once, on a target that can do 1,500/s.", 1000)
	crowd.Phases[1].Rate, crowd.Phases[1].Delay, crowd.Rounds = 4000, 10*ms, 5
	crowd.Goal = Goal{InTime: .98}
	proxies := usual("proxies", "Two proxies that know nothing of each other share the load and the target, which loses half its speed, under 2,000/s.", 2000)
	proxies.Proxies = 2
	varied := usual("varied", "Service times are lognormal with a coefficient of variation of 2; the target loses half its speed, under 1,200/s.", 1200)
	varied.Varied = true
	slow := usual("slow", "Beside 800/s to fast routes 8/s go to one that takes 50 times as long. Nothing goes wrong: the target is busy to 80 %. Only the fast routes are counted.", 800)
	slow.Phases, slow.SlowShare = []Phase{{25 * s, 800, 10 * ms, false}}, 0.01
	restart := usual("restart", "The target is killed under 1,000/s and is back after 2 s.", 1000)
	restart.Phases[0].For, restart.Phases[1] = 8*s, Phase{2 * s, 1000, 0, true}
	restart.Phases[2].For = 15 * s
	redis := usual("redis", "The limits (10,000/s, which never binds) are in a Redis that is killed while the target works at half its speed, under 1,200/s.", 1200)
	redis.Redis = true
	steady := usual("steady", "90 % of what the target can take for five minutes; nothing goes wrong. The sides run at the same time, each with a target of its own.", 1350)
	steady.Goal.Shed = .0001
	steady.Phases, steady.Sides, steady.Together = []Phase{{300 * s, 1350, 10 * ms, false}}, []string{"none", "gate"}, true
	return []Situation{half, most, wide, sheds, crowd, proxies, varied, slow, restart, redis, steady}
}

// Length is how long a run of the situation lasts.
func (s *Situation) Length() (sum time.Duration) {
	for _, p := range s.Phases {
		sum += p.For
	}
	return sum
}

// shorter is the situation with phases that last so much less.
func (s Situation) shorter(factor float64) Situation {
	phases := make([]Phase, len(s.Phases))
	for i, p := range s.Phases {
		p.For = time.Duration(float64(p.For) / factor)
		phases[i] = p
	}
	s.Phases = phases
	return s
}

// capacity is how many requests a second the target can answer in a phase.
func (s *Situation) capacity(p Phase) float64 {
	if p.Delay == 0 {
		return 0
	}
	mean := p.Delay.Seconds() * (1 + slowFactor*s.SlowShare) / (1 + s.SlowShare)
	return float64(s.Workers) / mean
}

// ideal is how many counted requests a second can be answered in a phase.
func (s *Situation) ideal(p Phase) float64 {
	return min(p.Rate, s.capacity(p)/(1+s.SlowShare))
}

// bad is the span of the bad phase.
func (s *Situation) bad() (from, to time.Duration, ok bool) {
	for _, p := range s.Phases {
		if p.Bad {
			return from, from + p.For, true
		}
		from += p.For
	}
	return 0, 0, false
}

// phase is the number of the phase at an instant; the last one lasts for ever.
func (s *Situation) phase(at time.Duration) int {
	last := len(s.Phases) - 1
	for i, p := range s.Phases[:last] {
		if at -= p.For; at < 0 {
			return i
		}
	}
	return last
}

// away is when the target is not there; to is 0 when it always is.
func (s *Situation) away() (from, to time.Duration) {
	if from, to, ok := s.bad(); ok && s.Phases[s.phase(from)].Delay == 0 {
		return from, to
	}
	return 0, 0
}

// profile is the load generator's configuration of a share of the load.
func (s *Situation) profile(share float64) string {
	var steps []string
	for _, p := range s.Phases {
		steps = append(steps, fmt.Sprintf(`{"rps":%g,"duration":%g}`, p.Rate*share, p.For.Seconds()))
	}
	return `{"type":"steps","arrivals":"poisson","params":{"steps":[` + strings.Join(steps, ",") + `]}}`
}

// draw is a service time with the mean given.
func (s *Situation) draw(chance *rand.Rand, mean time.Duration, slow bool) time.Duration {
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
