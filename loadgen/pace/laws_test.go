package pace

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/loadgen/profile"
)

// A testCase is a schedule with a name.
type testCase struct {
	name string
	Config
}

// cases are schedules of all shapes with the given processes.
func cases(t testing.TB, processes ...Process) []testCase {
	t.Helper()
	var all []testCase
	add := func(name string, length time.Duration, p *profile.Profile, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, process := range processes {
			all = append(all, testCase{
				fmt.Sprintf("%s, %s", name, process),
				Config{Profile: p, Length: length, Arrivals: process, Seed: 42},
			})
		}
	}
	p, err := profile.NewConstant(997.13)
	add("constant", 20*second, p, err)
	p, err = profile.NewBurst(profile.Burst{BaseRps: 100, SpikeRps: 2000, SpikeDuration: 1.5, SpikePeriod: 7})
	add("burst", 30*second, p, err)
	p, err = profile.NewBurst(profile.Burst{BaseRps: 0, SpikeRps: 3000, SpikeDuration: 1, SpikePeriod: 4})
	add("burst from 0", 25*second, p, err)
	p, err = profile.NewSinusoid(profile.Sinusoid{MinRps: 0, MaxRps: 1500, Period: 9})
	add("sinusoidal", 31*second, p, err)
	p, err = profile.NewRamp(0, 1000, 40*second)
	add("ramp", 40*second, p, err)
	p, err = profile.NewRamp(1000, 0, 40*second)
	add("ramp down", 40*second, p, err)
	p, _, err = profile.NewSteps([]profile.Step{{Rps: 300, Duration: 10}, {Rps: 0, Duration: 3}, {Rps: 5000, Duration: 2}})
	add("steps", 16*second, p, err)
	p, err = profile.NewDDoS(profile.DDoS{MinRps: 50, MaxRps: 2000, MaxSpikeDuration: 5, MinIdleTime: 1,
		MaxIdleTime: 9}, 3, 60*second)
	add("ddos", 60*second, p, err)
	trace := testkit.Must(profile.ReadTrace(strings.NewReader("second,count\n0,900\n1,0\n2,2500\n3,1200\n4,3000\n")))(t)
	p, last, err := profile.NewTrace(trace, profile.TraceOptions{Speedup: 0.5, ScaleRps: 1})
	add("trace", last, p, err)
	return all
}

// Measured along the cumulative rate, uniform arrivals are exactly one arrival
// apart: Λ is k + ½ between the nanosecond at which k is due and the next.
func TestUniformGapsAreOne(t *testing.T) {
	for _, c := range cases(t, Uniform) {
		for k, due := range take(New(c.Config).ForLoop(0, 1)) {
			s := profile.Arrivals(uint64(k)) + profile.Half
			if low, high := c.Profile.Before(due), c.Profile.Before(due+1); s < low || s >= high {
				t.Fatalf("%s: arrival %d is due at %d ns, where Λ goes from %v to %v", c.name, k, due, low.Float(), high.Float())
			}
		}
	}
}

// Up to any time uniform arrivals are as many as the integral of the rate, up
// to half of one.
func TestUniformCounts(t *testing.T) {
	for _, c := range cases(t, Uniform) {
		schedule := New(c.Config).ForLoop(0, 1)
		for i := range 1000 {
			at := c.Length * time.Duration(i) / 1000
			got, want := float64(schedule.Waiting(at)), c.Profile.Cumulative(at).Float()
			if math.Abs(got-want) > 0.500001 {
				t.Fatalf("%s: %v arrivals by %v, Λ is %v", c.name, got, at, want)
			}
		}
	}
}

