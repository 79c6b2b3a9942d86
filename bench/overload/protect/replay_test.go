package protect

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// replayed returns the share of the requests due from an instant on that the target with nothing
// in front of it answers in time.
func replayed(sit *Scenario, from time.Duration) float64 {
	chance := rand.New(rand.NewPCG(5, 5))
	var all []request
	for _, at := range sit.arrivals(chance) {
		all = append(all, request{})
		all[len(all)-1].Due = at
	}
	var inTime, counted float64
	for i, at := range sit.fifo(all, chance) {
		if all[i].Due < from {
			continue
		}
		if counted++; at >= 0 && at-all[i].Due <= sit.InTime {
			inTime++
		}
	}
	return inTime / counted
}

func TestArrivals(t *testing.T) {
	sit := one()
	sit.Phases[0].Rate, sit.Phases[1].Rate, sit.Phases[2].Rate = 1000, 4000, 500
	due := sit.arrivals(rand.New(rand.NewPCG(1, 1)))
	if !slices.IsSorted(due) || due[0] < 0 || due[len(due)-1] >= 30*s {
		t.Errorf("arrivals are from %v to %v, sorted %t", due[0], due[len(due)-1], slices.IsSorted(due))
	}
	count := make([]float64, 3)
	for _, at := range due {
		count[sit.phase(at)]++
	}
	for i, p := range sit.Phases {
		want := p.Rate * p.For.Seconds()
		if math.Abs(count[i]-want) > 5*math.Sqrt(want) {
			t.Errorf("%v arrivals in phase %d, want about %v", count[i], i, want)
		}
	}
}

// What comes in a stop is answered after it, and what is in work is delayed by it.
func TestReplayStops(t *testing.T) {
	sit := one()
	sit.Dips = TargetSlowdowns{Every: 5 * s, For: 400 * ms}
	all := even(20, 0, 30*s, 200, 0)
	stopped := 0
	for i, at := range sit.fifo(all, rand.New(rand.NewPCG(1, 1))) {
		if at >= 0 && at%(5*s) > 4600*ms {
			t.Errorf("the request of %v is answered at %v, in a stop", all[i].Due, at)
		}
		if all[i].Due%(5*s) >= 4600*ms && at >= 0 {
			stopped++
		}
	}
	if stopped == 0 {
		t.Error("no request of a stop is answered")
	}
}

// Clients that retry keep a target overloaded after its trouble is over.
func TestReplayRetries(t *testing.T) {
	for _, sit := range Scenarios() {
		if sit.Retries == 0 {
			continue
		}
		if got := replayed(&sit, 14*s); got > .05 {
			t.Errorf("%s: %.3f in time long after the trouble", sit.Name, got)
		}
		sit.Retries = 0
		if got := replayed(&sit, 20*s); got < .99 {
			t.Errorf("%s, but without retries: %.3f in time long after the trouble", sit.Name, got)
		}
	}
	down := one()
	down.Phases = []Phase{{40 * ms, 80, 0, true}, {s, 80, ms, false}}
	for retries, answered := range []bool{false, true} {
		down.Retries = retries
		if got := down.fifo(make([]request, 1), rand.New(rand.NewPCG(1, 1)))[0]; got >= 50*ms != answered {
			t.Errorf("with %d retries, while the target is down for 40 ms: %v", retries, got)
		}
	}
}

// The replay misses what the goals are about, and not everything.
func TestReplayOfUnsteady(t *testing.T) {
	for name, want := range map[string][2]float64{
		"stops": {.995, 1}, "blips": {.985, 1}, "mix": {.2, .4}, "flush": {.8, .93}, "ramp": {.2, .4}, "retries": {.2, .4},
	} {
		for _, sit := range unsteady() {
			if got := replayed(&sit, 0); sit.Name == name && (got < want[0] || got > want[1]) {
				t.Errorf("%s: %.3f in time, want %v", name, got, want)
			}
		}
	}
	empty := cached(1000)
	if all, cold := replayed(empty, 0), replayed(empty, 10*s); all < .34 || cold > .99 {
		t.Errorf("of all %.3f in time, after the flush %.3f", all, cold)
	}
}
