package prophetref

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func Example() {
	var rows []Row
	for i := range 28 {
		at := time.Date(2026, 3, 2+i, 0, 0, 0, 0, time.UTC)
		value := 100.0 + float64(i)
		if at.Weekday() == time.Sunday {
			value -= 50
		}
		rows = append(rows, Row{at, value})
	}
	m, err := Fit(rows, Settings{})
	if err != nil {
		panic(err)
	}
	for i := range 3 {
		at := time.Date(2026, 4, 3+i, 0, 0, 0, 0, time.UTC)
		fmt.Printf("%s %.0f\n", at.Weekday(), m.At(at))
	}
	// Output:
	// Friday 132
	// Saturday 133
	// Sunday 84
}

func TestConstantHistory(t *testing.T) {
	for _, v := range []float64{0, 7, -3} {
		m, err := Fit(series(30, oneDay, func(time.Time) float64 { return v }, 0), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.At(origin.AddDate(0, 0, 60)); math.Abs(got-v) > 1e-9 {
			t.Errorf("after a constant %g comes %g", v, got)
		}
	}
}

// TestIntervalIsThatOfDraws holds the closed form against what it stands for.
func TestIntervalIsThatOfDraws(t *testing.T) {
	rows := own()
	m, err := Fit(rows, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	last := rows[len(rows)-1].At
	var at []time.Time
	for _, ahead := range []int{1, 365, 1000} {
		at = append(at, last.AddDate(0, 0, ahead))
	}
	low, high := m.DrawnInterval(at, .8, 2000, rand.New(rand.NewPCG(1, 2)))
	again, _ := m.DrawnInterval(at, .8, 2000, rand.New(rand.NewPCG(1, 2)))
	for i, a := range at {
		l, h := m.Interval(a, .8)
		if drawn, closed := high[i]-low[i], h-l; math.Abs(drawn-closed) > .15*closed {
			t.Errorf("%s: drawn interval %.3f wide, closed form %.3f", a.Format(time.DateOnly), drawn, closed)
		}
		if low[i] != again[i] {
			t.Errorf("the same seed drew %g and %g", low[i], again[i])
		}
	}
	if first, later := m.Deviation(at[0]), m.Deviation(at[2]); later <= first {
		t.Errorf("deviation %g a day ahead and %g later: it must grow", first, later)
	}
}

func TestScoresWeighAHorizonThatIsSplit(t *testing.T) {
	var f []Forecast
	for i := range 30 { // horizons 1, 1, 1, 2, 2, 2, …: the error is the horizon
		h := time.Duration(i/3 + 1)
		f = append(f, Forecast{Horizon: h, Value: float64(h), Median: 0, Low: -1, High: 1})
	}
	s := Scores(f)
	if len(s) != 10 || s[4].MAE != 5 || s[4].Horizon != 5 || s[0].Covered80 != 1 || s[1].Covered80 != 0 {
		t.Errorf("scores %+v: each must be of its own horizon", s)
	}
	f = append(f[:4:4], f[6:]...) // 28 forecasts, windows of 2; horizon 2 has one
	if s = Scores(f); s[1].Horizon != 2 || math.Abs(s[1].MAE-1.5) > 1e-12 {
		t.Errorf("scores %+v: at horizon 2 one of 2 and a share of those of 1", s[:2])
	}
}

func BenchmarkFit(b *testing.B) {
	rows := series(4032, 10*time.Minute, func(at time.Time) float64 {
		return 10 + 3*math.Sin(2*math.Pi*days(at)) + math.Sin(2*math.Pi*days(at)/7)
	}, .5)
	for _, c := range []struct {
		name string
		s    Settings
	}{{"linear", Settings{}}, {"multiplicative", Settings{Multiplicative: true}}, {"logistic", Settings{Growth: Logistic, Cap: 30}}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Fit(rows, c.s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
