package protect

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/bench/lab/rig"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// one is a target that can do 100/s, and half of it for the second of three
// spans of 10 s.
func one() *Scenario {
	return &Scenario{Name: "one", Workers: 1, Queue: 10, Proxies: 1, InTime: 100 * ms, Rounds: 1,
		Phases: []Phase{{10 * s, 80, 10 * ms, false}, {10 * s, 80, 20 * ms, true}, {10 * s, 80, 10 * ms, false}}}
}

// even is n requests a second for a time, all answered with status after latency.
func even(n int, from, to time.Duration, status int, latency time.Duration) (list []request) {
	for at := from; at < to; at += s / time.Duration(n) {
		list = append(list, request{rig.Outcome{Due: at, Done: at + latency, Status: status}, false})
	}
	return list
}

func TestIdeal(t *testing.T) {
	slow := one()
	slow.SlowShare, slow.Phases = 0.01, []Phase{{10 * s, 200, 10 * ms, false}}
	gone, dips := one(), one()
	gone.Phases[1].Delay = 0
	dips.Dips = TargetSlowdowns{Every: s, For: 400 * ms, Speed: .5}
	for name, c := range map[string]struct {
		s    *Scenario
		all  []request
		want float64
	}{
		"below the capacity":    {one(), even(50, 0, 10*s, 200, ms), 500},
		"above it in one phase": {one(), even(80, 0, 30*s, 200, ms), 800 + 500 + 800},
		"above it always":       {one(), even(200, 0, 30*s, 200, ms), 1000 + 500 + 1000},
		"the target is away":    {gone, even(80, 0, 30*s, 200, ms), 1600},
		"a slow route takes space": {slow, append(even(200, 0, 10*s, 200, ms), request{slow: true}),
			1000 * 1.01 / 1.5 * 2000 / 2001},
		"dips take a fifth": {dips, even(80, 0, 30*s, 200, ms), 800 + 400 + 800},
		"a cache":           {cached(9), even(200, 0, 30*s, 200, ms), 6000},
		"nothing was asked": {one(), nil, 0},
	} {
		if got := c.s.judge(c.all, rand.New(rand.NewPCG(1, 1))).Ideal; math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestScore(t *testing.T) {
	all := slices.Concat(even(80, 0, 10*s, 200, ms), even(80, 10*s, 13*s, 200, 200*ms), even(80, 13*s, 20*s, 503, ms),
		even(80, 20*s, 20*s+500*ms, 429, ms), even(80, 20*s+500*ms, 30*s, 200, 2*ms))
	got := one().judge(all, rand.New(rand.NewPCG(1, 1)))
	if got.Requests != 2400 || got.OK != 800+240+760 || got.InTime != 1560 || got.Shed != 600 || got.P99 != 0.2 {
		t.Errorf("%+v", got)
	}
	sum := 0
	for _, n := range got.Course {
		sum += n
	}
	if sum != got.InTime || len(got.Course) != 300 {
		t.Errorf("the course has %d steps with %d answers", len(got.Course), sum)
	}
	if got.Protected == nil || *got.Protected >= 0 || got.Recovered == nil || math.Abs(*got.Recovered-0.4) > 0.01 {
		t.Errorf("protected %v, recovered %v; want never, and when all but a tenth of a second's requests are answered",
			got.Protected, got.Recovered)
	}
	gone := one()
	gone.Phases[1].Delay = 0
	if got := gone.judge(all, rand.New(rand.NewPCG(1, 1))); got.Protected != nil || got.Recovered == nil {
		t.Errorf("with the target away: protected %v, recovered %v", got.Protected, got.Recovered)
	}
	gone.Phases[1].Bad = false
	if got := gone.judge(all, rand.New(rand.NewPCG(1, 1))); got.Protected != nil || got.Recovered != nil {
		t.Errorf("without trouble: protected %v, recovered %v", got.Protected, got.Recovered)
	}
}

func TestSettled(t *testing.T) {
	course := func(answered ...int) (list []int) { // per second, of an ideal of 80, 50, 80
		for _, n := range answered {
			list = append(list, slices.Repeat([]int{n / 10}, 10)...)
		}
		return list
	}
	calm := slices.Repeat([]int{80}, 10)
	for name, c := range map[string]struct {
		answered []int
		want     float64
	}{
		"at once":                 {slices.Repeat([]int{50}, 10), 0},
		"after three seconds":     {slices.Concat([]int{0, 0, 0}, slices.Repeat([]int{50}, 7)), 2.9},
		"at once but for a while": {slices.Concat([]int{0}, slices.Repeat([]int{50}, 9)), 0.9},
		"never":                   {slices.Repeat([]int{40}, 10), -1},
	} {
		if got := one().settled(course(slices.Concat(calm, c.answered)...), 10*s, 19*s); math.Abs(*got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, *got, c.want)
		}
	}
}

// What a queue without a gate would have answered in time.
func TestNeedless(t *testing.T) {
	share := func(s *Scenario, all []request) float64 {
		score := s.judge(all, rand.New(rand.NewPCG(1, 2)))
		return float64(score.Needless) / float64(score.Requests)
	}
	overrun, noQueue, gone := one(), one(), one()
	noQueue.Queue = 0
	gone.Phases[1].Delay = 0
	for name, c := range map[string]struct {
		s          *Scenario
		all        []request
		low, hight float64
	}{
		"idle, and refuses":          {one(), even(10, 0, 10*s, 503, ms), 0.99, 1},
		"idle, and limits":           {one(), even(10, 0, 10*s, 429, ms), 0.99, 1},
		"idle, and fails":            {one(), even(10, 0, 10*s, 502, ms), 0, 0},
		"idle, and answers":          {one(), even(10, 0, 10*s, 200, ms), 0, 0},
		"overrun: the queue is full": {overrun, even(1000, 0, 10*s, 503, ms), 0.02, 0.12},
		"no queue: a tenth is busy":  {noQueue, even(10, 0, 10*s, 503, ms), 0.8, 1},
		"away":                       {gone, even(10, 10*s, 20*s, 503, ms), 0, 0},
		"back": {gone, append(even(1000, 9*s, 10*s, 503, ms), even(10, 20*s, 30*s, 503, ms)...),
			0.08, 0.25},
	} {
		if got := share(c.s, c.all); got < c.low || got > c.hight {
			t.Errorf("%s: %v, want %v to %v", name, got, c.low, c.hight)
		}
	}
}

// The virtual queue answers in order, no request before it came, and as many as
// the workers can.
func TestFIFOLaws(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		sit := one()
		sit.Workers, sit.Queue = 1+chance.IntN(20), chance.IntN(100)
		var all []request
		for at := time.Duration(0); at < 30*s; at += time.Duration(chance.ExpFloat64() * float64(8*ms) /
			float64(sit.Workers)) {
			all = append(all, request{rig.Outcome{Due: at}, false})
		}
		done := sit.fifo(all, chance)
		for i, at := range done {
			if at >= all[i].Due {
				continue
			}
			if at >= 0 {
				t.Fatalf("the request of %v was answered at %v", all[i].Due, at)
			}
			inside, places := 0, sit.Workers+sit.Queue // it was refused: all were taken
			for j := i - 1; j >= 0 && inside < places; j-- {
				if done[j] > all[i].Due {
					inside++
				}
			}
			if inside < places {
				t.Fatalf("refused with %d inside, of %d", inside, places)
			}
		}
	}
}

func TestDrawHasItsMean(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	for name, c := range map[string]struct {
		sit       Scenario
		variation float64
	}{
		"exponential": {Scenario{}, 1},
		"lognormal":   {Scenario{Varied: true}, 2},
		// The mean of 1 s is of .9 × .5 s and .1 × 5.5 s; the mean of squares of an exponential
		// distribution is twice its mean squared.
		"two kinds": {Scenario{Kinds: [2]time.Duration{500 * ms, 5500 * ms}}, math.Sqrt(2*(.9*.5*.5+.1*5.5*5.5) - 1)},
	} {
		var sum, squares float64
		const n = 400_000
		for range n {
			v := c.sit.draw(chance, s, false).Seconds()
			sum, squares = sum+v, squares+v*v
		}
		mean := sum / n
		if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(mean-1) > 0.02 || math.Abs(cv/c.variation-1) > 0.1 {
			t.Errorf("%s: mean %v, coefficient of variation %v, want 1 and %v", name, mean, cv, c.variation)
		}
	}
}
