package forecast

import (
	"math"
	"testing"
)

// Every expert has a unique name and a formula, and its forecast agrees with the formula.
func TestExperts(t *testing.T) {
	names := map[string]bool{}
	for i := range expertsN {
		if name := expertName(i); name == "" || names[name] {
			t.Errorf("expert %d: name %q is empty or taken", i, name)
		} else {
			names[name] = true
		}
	}
	l := levels{recent: [...]float64{40, 30, 20}}
	for i := range l.ses {
		l.ses[i] = 25
	}
	s := newSeasons()
	for j := range s.now {
		s.now[j], s.bar[j] = math.Log(21), math.Log(11)
	}
	m := newMoment(&l, &s, 1)
	for j := range m.then {
		m.then[j] = math.Log(63) // three times as much as now
	}
	want := map[string]float64{
		"last": 40, "smooth": 25,
		"yesterday_moved": 122, "last_week_moved": 122, "day_moved": 122, "week": 62, "week_moved": 122,
		"day": 62,
	}
	for _, e := range experts {
		if got := e.ask(&m); e.formula == "" || math.Abs(got-want[e.name]) > 1e-9 {
			t.Errorf("%s (%s): %g, want %g", e.name, e.formula, got, want[e.name])
		}
	}
	for _, c := range []struct {
		name      string
		now, then float64 // of the season; the rate is 40
		want      float64
	}{
		{"a season may grow by any factor", 21, 1e6, 41/21.*1e6 - 1},
		{"a rate may lie off its season by any", .41, .82, 81},
		{"not both: the season grows by at most five", .41, .41 * 7, 41*5 - 1},
		{"not both: the rate lies off by at most five", 41 / 7., 41 / 7. * 20, 41*20*5/7. - 1},
	} {
		m.now[seasonDay], m.then[seasonDay] = math.Log(c.now), math.Log(c.then)
		if got := m.moved(seasonDay); math.Abs(got/c.want-1) > 1e-4 {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
	for j := range m.then {
		m.then[j] = math.NaN()
	}
	for i, e := range experts {
		if got := e.ask(&m); i >= 2 && got == got {
			t.Errorf("%s: %g, but its season is not known", e.name, got)
		}
	}
}

// Features are differences of z. Those of an unknown season are 0.
func TestFeatures(t *testing.T) {
	l := levels{recent: [...]float64{7, 3, 1}, jump: .1, swing: 9}
	for i := range l.ses {
		l.ses[i] = 3
	}
	s := newSeasons()
	s.now[seasonDay], s.bar[seasonDay] = 2, 1
	m := newMoment(&l, &s, 1)
	m.then = newSeasons().now
	m.then[seasonDay] = 4
	var x [featuresN]float64
	m.features(&x)
	want := map[string]float64{
		"constant": 1, "step": math.Ln2, "step_before": math.Ln2, "above_fast": math.Ln2, "jump": math.Ln2 - .2,
	}
	for i, f := range levelFeatures {
		if math.Abs(x[i]-want[f.name]) > 1e-12 {
			t.Errorf("%s: %g, want %g", f.name, x[i], want[f.name])
		}
	}
	for j := range seasonsN {
		move, gap := x[featuresLevel+2*j], x[featuresLevel+2*j+1]
		if j != seasonDay && (move != 0 || gap != 0) || j == seasonDay &&
			(move != 3 || math.Abs(gap-(1-math.Log(4))) > 1e-12) {
			t.Errorf("%s moves by %g and lies %g off", seasonNames[j], move, gap)
		}
	}
}
