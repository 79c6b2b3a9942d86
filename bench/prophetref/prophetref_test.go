package prophetref

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var origin = time.Date(2012, 2, 1, 0, 0, 0, 0, time.UTC)

// series returns n rows of f with normal noise, always the same.
func series(n int, step time.Duration, f func(time.Time) float64, noise float64) []Row {
	r := rand.New(rand.NewPCG(5, 6))
	rows := make([]Row, n)
	for i := range rows {
		at := origin.Add(time.Duration(i) * step)
		rows[i] = Row{at, f(at) + noise*r.NormFloat64()}
	}
	return rows
}

// age returns the days since origin.
func age(at time.Time) float64 { return at.Sub(origin).Hours() / 24 }

func TestFourierClosedForms(t *testing.T) {
	at := days(time.Date(2012, 5, 18, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		period float64
		want   []float64
	}{
		{7, []float64{.7818315, .6234898, .9749279, -.2225209, .4338837, -.9009689}},
		{365.25, []float64{.7006152, -.7135393, -.9998330, .01827656, .7262249, .6874572}},
	} {
		got := season{c.period, 3}.append(nil, at)
		for i, w := range c.want {
			if math.Abs(got[i]-w) > 1e-6 {
				t.Errorf("period %g: column %d is %g, must be %g", c.period, i, got[i], w)
			}
		}
	}
}

func TestSeasonsBySpan(t *testing.T) {
	h := time.Hour
	for _, c := range []struct {
		rows int
		step time.Duration
		want []season
	}{
		{731, 24 * h, []season{{365.25, 10}, {7, 3}}},
		{730, 24 * h, []season{{7, 3}}},
		{15, 24 * h, []season{{7, 3}}},
		{14, 24 * h, nil},
		{49, h, []season{{1, 4}}},
		{48, h, nil},
		{120, 168 * h, []season{{365.25, 10}}},
	} {
		m, err := Fit(series(c.rows, c.step, truth, .1))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(m.seasons, c.want) {
			t.Errorf("%d rows every %s: seasons %v, must be %v", c.rows, c.step, m.seasons, c.want)
		}
	}
}

func TestChangepointsLieInTheFirstRows(t *testing.T) {
	for _, c := range []struct {
		rows, want int
		last       float64
	}{
		{101, 25, .79}, {20, 15, 15. / 19}, {3, 1, .5}, {2, 1, 0},
	} {
		m, err := Fit(series(c.rows, oneDay, truth, .1))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.knots); n != c.want || math.Abs(m.knots[n-1]-c.last) > 1e-12 {
			t.Errorf("%d rows: %d changepoints, the last at %g, must be %d and %g", c.rows, n, m.knots[n-1], c.want, c.last)
		}
	}
}

// TestRecovers fits series of known parameters and looks half as far ahead.
func TestRecovers(t *testing.T) {
	week := func(at time.Time) float64 { return math.Sin(2 * math.Pi * days(at) / 7) }
	for _, c := range []struct {
		name string
		f    func(at time.Time) float64
		tol  float64
	}{
		{"a line", func(at time.Time) float64 { return 3 + age(at)/50 }, .1},
		{"a bent line", func(at time.Time) float64 { return 10 + max(0, age(at)-80) }, 3},
		{"a week", func(at time.Time) float64 { return 10 + 2*week(at) }, .15},
	} {
		m, err := Fit(series(200, oneDay, c.f, c.tol/3))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i := range 300 {
			at := origin.AddDate(0, 0, i)
			if d := m.At(at) - c.f(at); math.Abs(d) > c.tol*(1+3*max(0, float64(i-200)/100)) {
				t.Errorf("%s: off by %.3f after %d days", c.name, d, i)
				break
			}
		}
	}
}

func TestConstantHistory(t *testing.T) {
	for _, v := range []float64{0, 7, -3} {
		m, err := Fit(series(30, oneDay, func(time.Time) float64 { return v }, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.At(origin.AddDate(0, 0, 60)); math.Abs(got-v) > 1e-9 {
			t.Errorf("after a constant %g comes %g", v, got)
		}
	}
}

// TestDeviationIsThatOfDraws holds the closed form against what it stands for: courses
// with changes of slope to come, and noise.
func TestDeviationIsThatOfDraws(t *testing.T) {
	rows := own()
	m, err := Fit(rows)
	if err != nil {
		t.Fatal(err)
	}
	size, n := 0.0, float64(len(m.knots))
	for _, d := range m.theta[2 : 2+len(m.knots)] {
		size += math.Abs(d) / n
	}
	r := rand.New(rand.NewPCG(1, 2))
	before := 0.0
	for _, ahead := range []int{1, 365, 1000} {
		at := rows[len(rows)-1].At.AddDate(0, 0, ahead)
		h, square := m.scaled(days(at))-1, 0.0
		const draws = 4000
		for range draws {
			off := m.noise * r.NormFloat64()
			for bend := r.ExpFloat64() / n; bend < h; bend += r.ExpFloat64() / n {
				off += size * r.ExpFloat64() * float64(2*r.IntN(2)-1) * (h - bend)
			}
			square += off * off / draws
		}
		closed := m.Deviation(at)
		if drawn := m.scale * math.Sqrt(square); math.Abs(drawn-closed) > .1*closed || closed < before {
			t.Errorf("%d days ahead: drawn deviation %.3f, closed form %.3f, before %.3f", ahead, drawn, closed, before)
		}
		before = closed
	}
}

func TestRefused(t *testing.T) {
	good := series(10, oneDay, truth, 0)
	bad := append(slices.Clone(good), Row{origin.AddDate(0, 0, 20), math.NaN()})
	for _, c := range []struct {
		rows []Row
		want string
	}{
		{nil, "0 rows, must be at least 2"},
		{good[:1], "1 rows, must be at least 2"},
		{bad, "row 10: value must be finite"},
		{[]Row{{origin, 1}, {origin, 2}}, "same instant"},
	} {
		if _, err := Fit(c.rows); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, must say %q", err, c.want)
		}
	}
}

func BenchmarkFit(b *testing.B) {
	rows := series(4032, 10*time.Minute, func(at time.Time) float64 {
		return 10 + 3*math.Sin(2*math.Pi*days(at)) + math.Sin(2*math.Pi*days(at)/7)
	}, .5)
	for b.Loop() {
		if _, err := Fit(rows); err != nil {
			b.Fatal(err)
		}
	}
}
