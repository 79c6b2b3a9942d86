package season

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/advisor/fit"
)

// TestGramIsThatOfTheRows holds the sums by phase and piece against the rows
// themselves, written out with all columns.
func TestGramIsThatOfTheRows(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(8, 8))
	for _, c := range []struct {
		name string
		n    int
		step time.Duration
	}{
		{"five weeks", 2500, 20 * time.Minute},
		{"two years", 5000, 4 * time.Hour},
		{"an hour", 12, 5 * time.Minute},
		{"one row", 1, time.Minute},
	} {
		rows := rowsOf(c.n, c.step, noisy(busy, .3))
		var events []Event
		for i, name := range []string{"sale", "match", "sale"} {
			at := begin.Add(time.Duration(i*c.n/3) * c.step)
			events = append(events, Event{name, at, at.Add(9 * c.step), 3 * c.step})
		}
		shifts := []time.Time{begin.Add(time.Duration(c.n/4) * c.step), begin.Add(time.Duration(c.n/2) * c.step)}
		d, err := newData(rows)
		if err != nil {
			t.Fatal(err)
		}
		m := &Model{step: d.step, offset: d.offset(), first: d.at[0], span: d.at[len(d.at)-1] - d.at[0]}
		if err := m.setSettings(Settings{newYork, events}); err != nil {
			t.Fatal(err)
		}
		f := newFitter(d, m, shifts)
		for i := range f.w {
			f.w[i] *= r.Float64()
		}
		f.fillGram()
		compare(t, c.name, f, written(f))
	}
}

// written returns the Gram of the rows, each written out.
func written(f *fitter) *fit.Gram {
	g := fit.NewGram(f.columns())
	for i, u := range f.u {
		x := f.appendWeekly(nil, math.Mod(math.Round(f.m.clock.phase(f.d.at[i])/phaseStep)*phaseStep, week))
		for _, k := range f.knots {
			switch {
			case u < k.at:
				x = append(x, 0)
			case k.step:
				x = append(x, 1)
			default:
				x = append(x, u-k.at)
			}
		}
		x = appendFourier(x, f.m.clock.local(f.d.at[i])/year, f.Year)
		effects := make([]float64, len(f.names))
		f.m.events.each(f.d.at[i], func(name int, v float64) { effects[name] += v })
		g.Add(append(x, effects...), []float64{f.z[i]}, f.w[i:i+1])
	}
	return g
}

func compare(t *testing.T, name string, f *fitter, want *fit.Gram) {
	t.Helper()
	got := f.gram
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+want.W+math.Abs(b)) }
	if !near(got.W, want.W) || !near(got.YY, want.YY) {
		t.Errorf("%s: W, YY are %g, %g, must be %g, %g", name, got.W, got.YY, want.W, want.YY)
	}
	for i := range want.N {
		if !near(got.XY[i], want.XY[i]) {
			t.Errorf("%s: X'Wy[%d] is %g, must be %g", name, i, got.XY[i], want.XY[i])
		}
		for j := range i + 1 {
			if a, b := got.XX[i*got.N+j], want.XX[i*got.N+j]; !near(a, b) {
				t.Fatalf("%s: X'WX[%d,%d] is %g, must be %g", name, i, j, a, b)
			}
		}
	}
}

// TestResidualsAreThoseOfTheModel holds what the fit minimised against what the
// model says of the same rows.
func TestResidualsAreThoseOfTheModel(t *testing.T) {
	rows := rowsOf(30*288, 5*time.Minute, noisy(busy, .2))
	d, err := newData(rows)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{step: d.step, offset: d.offset(), first: d.at[0], span: d.at[len(d.at)-1] - d.at[0]}
	events := []Event{{"sale", begin.Add(oneDay), begin.Add(2 * oneDay), time.Hour}}
	if err := m.setSettings(Settings{Events: events}); err != nil {
		t.Fatal(err)
	}
	f := newFitter(d, m, []time.Time{begin.Add(9 * oneDay)})
	theta, err := f.run()
	if err != nil {
		t.Fatal(err)
	}
	m.adopt(f.layout, theta, f.center)
	for i, row := range rows {
		want := math.Log(row.Rate+m.Offset()) - m.At(row.At)
		if math.Abs(f.residual[i]-want) > 1e-6 {
			t.Fatalf("row %d: residual %.9f while fitting, %.9f by the model", i, f.residual[i], want)
		}
	}
}
