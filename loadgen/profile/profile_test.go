package profile

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

const second = time.Second

func ExampleNewConstant() {
	steady, err := NewConstant(4)
	if err != nil {
		panic(err)
	}
	for k := range uint64(3) {
		fmt.Println(steady.Inverse(Arrivals(k) + Half))
	}
	fmt.Println(steady)
	// Output:
	// 125ms
	// 375ms
	// 625ms
	// constant (rps=4)
}

func ExampleNewBurst() {
	p, err := NewBurst(Burst{BaseRps: 100, SpikeRps: 500, SpikeDuration: 5, SpikePeriod: 60})
	if err != nil {
		panic(err)
	}
	fmt.Println(p)
	for _, peak := range p.Peaks(3 * time.Minute) {
		fmt.Println(peak.Start, peak.End, peak.RPS)
	}
	// Output:
	// burst (baseRps=100, spikeRps=500)
	// 55s 1m0s 500
	// 1m55s 2m0s 500
	// 2m55s 3m0s 500
}

// A sample is a profile with its rate by the formula that it is to follow.
type sample struct {
	name string
	*Profile
	rate func(t float64) float64 // t in seconds; nil: the profile's own
	// slack is how far Λ may be from the integral of rate, in arrivals.
	slack float64
}

// samples are profiles of all shapes.
func samples(t testing.TB) []sample {
	t.Helper()
	var all []sample
	add := func(name string, p *Profile, err error, slack float64, rate func(float64) float64) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, sample{name, p, rate, slack})
	}
	sine := func(low, high, period, slack float64) {
		p, err := NewSinusoid(Sinusoid{low, high, period})
		add(fmt.Sprintf("sinusoidal %v to %v in %v s", low, high, period), p, err, slack, func(t float64) float64 {
			return (low+high)/2 + (high-low)/2*math.Sin(2*math.Pi*t/period)
		})
	}
	for _, rps := range []float64{RateMin, 3, 997.13, RateMax} {
		p, err := NewConstant(rps)
		add(fmt.Sprintf("constant %v", rps), p, err, 1e-3, func(float64) float64 { return rps })
	}
	burst := func(base, spike, length, period float64) {
		p, err := NewBurst(Burst{base, spike, length, period})
		add(fmt.Sprintf("burst %v %v", base, spike), p, err, 1e-2, func(t float64) float64 {
			if math.Mod(t, period) >= period-length {
				return spike
			}
			return base
		})
	}
	burst(100, 500, 5, 60)
	burst(0, 7.3, 0.4, 1.1)
	burst(300, 20, 1, 3)
	sine(10, 90, 60, 0.02)
	sine(0, 4000, 7, 0.02)
	sine(0, 50_000, 3600, 0.02)
	sine(5, 5, 10, 0.02)
	ramp := func(from, to, length float64) {
		p, err := NewRamp(from, to, time.Duration(length*1e9))
		add(fmt.Sprintf("ramp %v to %v", from, to), p, err, 1e-2, func(t float64) float64 {
			return from + (to-from)*min(t/length, 1)
		})
	}
	ramp(0, 1000, 30)
	ramp(1000, 0, 30)
	ramp(17.3, 99.9, 7777.7)
	p, last, err := NewSteps([]Step{{5, 10}, {0, 3}, {50, 2.5}, {1, 4}})
	add("steps", p, err, 1e-2, func(t float64) float64 {
		switch {
		case t < 10:
			return 5
		case t < 13:
			return 0
		case t < 15.5:
			return 50
		}
		return 1
	})
	if last != 19500*time.Millisecond {
		t.Errorf("the steps last %v, want 19.5s", last)
	}
	p, err = NewDDoS(DDoS{10, 1000, 5, 2, 20}, 7, 10*time.Minute)
	add("ddos", p, err, 0, nil)
	p, _ = play(t, "time,count\n0,60\n60,0\n120,90\n180,7\n", TraceOptions{Speedup: 1, ScaleRps: 1})
	add("trace of counts", p, nil, 1e-3, func(t float64) float64 {
		return [...]float64{1, 0, 1.5, 7. / 60, 0, 0, 0, 0, 0, 0}[int(min(t/60, 9))]
	})
	p, _ = play(t, "t,x\n0.25,1\n0.5,1\n0.5,1\n4.75,1\n", TraceOptions{Speedup: 1, ScaleRps: 1})
	add("trace of arrivals", p, nil, 0, nil)
	return all
}

