package profile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
)

// Every parameter out of bounds is named, all of them together.
func TestParamsRefused(t *testing.T) {
	constant := func(rps float64) error { _, err := NewConstant(rps); return err }
	burst := func(s Burst) error { _, err := NewBurst(s); return err }
	sine := func(s Sinusoid) error { _, err := NewSinusoid(s); return err }
	flood := func(f DDoS) error { _, err := NewDDoS(f, 1, time.Minute); return err }
	ramp := func(from, to float64) error { _, err := NewRamp(from, to, time.Minute); return err }
	steps := func(s ...Step) error { _, _, err := NewSteps(s); return err }
	for _, c := range []struct {
		name string
		err  error
		want string // "param: problem"; empty: accepted
	}{
		{"constant at the bounds", errors.Join(constant(RateMin), constant(RateMax)), ""},
		{"constant 0", constant(0), "rps: must be a number from 0.001 to 10000000, is 0"},
		{"constant too slow", constant(RateMin / 2), "rps: must be"},
		{"constant too fast", constant(RateMax + 1), "rps: must be"},
		{"constant NaN", constant(math.NaN()), "rps: must be"},
		{"constant infinite", constant(math.Inf(1)), "rps: must be"},
		{"burst", burst(Burst{0, 1, 1, 2}), ""},
		{"burst below 0", burst(Burst{-1, 1, 1, 2}), "baseRps: must be 0 or a number from 0.001 to 10000000, is -1"},
		{"burst of nothing", burst(Burst{1, 0, 1, 2}), "spikeRps: must be"},
		{"burst without length", burst(Burst{1, 1, 0, 2}), "spikeDuration: must be from 0.001 to 604800 seconds, is 0"},
		{"burst without pause", burst(Burst{1, 1, 2, 2}), "spikeDuration: must be less than spikePeriod (2), is 2"},
		{"burst without period", burst(Burst{1, 1, 1, math.NaN()}), "spikePeriod: must be from"},
		{"burst all wrong", burst(Burst{-1, -1, -1, -1}), "spikePeriod: must be from"},
		{"sinusoidal upside down", sine(Sinusoid{2, 1, 1}), "minRps: must not be above maxRps (1), is 2"},
		{"sinusoidal without period", sine(Sinusoid{1, 2, 0}), "period: must be from"},
		{"sinusoidal at 0", sine(Sinusoid{0, 0, 1}), "maxRps: must be a number"},
		{"ddos", flood(DDoS{0, 1, 1, 0, 0}), ""},
		{"ddos upside down", flood(DDoS{2, 1, 1, 0, 0}), "minRps: must not be above maxRps (1), is 2"},
		{"ddos idle upside down", flood(DDoS{0, 1, 1, 2, 1}), "minIdleTime: must not be above maxIdleTime (1), is 2"},
		{"ddos without length", flood(DDoS{0, 1, 0, 0, 1}), "maxSpikeDuration: must be from"},
		{"ddos with a negative pause", flood(DDoS{0, 1, 1, -1, 1}), "minIdleTime: must be from"},
		{"ddos of too many", flood(DDoS{0, 1, 0.001, 0, 0}), "maxSpikeDuration: is too short for the run"},
		{"ramp", ramp(0, 1), ""},
		{"ramp down", ramp(1, 0), ""},
		{"ramp at 0", ramp(0, 0), "endRps: must not be 0 when startRps is"},
		{"ramp below 0", ramp(-1, 1), "startRps: must be 0 or"},
		{"no steps", steps(), "steps: must be from 1 to 10000 steps, are 0"},
		{"too many steps", steps(make([]Step, stepsMax+1)...), "steps: must be from 1 to 10000 steps, are 10001"},
		{"steps at 0", steps(Step{0, 1}), "steps: must have one with rps above 0"},
		{"wrong step", steps(Step{1, 1}, Step{1, 0}), "steps[1].duration: must be from"},
		{"wrong step rate", steps(Step{1, 1}, Step{-1, 1}), "steps[1].rps: must be 0 or"},
	} {
		if c.want == "" {
			if c.err != nil {
				t.Errorf("%s: %v", c.name, c.err)
			}
			continue
		}
		if _, ok := errors.AsType[strict.Faults](c.err); !ok || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.want)
		}
	}
	if err := burst(Burst{-1, -1, -1, -1}); len(strings.Split(err.Error(), "; ")) != 4 {
		t.Errorf("four wrong parameters give %q", err)
	}
}

