package policy

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestRestoreRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*State)
		want   string
	}{
		{"another version", func(s *State) { s.Version = 7 }, "version 7, want 2"},
		{"a negative count", func(s *State) { s.Count = -1 }, "-1 snapshots"},
		{"fewer than none at work", func(s *State) { s.Employed = -1 }, "-1 for the number at work"},
		{"a base that is no number", func(s *State) { s.Base = math.NaN() }, "base NaN"},
		{"good answers without end", func(s *State) { s.Good = math.Inf(1) }, "good +Inf"},
		{"a proof of nonsense", func(s *State) { s.Proven = -1 }, "proven -1"},
		{"a time of nonsense", func(s *State) { s.Takes = math.NaN() }, "takes NaN"},
		{"work without end", func(s *State) { s.AtWork = math.Inf(1) }, "at work +Inf"},
		{"a belief of nonsense", func(s *State) { s.Belief.Variance = -1 }, "belief"},
	} {
		p, i := watched(with(160))
		s := p.State()
		c.change(&s)
		q := New(with(160))
		err := q.Restore(s)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if q.State().Count != 0 {
			t.Errorf("%s: the policy changed", c.name)
		}
		if err := q.Restore(p.State()); err != nil {
			t.Errorf("%s: the state itself: %v", c.name, err)
		}
		a, b := p.Advise(seen(i, nil), DemandForecast{}), q.Advise(seen(i, nil), DemandForecast{})
		if a.Limit != b.Limit || a.Reason != b.Reason {
			t.Errorf("%s: it goes on with %+v instead of %+v", c.name, b, a)
		}
	}
}

func TestAGapEndsWhatWasGoingOn(t *testing.T) {
	p, i := watched(with(160))
	p.Advise(seen(i, func(s *Snapshot) { s.P95 = 2 * time.Second; s.Errors = 0.5 }), DemandForecast{})
	if p.State().Guard.FirstCut.At.IsZero() {
		t.Fatal("an overload is no episode")
	}
	p.Advise(seen(i+60, func(s *Snapshot) { s.P95 = 500 * time.Millisecond }), DemandForecast{})
	if g := p.State().Guard; g.FirstCut.At.Equal(seen(i, nil).At) {
		t.Errorf("an hour later the episode goes on: %+v", g)
	}
}
