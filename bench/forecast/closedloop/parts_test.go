package closedloop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Counts have the given mean and dispersion.
func TestCounts(t *testing.T) {
	for _, test := range []struct{ mean, dispersion float64 }{{0.3, 1}, {5, 1}, {160, 1}, {0.3, 2}, {5, 2}, {160, 2},
		{40, 4}, {2.25, 0}} {
		t.Run(fmt.Sprintf("mean %.2f, dispersion %.0f", test.mean, test.dispersion), func(t *testing.T) {
			r := newRand(1, 1)
			const n = 100_000
			sum, squares := 0.0, 0.0
			for range n {
				v := float64(count(r, test.mean, test.dispersion))
				sum, squares = sum+v, squares+v*v
			}
			mean := sum / n
			variance := squares/n - mean*mean
			if math.Abs(mean/test.mean-1) > 0.02 {
				t.Errorf("mean %.3f", mean)
			}
			want := test.dispersion * test.mean
			if test.dispersion == 0 {
				part := test.mean - math.Floor(test.mean)
				want = part * (1 - part)
			}
			if math.Abs(variance/want-1) > 0.05 {
				t.Errorf("variance %.3f, want %.3f", variance, want)
			}
		})
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	if h.quantile(.95) != 0 {
		t.Errorf("the quantile of nothing is %v", h.quantile(.95))
	}
	r := rand.New(rand.NewPCG(1, 2))
	var all []float64
	for range 10_000 {
		v := 0.05 * r.ExpFloat64()
		h.add(v)
		all = append(all, v)
	}
	slices.Sort(all)
	for _, share := range []float64{.1, .5, .9, .95, .99} {
		want := all[int(share*float64(len(all)))]
		if got := h.quantile(share); math.Abs(got/want-1) > 0.02 {
			t.Errorf("quantile %.2f is %.5f, want %.5f", share, got, want)
		}
	}
	var ends histogram
	ends.add(1e-9)
	ends.add(1e9)
	if low, high := ends.quantile(0.5), ends.quantile(1); low > 0.001 || math.Abs(high-32) > 0.4 {
		t.Errorf("what is off the scale counts as %v and %v", low, high)
	}
}

// Requests of a second are in order and at the rate of the demand. Refused clients retry
// later, at most three times.
func TestCrowd(t *testing.T) {
	s := steady(100, 1000, func(s *Scenario) { s.Retry = 1 })
	c := newCrowd(s)
	first, again := 0, [5]int{}
	for k := range 400 {
		all, n := c.second(k)
		first += n
		last := float64(k)
		for _, a := range all {
			if a.at < last || a.at >= float64(k+1) {
				t.Fatalf("second %d: somebody at %v after %v", k, a.at, last)
			}
			last = a.at
			again[a.tries]++
			c.failed(a.at+timeout, a)
		}
	}
	if math.Abs(float64(first)-40_000) > 1000 || again[0] != first {
		t.Errorf("%d first requests, want about 40,000", first)
	}
	for tries := 1; tries <= triesMax; tries++ {
		if again[tries] < 38_000 || again[tries] > first {
			t.Errorf("%d came for the %d. time again", again[tries], tries)
		}
	}
	if again[triesMax+1] != 0 {
		t.Errorf("%d came a fourth time again", again[triesMax+1])
	}
}

func TestDemand(t *testing.T) {
	minutes := Demand{Step: time.Minute, Rates: []float64{10, 20, 40}}
	for at, want := range map[float64]float64{0: 10, 30: 10, 60: 15, 90: 20, 120: 30, 150: 40, 179: 40} {
		if got := minutes.At(at); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v s: %v, want %v", at, got, want)
		}
	}
	tenths := Demand{Step: 100 * time.Millisecond, Rates: slices.Repeat([]float64{0, 10}, 50)}
	if tenths.Seconds() != 10 || math.Abs(tenths.Peak()-5) > 1e-9 || tenths.At(0.15) != 10 || tenths.At(0.05) != 0 {
		t.Errorf("tenths of seconds: %d s, peak %v", tenths.Seconds(), tenths.Peak())
	}
	if got := tenths.Scaled(3); got.Peak() < 14.9 || tenths.Peak() > 5.1 {
		t.Errorf("scaled peak %v, of the original %v", got.Peak(), tenths.Peak())
	}
}

func ExampleRun() {
	s := &Scenario{
		Demand: Demand{Start: time.Unix(0, 0), Step: time.Minute, Rates: []float64{100, 300, 300, 100}, Dispersion: 2},
		Target: Target{Workers: 8, ServiceMean: 0.05, ServiceCV: 1}, // 160 requests a second
		Retry:  0.5, SnapshotInterval: 30 * time.Second, Seed: 1,
	}
	for _, c := range []Strategy{perfectLimit(), unprotected()} {
		r, err := Run(s, c.New(s))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %d requests, %d answers in time, the target overloaded for %d s\n", c.Name, r.Offered, r.Good,
			r.Overload)
	}
	// Output:
	// perfect gate: 63319 requests, 33399 answers in time, the target overloaded for 0 s
	// no limit: 83942 requests, 5373 answers in time, the target overloaded for 193 s
}
