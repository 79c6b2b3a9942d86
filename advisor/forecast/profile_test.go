package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A profile is the weighted mean of the values in each bin.
func TestProfileAgainstList(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	p := newProfile(day, binWidth, 3*day)
	type piece struct{ at, weight, z float64 }
	pieces := map[int][]piece{}
	now := 300.0 * 3333333
	for range 6000 {
		width := float64(30 * (1 + r.IntN(30)))
		z := r.NormFloat64()
		p.learn(now, now+width, z)
		for s := 0.0; s < width; s += 30 { // the obvious way: by half minutes
			i := p.bin(now + s + 15)
			end := math.Min(now+width, (math.Floor((now+s)/binWidth)+1)*binWidth)
			pieces[i] = append(pieces[i], piece{end, 30 / binWidth, z})
		}
		now += width
	}
	for i, list := range pieces {
		sum, weight := 0.0, 0.0
		for _, x := range list {
			w := x.weight * math.Exp2(-(list[len(list)-1].at-x.at)/p.halfLife)
			sum += w * x.z
			weight += w
		}
		local := float64(i)*binWidth - weekOffset + 1 + 20000*day
		if got := p.exact(local); math.Abs(got-sum/weight) > 1e-6 {
			t.Fatalf("bin %d: %g, want %g", i, got, sum/weight)
		}
	}
}

func TestProfileUnknown(t *testing.T) {
	p := newProfile(week, binWidth, week)
	p.learn(0, 3600, 2)
	for _, c := range []struct {
		name  string
		local float64
		known bool
	}{
		{"within what was seen", 1800, true},
		{"beside it", 3600 + 60, true},
		{"elsewhere", day, false},
		{"a week later", week + 1800, true},
		{"a week before", -week + 1800, true},
	} {
		if z := p.value(c.local); (z == z) != c.known || c.known && math.Abs(z-2) > 1e-12 {
			t.Errorf("%s: %g", c.name, z)
		}
	}
}

// The features of waves are sines and cosines, and weekends have their own.
func TestWaves(t *testing.T) {
	monday := 4 * day // 1970-01-05
	for _, local := range []float64{monday, monday + 5000, monday + 5.5*day, 1e9, -1e6} {
		var x [wavesN]float64
		waves(&x, local)
		i := 1
		for _, b := range []struct {
			n      int
			period float64
			phase  float64
			on     bool
		}{
			{dailyN, day, local, true}, {weeklyN, week, local + weekOffset, true},
			{weekendN, day, local, math.Mod(local+weekOffset+1000*week, week) >= 5*day},
		} {
			for k := 1; k <= b.n; k++ {
				s, c := math.Sincos(2 * math.Pi * float64(k) * math.Mod(b.phase, b.period) / b.period)
				if !b.on {
					s, c = 0, 0
				}
				if math.Abs(x[i]-s) > 1e-9 || math.Abs(x[i+1]-c) > 1e-9 {
					t.Errorf("at %g, wave %d of %gs: %g %g, want %g %g", local, k, b.period, x[i], x[i+1], s, c)
				}
				i += 2
			}
		}
	}
}

// A course learns a sum of waves.
func TestCourse(t *testing.T) {
	c := newCourse(14 * day)
	shape := func(local float64) float64 {
		return 3 + math.Sin(2*math.Pi*local/day) + .3*math.Cos(4*math.Pi*local/day)
	}
	if z := c.value(0); z == z {
		t.Errorf("knows %g from nothing", z)
	}
	now := 1e9
	for range 10 * daySlotsTest {
		c.learn(now, now+300, shape(now+150))
		now += 300
	}
	for h := range 24 {
		local := now + float64(h)*3600
		if z := c.value(local); math.Abs(z-shape(local)) > .05 {
			t.Errorf("%d hours on: %g, want %g", h, z, shape(local))
		}
	}
}

const daySlotsTest = 288
