package season

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// begin is a Monday.
var begin = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const oneDay = 24 * time.Hour

// rowsOf returns n rows of f at even steps from begin.
func rowsOf(n int, step time.Duration, f func(t time.Time) float64) []Row {
	rows := make([]Row, n)
	for i := range rows {
		at := begin.Add(time.Duration(i+1) * step)
		rows[i] = Row{At: at, Rate: f(at), Weight: 1}
	}
	return rows
}

// busy is a rate with a day of two peaks and quiet weekends, by the clock of UTC.
func busy(t time.Time) float64 {
	h := float64(t.Unix()%86400) / 86400
	z := 4 + math.Sin(2*math.Pi*h) + .3*math.Cos(6*math.Pi*h)
	if t = t.Add(-time.Second).UTC(); t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
		z -= .5
	}
	return math.Exp(z)
}

// noisy multiplies f by log-normal noise, always the same.
func noisy(f func(time.Time) float64, sd float64) func(time.Time) float64 {
	r := rand.New(rand.NewPCG(1, 2))
	return func(t time.Time) float64 { return f(t) * math.Exp(sd*r.NormFloat64()) }
}

func mustFit(t testing.TB, rows []Row, shifts []time.Time, s Settings) *Model {
	t.Helper()
	m, err := Fit(rows, shifts, s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// off returns the mean size of log(model) − log(f) over n steps after from.
func off(m *Model, f func(time.Time) float64, from time.Time, n int, step time.Duration) float64 {
	sum := 0.0
	for i := range n {
		at := from.Add(time.Duration(i+1) * step)
		sum += math.Abs(m.At(at) - math.Log(f(at)+m.Offset()))
	}
	return sum / float64(n)
}

// TestForetells fits five weeks and looks a day ahead, under what goes wrong with
// rows in practice.
func TestForetells(t *testing.T) {
	const n, step = 5040, 10 * time.Minute
	r := rand.New(rand.NewPCG(3, 4))
	clean := func() []Row { return rowsOf(n, step, noisy(busy, .1)) }
	for _, c := range []struct {
		name string
		rows func() []Row
		tol  float64
	}{
		{"as they are", clean, .04},
		{"a third is missing", func() (kept []Row) {
			for _, row := range clean() {
				if r.IntN(3) > 0 {
					kept = append(kept, row)
				}
			}
			return kept
		}, .04},
		{"three days are missing", func() []Row { rows := clean(); return append(rows[:2500:2500], rows[2932:]...) }, .04},
		{"one in twenty is tenfold", func() []Row {
			rows := clean()
			for i := range rows {
				if r.IntN(20) == 0 {
					rows[i].Rate *= 10
				}
			}
			return rows
		}, .06},
		{"a day is of no use and weighs nothing", func() []Row {
			rows := clean()
			for i := range 144 {
				rows[4500+i].Rate, rows[4500+i].Weight = 1e6, 0
			}
			return rows
		}, .04},
		{"uneven", func() []Row {
			rows := clean()
			for i := range rows {
				rows[i].At = rows[i].At.Add(time.Duration(r.IntN(200)) * time.Second)
				rows[i].Rate = busy(rows[i].At)
			}
			return rows
		}, .04},
		{"every one twice", func() []Row { return append(clean(), clean()...) }, .04},
		{"rates of a large system", func() []Row {
			rows := clean()
			for i := range rows {
				rows[i].Rate *= 1e9
			}
			return rows
		}, .04},
	} {
		rows := c.rows()
		m := mustFit(t, rows, nil, Settings{})
		f := busy
		if m.Offset() > 1e6 {
			f = func(t time.Time) float64 { return 1e9 * busy(t) }
		}
		if got := off(m, f, begin.Add(n*step), 144, step); got > c.tol {
			t.Errorf("%s: off by %.3f on the day after, must be at most %.3f", c.name, got, c.tol)
		}
	}
}

func TestNoiseAndScaleAreThoseOfTheRows(t *testing.T) {
	m := mustFit(t, rowsOf(4032, 5*time.Minute, noisy(func(time.Time) float64 { return 100 }, .2)), nil, Settings{})
	if math.Abs(m.Scale()-.19) > .02 { // log(rate + c) is a little flatter than log(rate)
		t.Errorf("scale %.3f, must be about 0.19", m.Scale())
	}
}

func TestSmallestInputs(t *testing.T) {
	at := begin
	for _, c := range []struct {
		name string
		rows []Row
		want float64
	}{
		{"one row", []Row{{at, 7, 1}}, 7},
		{"one row of zero", []Row{{at, 0, 1}}, 0},
		{"one instant twice", []Row{{at, 7, 1}, {at, 7, 1}}, 7},
		{"all zero", rowsOf(3000, 5*time.Minute, func(time.Time) float64 { return 0 }), 0},
		{"constant", rowsOf(3000, 5*time.Minute, func(time.Time) float64 { return 5 }), 5},
		{"tiny", rowsOf(3000, 5*time.Minute, func(time.Time) float64 { return 1e-300 }), 0},
		{"huge", rowsOf(3000, 5*time.Minute, func(time.Time) float64 { return 1e300 }), 1e300},
		{"two rows of a second", []Row{{at, 7, 1}, {at.Add(time.Second), 7, 1}}, 7},
		{"two rows of years", []Row{{at.AddDate(-9, 0, 0), 7, 1}, {at, 7, 1}}, 7},
	} {
		m := mustFit(t, c.rows, nil, Settings{})
		last := c.rows[len(c.rows)-1].At
		for _, ahead := range []time.Duration{0, time.Minute, time.Hour, 30 * oneDay, -oneDay} {
			if got := m.Rate(last.Add(ahead)); math.Abs(got-c.want) > 1e-3*(c.want+1) {
				t.Errorf("%s: rate %g at %s, must be %g", c.name, got, ahead, c.want)
			}
		}
	}
	largest := rowsOf(600, 5*time.Minute, func(t time.Time) float64 { return math.MaxFloat64 })
	if got := mustFit(t, largest, nil, Settings{}).Rate(begin.Add(9 * oneDay)); math.IsInf(got, 0) || math.IsNaN(got) {
		t.Errorf("after the largest rates comes %g, must be finite", got)
	}
}

func TestRefused(t *testing.T) {
	good := rowsOf(3, 5*time.Minute, busy)
	with := func(r Row) []Row { return append(good[:2:2], r) }
	at := begin
	for _, c := range []struct {
		rows []Row
		s    Settings
		want string
	}{
		{nil, Settings{}, "no row with a weight above 0"},
		{[]Row{{at, 1, 0}}, Settings{}, "no row with a weight above 0"},
		{with(Row{at, math.NaN(), 1}), Settings{}, "row 2 (2026-03-02T00:00:00Z): rate must be finite and at least 0, is NaN"},
		{with(Row{at, -1, 1}), Settings{}, "row 2 (2026-03-02T00:00:00Z): rate must be"},
		{with(Row{at, math.Inf(1), 1}), Settings{}, "row 2 (2026-03-02T00:00:00Z): rate must be"},
		{with(Row{at, 1, math.NaN()}), Settings{}, "row 2 (2026-03-02T00:00:00Z): weight must be"},
		{with(Row{at, 1, -1}), Settings{}, "row 2 (2026-03-02T00:00:00Z): weight must be"},
		{with(Row{Rate: 1, Weight: 1}), Settings{}, "row 2: no time"},
		{good, Settings{Events: []Event{{Start: at, End: at}}}, "event 0: no name"},
		{good, Settings{Events: []Event{{Name: "sale", Start: at, End: at.Add(-1)}}}, "event 0 (sale): must end"},
		{good, Settings{Events: []Event{{Name: "sale", Start: at, End: at, Ramp: -1}}}, "event 0 (sale): ramp must be"},
	} {
		if _, err := Fit(c.rows, nil, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, must say %q", err, c.want)
		}
	}
}

func TestEventNamesAreBounded(t *testing.T) {
	var events []Event
	for i := range namesMax + 1 {
		if _, err := Fit(rowsOf(3, time.Minute, busy), nil, Settings{Events: events}); err != nil {
			t.Errorf("%d names: %v", i, err)
		}
		events = append(events, Event{Name: string(rune('a' + i)), Start: begin, End: begin})
	}
	if _, err := Fit(rowsOf(3, time.Minute, busy), nil, Settings{Events: events}); err == nil {
		t.Errorf("%d names must be refused", len(events))
	}
}

func TestSameInputSameModel(t *testing.T) {
	rows := rowsOf(2000, 10*time.Minute, noisy(busy, .1))
	shifts := []time.Time{begin.Add(200 * time.Hour)}
	a, _ := mustFit(t, rows, shifts, Settings{}).MarshalBinary()
	shuffled := append([]Row(nil), rows...)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(rows), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	before := append([]Row(nil), shuffled...)
	for name, r := range map[string][]Row{"again": rows, "in another order": shuffled} {
		if b, _ := mustFit(t, r, shifts, Settings{}).MarshalBinary(); !bytes.Equal(a, b) {
			t.Errorf("fitted %s, the model is another", name)
		}
	}
	for i := range before {
		if before[i] != shuffled[i] {
			t.Fatal("Fit reordered the caller's rows")
		}
	}
}