// Measured along the cumulative rate, the gaps of Poisson arrivals are
// exponential, by the test of Kolmogorov and Smirnov, and independent of the one
// before. The seeds are fixed: it holds or it does not.
func TestPoissonGapsAreExponential(t *testing.T) {
	for _, c := range cases(t, Poisson) {
		var gaps []float64
		last := profile.Count(0)
		for _, due := range take(New(c.Config).ForLoop(0, 1)) {
			at := c.Profile.Cumulative(due)
			gaps = append(gaps, (at - last).Float())
			last = at
		}
		n := float64(len(gaps))
		if r := correlation(gaps); math.Abs(r) > 4/math.Sqrt(n) {
			t.Errorf("%s: a gap and the next are correlated: %v", c.name, r)
		}
		slices.Sort(gaps)
		worst := 0.0
		for i, x := range gaps {
			f := -math.Expm1(-x)
			worst = max(worst, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
		}
		if bound := 1.63 / math.Sqrt(n); worst > bound { // one in a hundred
			t.Errorf("%s: the distribution of %v gaps is %v from the exponential one, at most %v is allowed", c.name, n,
				worst, bound)
		}
	}
}

// correlation is that of neighbours.
func correlation(x []float64) float64 {
	var mean, cross, square float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for i, v := range x {
		square += (v - mean) * (v - mean)
		if i > 0 {
			cross += (v - mean) * (x[i-1] - mean)
		}
	}
	return cross / square
}

// Over many seeds the number of Poisson arrivals in any part of a run has the
// mean and the variance of its distribution: both the integral of the rate.
func TestPoissonCounts(t *testing.T) {
	const runs = 100
	for _, c := range cases(t, Poisson) {
		edges := []time.Duration{c.Length / 10, c.Length / 3, c.Length / 2, c.Length}
		sums, squares := make([]float64, len(edges)), make([]float64, len(edges))
		for seed := range int64(runs) {
			c.Seed = seed
			schedule := New(c.Config).ForLoop(0, 1)
			before := schedule.Waiting(0)
			for i, at := range edges {
				n := schedule.Waiting(at)
				sums[i] += float64(n - before)
				squares[i] += float64(n-before) * float64(n-before)
				before = n
			}
		}
		from := 0.0
		for i, at := range edges {
			to := c.Profile.Cumulative(at).Float()
			want, mean := to-from, sums[i]/runs
			variance := squares[i]/runs - mean*mean
			from = to
			if math.Abs(mean-want) > 4*math.Sqrt(want/runs) {
				t.Errorf("%s: %v arrivals on average up to %v, want %v", c.name, mean, at, want)
			}
			// A variance estimated from n runs is off by √(2/n) of itself.
			if math.Abs(variance/want-1) > 4*math.Sqrt(2./runs) {
				t.Errorf("%s: their variance up to %v is %v, want %v", c.name, at, variance, want)
			}
		}
	}
}

// Thinning (P. A. W. Lewis and G. S. Shedler, 1979) draws Poisson arrivals in
// another way: at the highest rate, and keeps each with the probability
// rate/highest. Both ways put the same share of arrivals before any time.
func TestThinningAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range cases(t, Poisson) {
		var ours, thinned []time.Duration
		for seed := range int64(5) {
			c.Seed = 1000 + seed
			ours = append(ours, take(New(c.Config).ForLoop(0, 1))...)
			highest := c.Profile.RateMax()
			for at := r.ExpFloat64() / highest; at < c.Length.Seconds(); at += r.ExpFloat64() / highest {
				due := time.Duration(at * 1e9)
				if r.Float64()*highest < c.Profile.Rate(due) {
					thinned = append(thinned, due)
				}
			}
		}
		slices.Sort(ours)
		slices.Sort(thinned)
		n, m := float64(len(ours)), float64(len(thinned))
		worst, j := 0.0, 0
		for i, due := range ours {
			for j < len(thinned) && thinned[j] <= due {
				j++
			}
			worst = max(worst, math.Abs(float64(i+1)/n-float64(j)/m))
		}
		if bound := 1.63 * math.Sqrt((n+m)/(n*m)); worst > bound {
			t.Errorf("%s: the shares of %v arrivals and %v thinned ones differ by %v, at most %v is allowed", c.name, n, m,
				worst, bound)
		}
		if math.Abs(n-m) > 4*math.Sqrt(n+m) {
			t.Errorf("%s: %v arrivals, %v thinned ones", c.name, n, m)
		}
	}
}

