package prophetref

import (
	"math"
	"math/rand/v2"
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

func TestTrendClosedForms(t *testing.T) {
	linear := []float64{0, 1, 2, 3, 4, 5, 6.5, 8, 9.5, 11, 12.5}
	logistic := []float64{5, 7.310586, 8.807971, 9.525741, 9.820138, 9.933071, 9.984988, 9.996646, 9.999252, 9.999833, 9.999963}
	for i := range 11 {
		m := Model{settings: Settings{Cap: 10}, scale: 1, k: 1, knots: []float64{5}, delta: []float64{.5}}
		if got := m.growth(float64(i)); math.Abs(got-linear[i]) > 1e-12 {
			t.Errorf("linear trend at %d is %g, must be %g", i, got, linear[i])
		}
		m.settings.Growth = Logistic
		if got := m.growth(float64(i)); math.Abs(got-logistic[i]) > 1e-6 {
			t.Errorf("logistic trend at %d is %g, must be %g", i, got, logistic[i])
		}
	}
}

func TestFourierClosedForms(t *testing.T) {
	at := days(time.Date(2012, 5, 18, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		period float64
		want   []float64
	}{
		{7, []float64{.7818315, .6234898, .9749279, -.2225209, .4338837, -.9009689}},
		{365.25, []float64{.7006152, -.7135393, -.9998330, .01827656, .7262249, .6874572}},
	} {
		got := terms{seasons: []season{{c.period, 3}}}.append(nil, at)
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
		s    Settings
		want []time.Duration
	}{
		{731, 24 * h, Settings{}, []time.Duration{8766 * h, 168 * h}},
		{730, 24 * h, Settings{}, []time.Duration{168 * h}},
		{15, 24 * h, Settings{}, []time.Duration{168 * h}},
		{14, 24 * h, Settings{}, nil},
		{49, h, Settings{}, []time.Duration{24 * h}},
		{48, h, Settings{}, nil},
		{120, 168 * h, Settings{}, []time.Duration{8766 * h}},
		{15, 24 * h, Settings{Weekly: Off, Daily: 2}, []time.Duration{24 * h}},
		{15, 24 * h, Settings{Yearly: 3}, []time.Duration{8766 * h, 168 * h}},
	} {
		m, err := Fit(series(c.rows, c.step, truth, .1), c.s)
		if err != nil {
			t.Fatal(err)
		}
		got := m.Seasons()
		same := len(got) == len(c.want)
		for i := range got {
			same = same && got[i] == c.want[i]
		}
		if !same {
			t.Errorf("%d rows every %s: seasons %v, must be %v", c.rows, c.step, got, c.want)
		}
	}
}

func TestChangepointsLieInTheFirstRows(t *testing.T) {
	for _, c := range []struct {
		rows, asked, want int
		last              float64
	}{
		{101, 0, 25, .79}, {101, 4, 4, .79}, {20, 0, 15, 15. / 19}, {3, 0, 1, .5}, {2, 0, 1, 0}, {50, Off, 1, 0},
	} {
		m, err := Fit(series(c.rows, oneDay, truth, .1), Settings{Changepoints: c.asked})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.knots); n != c.want || math.Abs(m.knots[n-1]-c.last) > 1e-12 {
			t.Errorf("%d rows, %d asked: %d changepoints, the last at %g, must be %d and %g", c.rows, c.asked, n, m.knots[n-1], c.want, c.last)
		}
	}
}

// TestRecovers fits series of known parameters and looks half as far ahead.
func TestRecovers(t *testing.T) {
	week := func(at time.Time) float64 { return math.Sin(2 * math.Pi * days(at) / 7) }
	party := []time.Time{origin.AddDate(0, 0, 40), origin.AddDate(0, 0, 90), origin.AddDate(0, 0, 140), origin.AddDate(0, 0, 230)}
	onParty := func(at time.Time) float64 {
		for _, p := range party {
			if at.Equal(p) {
				return 1
			}
		}
		return 0
	}
	for _, c := range []struct {
		name string
		s    Settings
		f    func(at time.Time) float64
		tol  float64
	}{
		{"a line", Settings{}, func(at time.Time) float64 { return 3 + age(at)/50 }, .1},
		{"a bent line, large", Settings{Scaling: MinMax}, func(at time.Time) float64 { return 1e3 + 10*max(0, age(at)-80) }, 30},
		{"a week", Settings{}, func(at time.Time) float64 { return 10 + 2*week(at) }, .15},
		{"flat with a week", Settings{Growth: Flat}, func(at time.Time) float64 { return 10 + 2*week(at) }, .1},
		{"a week that grows with the trend", Settings{Multiplicative: true}, func(at time.Time) float64 { return (5 + age(at)/20) * (1 + .3*week(at)) }, .3},
		{"saturation", Settings{Growth: Logistic, Cap: 20}, func(at time.Time) float64 { return 20/(1+math.Exp(-(age(at)-80)/30)) + week(at) }, .3},
		{"saturation times a week", Settings{Growth: Logistic, Cap: 20, Multiplicative: true},
			func(at time.Time) float64 { return 20 / (1 + math.Exp(-(age(at)-80)/30)) * (1 + .2*week(at)) }, .3},
		{"a holiday", Settings{Holidays: []Holiday{{Name: "party", Days: party, After: 1}}},
			func(at time.Time) float64 { return 10 + 5*onParty(at) - 2*onParty(at.AddDate(0, 0, -1)) }, .25},
	} {
		m, err := Fit(series(200, oneDay, c.f, c.tol/3), c.s)
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

// TestCurvedAgreesWithLinear gives the general solver what the special one can do.
func TestCurvedAgreesWithLinear(t *testing.T) {
	rows := series(300, oneDay, truth, .1)
	linear, err := Fit(rows, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	curved := *linear
	h := curved.scaleRows(rows)
	curved.start0(h)
	curved.delta, curved.beta = make([]float64, len(linear.delta)), make([]float64, len(linear.beta))
	if err := curved.fitCurved(h); err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		at := origin.AddDate(0, 0, i)
		if a, b := linear.At(at), curved.At(at); math.Abs(a-b) > 1e-3 {
			t.Fatalf("after %d days %g and %g", i, a, b)
		}
	}
}

// TestNothingNearIsBetter tries the objective around the optimum of each kind.
func TestNothingNearIsBetter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	rows := series(200, oneDay, truth, .1)
	for _, s := range []Settings{{}, {Growth: Flat}, {Multiplicative: true}, {Growth: Logistic, Cap: 12}, {Growth: Logistic, Cap: 12, Multiplicative: true}} {
		m, err := Fit(rows, s)
		if err != nil {
			t.Fatal(err)
		}
		h, prior, best := m.scaleRows(rows), m.prior(), m.pack()
		at, _ := m.objective(h, prior, best)
		for range 500 {
			near := append([]float64(nil), best...)
			near[r.IntN(len(near))] += .003 * r.NormFloat64()
			if o, _ := m.objective(h, prior, near); o < at-1e-5*math.Abs(at) {
				t.Errorf("growth %d, multiplicative %t: %.9g is below the optimum's %.9g", s.Growth, s.Multiplicative, o, at)
				break
			}
		}
	}
}

func TestRefused(t *testing.T) {
	good := series(10, oneDay, truth, 0)
	bad := append(append([]Row(nil), good...), Row{origin, math.NaN()})
	for _, c := range []struct {
		rows []Row
		s    Settings
		want string
	}{
		{nil, Settings{}, "0 rows, must be at least 2"},
		{good[:1], Settings{}, "1 rows, must be at least 2"},
		{bad, Settings{}, "row 10: value must be finite"},
		{[]Row{{origin, 1}, {origin, 2}}, Settings{}, "same instant"},
		{good, Settings{Growth: Logistic}, "needs a cap above 0"},
		{good, Settings{ChangepointScale: -1}, "changepoint scale must be above 0, is -1"},
		{good, Settings{ChangepointRange: 2}, "changepoint range must be at most 1, is 2"},
		{good, Settings{SeasonScale: math.NaN()}, "season scale must be above 0"},
	} {
		if _, err := Fit(c.rows, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, must say %q", err, c.want)
		}
	}
	if _, err := Backtest(good, Settings{}, Split{Period: oneDay, Horizon: 30 * oneDay}); err == nil {
		t.Error("a split longer than the rows must be an error")
	}
}