func TestConstantGolden(t *testing.T) {
	for _, c := range []struct {
		rps  float64
		at   Count
		want time.Duration
	}{
		{1, 0, 0},
		{1, Half, 500 * time.Millisecond},
		{1, One, time.Second},
		{1000, Half, 500 * time.Microsecond},
		{1000, Arrivals(1_000_000_000) + Half, 1_000_000*time.Second + 500*time.Microsecond},
		{3, Arrivals(1), 333_333_333},
		{3, Arrivals(3_000_000_000), 1_000_000_000 * time.Second},
		{0.001, Half, 500 * time.Second},
		{RateMax, Half, 50},
		{RateMax, Arrivals(1_000_000_000) + Half, 100*time.Second + 50},
		{RateMin, math.MaxUint64, math.MaxInt64},
	} {
		p := testkit.Must(NewConstant(c.rps))(t)
		if got := p.Inverse(c.at); got != c.want {
			t.Errorf("Λ⁻¹ of %d units at %v/s is %d ns, want %d ns", c.at, c.rps, got, c.want)
		}
	}
}

// Λ is the integral of the rate that the shape's formula says, at any time.
func TestCumulativeFollowsTheFormula(t *testing.T) {
	for _, p := range samples(t) {
		if p.rate == nil {
			continue
		}
		// All jumps of the rates are at whole milliseconds.
		const steps, dt = 300_000, 0.001 // seconds
		integral, compensation := 0.0, 0.0
		for i := range steps {
			mid := (float64(i) + 0.5) * dt
			area := p.rate(mid)*dt - compensation // Kahan's sum
			next := integral + area
			compensation = next - integral - area
			integral = next
			if i%997 > 0 {
				continue
			}
			at := time.Duration(math.Round((float64(i) + 1) * dt * 1e9))
			got := p.Cumulative(at).Float()
			if math.Abs(got-integral) > p.slack+1e-9*integral {
				t.Errorf("%s: Λ(%v) is %v, the integral of the rate %v", p.name, at, got, integral)
				break
			}
			if rate := p.Rate(time.Duration(mid * 1e9)); math.Abs(rate-p.rate(mid)) > 1e-6*p.RateMax()+1e-6 {
				t.Errorf("%s: rate at %v s is %v, want %v", p.name, mid, rate, p.rate(mid))
				break
			}
		}
	}
}

// A sine is right to a hundredth of an arrival: Λ against its closed form.
func TestSinusoidIsRight(t *testing.T) {
	for _, s := range []Sinusoid{{0, 1000, 60}, {90, 110, 3600}, {0, 100_000, 86_400}, {3, 8, 0.25}, {0, 50_000, 7}} {
		p, err := NewSinusoid(s)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		mean, amplitude := big.NewFloat((s.MinRps+s.MaxRps)/2), (s.MaxRps-s.MinRps)/2
		for i := range 5000 {
			at := time.Duration(float64(i) * 0.000719 * s.Period * 1e9)
			phase := 2 * math.Pi * math.Mod(at.Seconds(), s.Period) / s.Period
			want, _ := new(big.Float).Mul(mean, big.NewFloat(at.Seconds())).Float64()
			want += amplitude * s.Period / (2 * math.Pi) * (1 - math.Cos(phase))
			if got := p.Cumulative(at).Float(); math.Abs(got-want) > 0.01+1e-11*want {
				t.Fatalf("%+v: Λ(%v) is %v, want %v", s, at, got, want)
			}
		}
		// Each period yields its mean to the last grain.
		period := p.end().start
		if want := Count(math.Round((s.MinRps + s.MaxRps) / 2 * period.Seconds() * float64(One))); p.Cumulative(1000*
			period) != 1000*want {
			t.Errorf("%+v: a thousand periods are %d units, want %d", s, p.Cumulative(1000*period), 1000*want)
		}
	}
}