// However the schedule is dealt to generators and loops, together they send
// exactly what one alone would, each request once.
func TestHandsAddUp(t *testing.T) {
	for _, c := range cases(t, Uniform, Poisson) {
		whole := take(New(c.Config).ForLoop(0, 1))
		if !slices.IsSorted(whole) {
			t.Errorf("%s: due times go back", c.name)
		}
		for _, hands := range []struct{ shards, loops int }{{1, 2}, {3, 1}, {3, 2}, {7, 4}} {
			var parts []time.Duration
			seen := make([]bool, len(whole))
			var counted uint64
			for i := range hands.shards {
				c.Shard = Shard{Index: i, Of: hands.shards}
				s := New(c.Config)
				counter := s.ForLoop(0, 1)
				counted += counter.Waiting(c.Length)
				for j := range hands.loops {
					schedule := s.ForLoop(j, hands.loops)
					for due, ok := schedule.Due(); ok; due, ok = schedule.Due() {
						if k := schedule.Index(); seen[k] || whole[k] != due {
							t.Fatalf("%s, %+v: request %d is due at %v, want %v once", c.name, hands, k, due, whole[k])
						}
						seen[schedule.Index()] = true
						parts = append(parts, due)
						schedule.Take()
					}
				}
			}
			if len(parts) != len(whole) || counted != uint64(len(whole)) {
				t.Errorf("%s, %+v: %d requests, counted as %d, want %d", c.name, hands, len(parts), counted, len(whole))
			}
		}
	}
}

// The schedule is a function of profile, seed and index: the same every time,
// another for another seed, and a longer run begins like a shorter one.
func TestScheduleIsAFunctionOfTheSeed(t *testing.T) {
	c := Config{Profile: steady(t, 1000), Length: 10 * second, Arrivals: Poisson, Seed: 5}
	whole := take(New(c).ForLoop(0, 1))
	if !slices.Equal(whole, take(New(c).ForLoop(0, 1))) {
		t.Error("the same seed gives another schedule")
	}
	short := c
	short.Length = 3 * second
	if part := take(New(short).ForLoop(0, 1)); !slices.Equal(part, whole[:len(part)]) {
		t.Error("a shorter run begins differently")
	}
	c.Seed = 6
	if slices.Equal(whole, take(New(c).ForLoop(0, 1))) {
		t.Error("another seed gives the same schedule")
	}
	// Golden: other machines and versions must draw the same.
	want := []time.Duration{868_666, 1_880_928, 2_227_403, 2_422_268}
	if !slices.Equal(whole[:4], want) {
		t.Errorf("the first arrivals of seed 5 are due at %d ns, want %d", whole[:4], want)
	}
}

// The table of the exponential numbers is what its comment says.
func TestSeries(t *testing.T) {
	x, _, err := big.ParseFloat("0.69314718055994530941723212145817656807550013436025525412068", 10, 200,
		big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	scale := new(big.Float).SetPrec(200).SetMantExp(big.NewFloat(1), 64)
	units := func(v *big.Float) uint64 {
		n, _ := new(big.Float).Mul(v, scale).Uint64()
		return n
	}
	if units(x) != ln2 {
		t.Errorf("ln 2 is %#x, want %#x", uint64(ln2), units(x))
	}
	term, sum := new(big.Float).Copy(x), new(big.Float).Copy(x)
	for i, have := range series {
		term.Mul(term, x).Quo(term, big.NewFloat(float64(i+2)))
		sum.Add(sum, term)
		if units(sum) != have {
			t.Errorf("entry %d is %#x, want %#x", i, have, units(sum))
		}
	}
}

// Exponential numbers have the mean 1, the variance 1, and the right share
// beyond any bound.
func TestExponential(t *testing.T) {
	source := rand.NewPCG(1, 2)
	const n = 1_000_000
	var sum, square float64
	beyond := map[float64]int{}
	for range n {
		x := exponential(source).Float()
		sum += x
		square += x * x
		for _, bound := range []float64{0.01, 0.5, 0.7, 1, 2, 5, 9} {
			if x > bound {
				beyond[bound]++
			}
		}
	}
	mean, variance := sum/n, square/n-sum/n*sum/n
	if math.Abs(mean-1) > 4/math.Sqrt(n) || math.Abs(variance-1) > 4*math.Sqrt(8./n) {
		t.Errorf("mean %v and variance %v, want 1", mean, variance)
	}
	for bound, count := range beyond {
		p := math.Exp(-bound)
		if got := float64(count) / n; math.Abs(got-p) > 4*math.Sqrt(p*(1-p)/n) {
			t.Errorf("a share of %v is beyond %v, want %v", got, bound, p)
		}
	}
}
