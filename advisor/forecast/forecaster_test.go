package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/advisor/series"
)

var epoch = time.Date(2026, 1, 19, 0, 0, 0, 0, time.UTC)

const minute = time.Minute

// feed lets f observe n slots and returns the end of the last.
func feed(f *Forecaster, at time.Time, step time.Duration, n int, rate func(i int) float64) time.Time {
	for i := range n {
		at = at.Add(step)
		f.Observe(at, step, rate(i))
	}
	return at
}

// sound fails if an outlook is not as documented for Point.
func sound(t *testing.T, f *Forecaster, about string) {
	t.Helper()
	for _, p := range f.Outlook(2*time.Hour, 7*minute) {
		last := 0.0
		for _, q := range [...]float64{p.Q05, p.Q50, p.Q80, p.Q95, p.Q99} {
			if !(q >= last) || math.IsInf(q, 0) {
				t.Fatalf("%s: quantiles do not ascend or are no rates: %+v", about, p)
			}
			last = q
		}
	}
}

func median(f *Forecaster, ahead time.Duration) float64 { return f.Outlook(ahead, ahead)[0].Q50 }

// With hardly any history the forecast is the observed rate, and the band is wide.
func TestLittleHistory(t *testing.T) {
	f := New(Settings{})
	if p := f.Outlook(time.Hour, minute); len(p) != 0 {
		t.Errorf("knows %v from nothing", p)
	}
	feed(f, epoch, 30*time.Second, 2, func(int) float64 { return 80 })
	p := f.Outlook(time.Hour, minute)
	if len(p) != 60 || math.Abs(p[0].Q50-80) > 1e-9 || math.Abs(p[59].Q50-80) > 1e-9 {
		t.Fatalf("after two slots of 80: %+v and %d more", p[0], len(p)-1)
	}
	if p[0].Q95 < 100 || p[0].Q05 > 60 {
		t.Errorf("after two slots the band is narrow: %+v", p[0])
	}
	sound(t, f, "two slots")
	feed(f, epoch.Add(minute), 30*time.Second, 200, func(int) float64 { return 80 })
	if q := median(f, 10*minute); math.Abs(q-80) > .01 {
		t.Errorf("after 200 slots of 80 the forecast is %g", q)
	}
}

// A daily course is learned within days, with slots of any width, and the forecast is better
// than the last value.
func TestDailyCourse(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, step := range []time.Duration{20 * minute, time.Hour} {
		f := New(Settings{})
		n := int(8 * 24 * time.Hour / step)
		at, own, last := epoch, 0.0, 0.0
		rate := func(i int) float64 {
			return 100 + 80*math.Sin(2*math.Pi*float64(i)*step.Hours()/24) + 2*r.NormFloat64()
		}
		y := rate(0)
		for i := range n {
			at = at.Add(step)
			f.Observe(at, step, max(0, y))
			next := rate(i + 1)
			if i > n/2 {
				own += math.Abs(median(f, step) - next)
				last += math.Abs(y - next)
			}
			y = next
		}
		if own > .5*last {
			t.Errorf("step %s: error %.3g of the last value's", step, own/last)
		}
	}
}

// Invalid observations change nothing and are counted.
func TestRefused(t *testing.T) {
	f, g := New(Settings{}), New(Settings{})
	at := feed(f, epoch, minute, 50, func(i int) float64 { return float64(i % 9) })
	feed(g, epoch, minute, 50, func(i int) float64 { return float64(i % 9) })
	f.Observe(at, minute, 7)
	f.Observe(at.Add(-minute), minute, 7)
	f.Observe(at.Add(minute), minute, math.NaN())
	f.Observe(at.Add(minute), minute, math.Inf(1))
	f.Observe(at.Add(minute), minute, -1)
	f.Observe(at.Add(minute), minute, 1e300)
	f.Observe(at.Add(minute), 0, 1)
	if f.refused != 7 {
		t.Errorf("%d were refused, want 7", f.refused)
	}
	f.refused = 0
	if a, b := f.Encode(), g.Encode(); string(a) != string(b) {
		t.Error("what was refused has changed the forecaster")
	}
}

// A gap is not a zero: forecasts for it are dropped, the band is wider after it, and levels
// follow the daily course.
func TestGap(t *testing.T) {
	f := New(Settings{})
	course := func(i int) float64 { return 100 + 80*math.Sin(2*math.Pi*float64(i)/96) }
	at := feed(f, epoch, 15*minute, 96*4, course)
	before := f.Outlook(15*minute, 15*minute)[0]
	at = at.Add(6 * time.Hour) // from 100, rising, to 180
	f.Observe(at.Add(15*minute), 15*minute, course(96*4+24))
	after := f.Outlook(15*minute, 15*minute)[0]
	if math.Abs(after.Q50-180) > 25 {
		t.Errorf("after the gap the forecast is %g, the day has 180 there", after.Q50)
	}
	if (after.Q95-after.Q05)/after.Q50 < 1.2*(before.Q95-before.Q05)/before.Q50 {
		t.Errorf("the band is no wider after the gap: %+v, before %+v", after, before)
	}
	for _, k := range f.eng.classes {
		if n := len(k.pending); n > 1 {
			t.Errorf("%gs ahead: %d forecasts of before the gap still wait", k.ahead, n)
		}
	}
	sound(t, f, "after a gap")
}

