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
		{"another version", func(s *State) { s.Version = 7 }, "version 7, want 1"},
		{"a negative count", func(s *State) { s.Count = -1 }, "-1 snapshots"},
		{"a base that is no number", func(s *State) { s.Base = math.NaN() }, "base NaN"},
		{"a last good limit that is none", func(s *State) { s.LastGood = &Limit{Algorithm: "best"} }, "is no limit"},
		{"too many slots", func(s *State) { s.Slots = make([]Slot, slotsMax+1) }, "289 slots, at most 288 are allowed"},
		{"too much traffic", func(s *State) { s.Traffic.Rates = make([]float64, recent+1) }, "traffic"},
		{"a row too few", func(s *State) { s.Belief.Weights = s.Belief.Weights[1:] }, "want 4 × 160 weights"},
		{"a weight too few", func(s *State) { s.Belief.Weights[2] = s.Belief.Weights[2][1:] }, "159 weights in row 2"},
		{"a negative weight", func(s *State) { s.Belief.Weights[0][0] = -0.1 }, "weight -0.1"},
		{"weights of nothing", func(s *State) { clear(s.Belief.Weights[3]) }, "sum to"},
		{"a queue without end", func(s *State) { s.Belief.Backlog[0] = math.Inf(1) }, "backlog +Inf"},
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
		a, b := p.Advise(seen(i, nil), Outlook{}), q.Advise(seen(i, nil), Outlook{})
		if a.Limit != b.Limit || a.Reason != b.Reason {
			t.Errorf("%s: it goes on with %+v instead of %+v", c.name, b, a)
		}
	}
}

func TestStateIsACopy(t *testing.T) {
	p, i := watched(with(160))
	s := p.State()
	for _, w := range s.Belief.Weights {
		clear(w)
	}
	clear(s.Slots)
	if r := p.Advise(seen(i, nil), Outlook{}); r.Confidence == 0 || math.IsNaN(r.Confidence) {
		t.Error("changing what State returned changed the policy")
	}
}

func TestAGapEndsWhatWasGoingOn(t *testing.T) {
	p, i := watched(with(160))
	p.Advise(seen(i, func(s *Snapshot) { s.P95 = 2 * time.Second; s.Errors = 0.5 }), Outlook{})
	if p.State().Guard.Reductions == 0 {
		t.Fatal("an overload is no episode")
	}
	p.Advise(seen(i+60, func(s *Snapshot) { s.P95 = 500 * time.Millisecond }), Outlook{})
	if g := p.State().Guard; g.Reductions > 1 || g.OKs != 0 {
		t.Errorf("an hour later the episode goes on: %+v", g)
	}
}

func TestSettingsThatMakeNoSenseAreAbsent(t *testing.T) {
	nan := math.NaN()
	p := New(Settings{LimitMin: nan, LimitMax: -1, CapacityHint: math.Inf(1), SLO: -1, RejectCost: nan})
	want := Settings{LimitMin: limitMinDefault, LimitMax: limitMaxDefault, RejectCost: rejectCostDefault}
	if p.set != want {
		t.Errorf("%+v, want %+v", p.set, want)
	}
	if p := New(Settings{LimitMin: 10, LimitMax: 5}); p.set.LimitMax != 10 {
		t.Errorf("bounds the wrong way round: %+v", p.set)
	}
}