func TestText(t *testing.T) {
	burst, _ := NewBurst(Burst{100, 500, 5, 60})
	ramp, _ := NewRamp(1, 2.5, time.Minute)
	steps, _, _ := NewSteps([]Step{{100, 1}, {300, 1}, {50, 1}})
	sine, _ := NewSinusoid(Sinusoid{1, 2, 3})
	flood, _ := NewDDoS(DDoS{1, 2, 3, 4, 5}, 1, second)
	for _, c := range []struct {
		p    *Profile
		want string
	}{
		{burst, "burst (baseRps=100, spikeRps=500)"},
		{ramp, "ramp (startRps=1, endRps=2.5)"},
		{steps, "steps (steps=3, rps=50 to 300)"},
		{sine, "sinusoidal (minRps=1, maxRps=2)"},
		{flood, "ddos (minRps=1, maxRps=2)"},
	} {
		if c.p.String() != c.want {
			t.Errorf("the log shows %q, want %q", c.p, c.want)
		}
	}
}

// Spikes are drawn from the seed: the same wherever it is done, others for
// another seed, and a longer run begins like a shorter one.
func TestFloodIsDrawnFromTheSeed(t *testing.T) {
	f := DDoS{MinRps: 10, MaxRps: 1000, MaxSpikeDuration: 5, MinIdleTime: 2, MaxIdleTime: 20}
	draw := func(seed int64, length time.Duration) []Peak {
		p := testkit.Must(NewDDoS(f, seed, length))(t)
		return p.Peaks(length)
	}
	hour := draw(1, time.Hour)
	if !slices.Equal(hour, draw(1, time.Hour)) {
		t.Error("the same seed gives other spikes")
	}
	if slices.Equal(hour, draw(2, time.Hour)) {
		t.Error("another seed gives the same spikes")
	}
	short := draw(1, 10*time.Minute)
	if n := len(short) - 1; !slices.Equal(short[:n], hour[:n]) {
		t.Error("a shorter run has other spikes")
	}
	// What they are like, with the first one as a golden value: other machines
	// and versions must draw the same.
	if got := fmt.Sprint(hour[0]); got != goldenSpike {
		t.Errorf("the first spike of seed 1 is %s, want %s", got, goldenSpike)
	}
	before := time.Duration(0)
	for i, k := range hour {
		idle, length := k.Start-before, k.End-k.Start
		if idle < 2*second || idle > 20*second {
			t.Errorf("idle for %v before spike %d", idle, i)
		}
		if i < len(hour)-1 && (length < second/2 || length > 5*second) {
			t.Errorf("spike %d lasts %v", i, length)
		}
		if k.RPS < 505 || k.RPS > 1000 {
			t.Errorf("spike %d has %v/s, want one from the upper half", i, k.RPS)
		}
		before = k.End
	}
	if len(hour) < 200 || len(hour) > 350 { // 3600 / (11 + 2.75) = 262
		t.Errorf("%d spikes in an hour", len(hour))
	}
}

const goldenSpike = "{4.172167723s 7.903559073s 752.875079}"

func TestPeaks(t *testing.T) {
	constant, _ := NewConstant(5)
	ramp, _ := NewRamp(1, 1000, time.Minute)
	sine, _ := NewSinusoid(Sinusoid{10, 90, 8})
	steps, _, _ := NewSteps([]Step{{100, 30}, {500, 5}, {400, 5}, {100, 30}, {450, 1}})
	stairs, _, _ := NewSteps([]Step{{100, 10}, {200, 10}, {300, 10}})
	burst, _ := NewBurst(Burst{1, 10, 1, 4})
	trace, _ := play(t, "t,rps\n0,10\n60,10\n120,40\n180,10\n240,10\n", TraceOptions{Speedup: 2, ScaleRps: 1})
	noise, _ := play(t, "t,count\n0,1\n1,0\n2,2\n3,0\n4,3\n5,0\n", TraceOptions{Speedup: 1, ScaleRps: 1})
	for name, c := range map[string]struct {
		p      *Profile
		length time.Duration
		want   []Peak
	}{
		"constant":   {constant, time.Minute, nil},
		"ramp":       {ramp, time.Minute, nil},
		"sinusoidal": {sine, 10 * second, []Peak{{second, 3 * second, 90}, {9 * second, 10 * second, 90}}},
		"steps": {steps, 71 * second,
			[]Peak{{30 * second, 40 * second, 500}, {70 * second, 71 * second, 450}}},
		"stairs":               {stairs, 30 * second, nil},
		"burst":                {burst, 8 * second, []Peak{{3 * second, 4 * second, 10}, {7 * second, 8 * second, 10}}},
		"burst, end within":    {burst, 7*second + 1, []Peak{{3 * second, 4 * second, 10}, {7 * second, 7*second + 1, 10}}},
		"burst, end before it": {burst, 3 * second, nil},
		"trace":                {trace, 150 * second, []Peak{{60 * second, 90 * second, 80}}},
		"chance":               {noise, 6 * second, nil},
	} {
		if got := c.p.Peaks(c.length); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%s: peaks %v, want %v", name, got, c.want)
		}
	}
	if n := len(burst.Peaks(7 * 24 * time.Hour)); n != peaksMax {
		t.Errorf("a week of bursts every four seconds has %d peaks, want the first %d", n, peaksMax)
	}
}