// Inverse, Before and Cumulative agree at all times and amounts: an amount is
// reached before t exactly when it is below Before(t).
func TestInverseUndoesCumulative(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range samples(t) {
		last := time.Duration(0)
		total := p.Cumulative(40 * time.Minute)
		for i := range 4000 {
			s := Count(r.Uint64N(uint64(total) + 1))
			if i%4 == 0 {
				s = s / One * One
			}
			at := p.Inverse(s)
			if at == math.MaxInt64 {
				t.Fatalf("%s: the amount %d is never reached, though %d are after 40 min", p.name, s, total)
			}
			if low := p.Before(at); s > 0 && s < low {
				t.Fatalf("%s: %d is reached at %d ns, but all below %d before", p.name, s, at, low)
			}
			if high := p.Before(at + 1); s >= high {
				t.Fatalf("%s: %d is reached at %d ns, but only those below %d before %d ns", p.name, s, at, high, at+1)
			}
			if got := p.Cumulative(at); got > s {
				t.Fatalf("%s: Λ(Λ⁻¹(%d)) is %d", p.name, s, got)
			}
		}
		for k := range uint64(3000) {
			s := Arrivals(k) + Half
			if s > total {
				break
			}
			at := p.Inverse(s)
			if at < last {
				t.Fatalf("%s: arrival %d is due at %d ns, the one before at %d ns", p.name, k, at, last)
			}
			last = at
		}
	}
}

// Between two pieces and at the ends of periods nothing is lost or counted
// twice.
func TestEdgesOfPieces(t *testing.T) {
	for _, p := range samples(t) {
		for i := range p.pieces {
			for _, d := range []time.Duration{-2, -1, 0, 1, 2} {
				at := p.pieces[i].start + d
				for _, s := range []Count{p.Cumulative(at), p.Cumulative(at) + 1, p.Before(at)} {
					if s == 0 || at <= 0 {
						continue
					}
					if got, want := p.Inverse(s) < at, s < p.Before(at); got != want {
						t.Fatalf("%s: %d is reached at %d ns; before %d ns: %v, want %v", p.name, s, p.Inverse(s), at, got, want)
					}
				}
			}
		}
	}
}

func TestBeforeTheStart(t *testing.T) {
	for _, p := range samples(t) {
		if p.Cumulative(-second) != 0 || p.Before(-second) != 0 || p.Before(0) != 0 || p.Inverse(0) != 0 {
			t.Errorf("%s: something is reached before the start", p.name)
		}
	}
}

func TestNeverReached(t *testing.T) {
	steps, _, err := NewSteps([]Step{{10, 1}, {0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	if got := steps.Inverse(Arrivals(10)); got != second {
		t.Errorf("the last arrival of steps that end with rest is at %v, want 1s", got)
	}
	if got := steps.Inverse(Arrivals(10) + 1); got != math.MaxInt64 {
		t.Errorf("what is beyond steps that end with rest is at %v, want never", got)
	}
	for _, p := range samples(t) {
		if got := p.Inverse(math.MaxUint64); got < 0 {
			t.Errorf("%s: the greatest amount is reached at %v", p.name, got)
		}
	}
}

// What differs in shape differs in its bytes.
func TestShapeBytes(t *testing.T) {
	seen := map[string]string{}
	for _, p := range samples(t) {
		shape := string(p.AppendShape(nil))
		if other, ok := seen[shape]; ok {
			t.Errorf("%s and %s have the same shape", p.name, other)
		}
		seen[shape] = p.name
	}
}

func TestCumulativeAllocatesNothing(t *testing.T) {
	for _, p := range samples(t) {
		k := uint64(0)
		if n := testing.AllocsPerRun(100, func() {
			k++
			p.Before(p.Inverse(Arrivals(k)+Half) / 2)
		}); n != 0 {
			t.Errorf("%s: %v allocations", p.name, n)
		}
	}
}

func BenchmarkInverse(b *testing.B) {
	for _, p := range samples(b) {
		total := uint64(p.Cumulative(5*time.Minute) / One)
		b.Run(p.name, func(b *testing.B) {
			var k uint64
			for b.Loop() {
				k = (k + 1) % (total + 1)
				p.Inverse(Arrivals(k) + Half)
			}
		})
	}
}