// The width of slots may change; a single different one changes nothing.
func TestCadenceChanges(t *testing.T) {
	f := New(Settings{})
	rate := func(i int) float64 { return 50 + float64(i%3) }
	at := feed(f, epoch, minute, 300, rate)
	at = at.Add(20 * time.Second)
	f.Observe(at, 20*time.Second, 51)
	if f.eng.dt != 60 {
		t.Errorf("one odd interval made the width %g", f.eng.dt)
	}
	at = feed(f, at, 30*time.Second, 40, rate)
	if f.eng.dt != 30 {
		t.Errorf("slots of 30 s are taken for %g s", f.eng.dt)
	}
	if q := median(f, 10*minute); math.Abs(q-51) > 2 {
		t.Errorf("after the change the forecast is %g, want about 51", q)
	}
	if n := f.eng.classes[len(f.eng.classes)-1].mixer.ranks[byLately].n; n < 100 {
		t.Errorf("an hour ahead only %g losses are known: what was learnt is lost", n)
	}
	feed(f, at, 5*minute, 40, rate)
	if f.eng.dt != 300 {
		t.Errorf("slots of 5 min are taken for %g s", f.eng.dt)
	}
	sound(t, f, "after changes of cadence")
}

// Between learned horizons the outlook is interpolated; nearer than a slot it follows from the
// slot in progress.
func TestOutlook(t *testing.T) {
	f := New(Settings{})
	feed(f, epoch, 30*minute, 300, func(i int) float64 { return 100 + 50*math.Sin(float64(i)/4) })
	p := f.Outlook(time.Hour, minute)
	if len(p) != 60 {
		t.Fatalf("%d points", len(p))
	}
	if y := f.eng.levels.recent[0]; math.Abs(p[0].Q50-y) > math.Abs(p[29].Q50-y)/10+1e-9 {
		t.Errorf("a minute of half an hour on: %g, known %g, a slot on %g", p[0].Q50, y, p[29].Q50)
	}
	for i := 1; i < 60; i++ {
		if step := math.Abs(p[i].Q50 - p[i-1].Q50); step > 5 {
			t.Errorf("from minute %d to the next the forecast jumps by %g", i, step)
		}
	}
	for _, c := range []struct{ horizon, step time.Duration }{{0, minute}, {minute, 0}, {minute, -1},
		{minute, time.Hour}} {
		if p := f.Outlook(c.horizon, c.step); len(p) != 0 {
			t.Errorf("horizon %s, step %s: %d points", c.horizon, c.step, len(p))
		}
	}
	if p := f.Outlook(1000*time.Hour, time.Second); len(p) != pointsMax {
		t.Errorf("%d points, at most %d are allowed", len(p), pointsMax)
	}
}

// Imported history counts as if it had been observed.
func TestLoad(t *testing.T) {
	f, g := New(Settings{}), New(Settings{})
	var rows []series.Row
	for i := range 60 {
		rows = append(rows, series.Row{At: epoch.Add(time.Duration(i+1) * 5 * minute), Interval: 5 * minute,
			Rate: float64(i), Coverage: float64(min(i, 1))})
	}
	f.Load(rows)
	for _, r := range rows[1:] {
		g.Observe(r.At, r.Interval, r.Rate)
	}
	if string(f.Encode()) != string(g.Encode()) {
		t.Error("loading differs from observing")
	}
	if n := f.History().Seen(); n != 59 {
		t.Errorf("%d rows were taken, want 59: a gap is none", n)
	}
}

func TestWeights(t *testing.T) {
	f := New(Settings{})
	if f.Weights() != nil {
		t.Error("weights of nothing")
	}
	feed(f, epoch, minute, 200, func(i int) float64 { return 50 + float64(i%7) })
	list := f.Weights()
	if len(list) < 5 || list[0].Ahead != minute || list[len(list)-1].Ahead != time.Hour {
		t.Fatalf("horizons %v", list)
	}
	for _, m := range list {
		sum := 0.0
		for i, w := range m.Weights {
			sum += w.Share
			if i > 0 && w.Share > m.Weights[i-1].Share {
				t.Errorf("%s ahead: not the largest first", m.Ahead)
			}
			if w.Expert == "" {
				t.Errorf("%s ahead: an expert without a name", m.Ahead)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s ahead: the shares sum to %g", m.Ahead, sum)
		}
		if m.Scored == 0 || m.Error <= 0 || m.Error > .2 {
			t.Errorf("%s ahead: error %g over %d", m.Ahead, m.Error, m.Scored)
		}
	}
}

// After nights without a request the bands cover their share from the first hour of the day:
// empty slots that were expected say nothing about errors by day.
func TestIdleNights(t *testing.T) {
	const perHour, days = 12, 28
	within, all := 0.0, 0.0
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 31))
		f, at := New(Settings{}), epoch
		for i := range days * 24 * perHour {
			hour := float64(i) / perHour
			of := math.Mod(hour, 24)
			y, said := 0.0, f.Outlook(5*minute, 5*minute)
			if of >= 7 && of < 21 {
				y = max(0, 100*math.Sin(math.Pi*(of-5)/18)*(1+.1*r.NormFloat64()))
			}
			if of >= 7 && of < 8 && hour > 7*24 {
				all++
				if y >= said[0].Q05 && y <= said[0].Q95 {
					within++
				}
			}
			at = at.Add(5 * minute)
			f.Observe(at, 5*minute, y)
		}
	}
	if share := within / all; share < .85 || share > .95 {
		t.Errorf("of %.0f rates in the first busy hour a share of %.3f lies from q05 to q95, want .85 to .95", all, share)
	}
}
