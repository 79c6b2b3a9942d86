package policy

import (
	"math"
	"slices"
	"testing"
	"time"
)

// chosen plays a demand per snapshot of a minute and returns the algorithm at the
// end, and when it changed.
func chosen(t *testing.T, first string, demand func(i int) float64, outlook func(i int) Outlook) (last string, changes []int) {
	t.Helper()
	p := New(with(1000))
	limit := Limit{Algorithm: first, Limit: 800, Window: 1, Capacity: 160, FillRate: 800}
	for i := range 60 {
		s := seen(i, func(s *Snapshot) {
			s.Observed = demand(i)
			s.Forwarded = s.Observed
			s.Limit = limit
			s.P95 = 140 * time.Millisecond
		})
		r := p.Advise(s, outlook(i))
		if r.Algorithm != limit.Algorithm {
			changes = append(changes, i)
			if r.Rate() > limit.Rate()*1.1 {
				t.Errorf("snapshot %d: %s comes with a raise from %v to %v/s", i, r.Algorithm, limit.Rate(), r.Rate())
			}
			if !slices.Contains(r.Codes, AlgorithmSwitch) {
				t.Errorf("snapshot %d: the change is not among the reasons %v", i, r.Codes)
			}
		}
		limit = r.Limit
	}
	return limit.Algorithm, changes
}

func TestAlgorithmFollowsTheTraffic(t *testing.T) {
	blind := func(int) Outlook { return Outlook{} }
	sure := func(d float64) func(int) Outlook {
		return func(int) Outlook { return expect(slices.Repeat([]float64{d}, 15)...) }
	}
	spikes := func(i int) float64 {
		if i%8 == 7 {
			return 500
		}
		return 200 + float64(i%3)
	}
	climb := func(i int) float64 { return 200 * math.Exp(0.02*float64(i)) }
	climbing := func(i int) Outlook {
		var d []float64
		for k := range 15 {
			d = append(d, climb(i+k+1))
		}
		return expect(d...)
	}
	calm := func(i int) float64 { return 100 + float64(i%2) }
	for _, c := range []struct {
		name    string
		first   string
		demand  func(int) float64
		outlook func(int) Outlook
		want    string
	}{
		{"spikes", Fixed, spikes, blind, Token},
		{"a climb", Fixed, climb, climbing, Sliding},
		{"calm, and little to come", Sliding, calm, sure(100), Fixed},
		{"nothing special", Token, func(i int) float64 { return 300 + 60*math.Sin(float64(i)) }, sure(900), Token},
		{"gcra was chosen by somebody", GCRA, spikes, blind, GCRA},
		{"leaky was chosen by somebody", Leaky, spikes, blind, Leaky},
	} {
		got, changes := chosen(t, c.first, c.demand, c.outlook)
		if got != c.want {
			t.Errorf("%s: from %s to %s, want %s", c.name, c.first, got, c.want)
		}
		for k := 1; k < len(changes); k++ {
			if changes[k]-changes[k-1] < 10 {
				t.Errorf("%s: changes at the minutes %v", c.name, changes)
			}
		}
		if len(changes) > 0 && changes[0] < 10 {
			t.Errorf("%s: changed after %d minutes", c.name, changes[0])
		}
	}
}

func TestTrend(t *testing.T) {
	for _, c := range []struct {
		v          []float64
		slope, tau float64
	}{
		{[]float64{1, 2, 3, 4}, 1, 1},
		{[]float64{4, 3, 2, 1}, -1, -1},
		{[]float64{1, 2, 90, 4, 5}, 1, 0.6},
		{[]float64{7}, 0, 0},
		{nil, 0, 0},
	} {
		slope, tau := trend(c.v)
		if math.Abs(slope-c.slope) > 1e-9 || math.Abs(tau-c.tau) > 1e-9 {
			t.Errorf("%v: slope %v, tau %v, want %v and %v", c.v, slope, tau, c.slope, c.tau)
		}
	}
}

func TestCut(t *testing.T) {
	s := Settings{LimitMin: 0.01, LimitMax: 1e6}
	for _, c := range []struct {
		name        string
		algorithm   string
		rate, burst float64
		inForce     Limit
		want        Limit
	}{
		{"token", Token, 50, 7.6, Limit{Algorithm: Token, Capacity: 200, FillRate: 40}, Limit{Algorithm: Token, Capacity: 8, FillRate: 50}},
		{"token keeps a capacity that is about right", Token, 50, 9, Limit{Algorithm: Token, Capacity: 8, FillRate: 40}, Limit{Algorithm: Token, Capacity: 8, FillRate: 50}},
		{"token holds one at least", Token, 0.5, 0.1, Limit{}, Limit{Algorithm: Token, Capacity: 1, FillRate: 0.5}},
		{"sliding", Sliding, 50, 100, Limit{Algorithm: Sliding, Limit: 40, Window: 1}, Limit{Algorithm: Sliding, Limit: 50, Window: 1}},
		{"sliding at a low rate", Sliding, 0.5, 1, Limit{}, Limit{Algorithm: Sliding, Limit: 10, Window: 20}},
		{"a long window lets too many in at once", Fixed, 50, 50, Limit{Algorithm: Fixed, Limit: 2400, Window: 60}, Limit{Algorithm: Fixed, Limit: 50, Window: 1}},
		{"rounded towards what is in force", Fixed, 12.5, 5, Limit{Algorithm: Fixed, Limit: 10, Window: 1}, Limit{Algorithm: Fixed, Limit: 12, Window: 1}},
		{"once in minutes", Fixed, 0.01, 0.01, Limit{}, Limit{Algorithm: Fixed, Limit: 10, Window: 1000}},
		{"gcra keeps its burst", GCRA, 50, 9, Limit{Algorithm: GCRA, Limit: 1, Window: 1, Burst: 3}, Limit{Algorithm: GCRA, Limit: 100, Window: 2, Burst: 3}},
		{"leaky keeps its queue", Leaky, 50, 9, Limit{Algorithm: Leaky, Capacity: 30, FillRate: 40}, Limit{Algorithm: Leaky, Capacity: 30, FillRate: 50}},
		{"sliding_log keeps its window", SlidingLog, 50, 9, Limit{Algorithm: SlidingLog, Limit: 280, Window: 7}, Limit{Algorithm: SlidingLog, Limit: 350, Window: 7}},
	} {
		if got := s.cut(c.algorithm, c.rate, c.burst, c.inForce); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		l    Limit
		want float64
	}{
		{Limit{Algorithm: Fixed, Limit: 100, Window: 60}, 100.0 / 60},
		{Limit{Algorithm: GCRA, Limit: 1, Window: 3}, 1.0 / 3},
		{Limit{Algorithm: Leaky, Capacity: 50, FillRate: 5}, 5},
		{Limit{Algorithm: Token, FillRate: 5}, 0},
		{Limit{Algorithm: Fixed, Limit: 100}, 0},
		{Limit{Algorithm: Off}, math.Inf(1)},
		{Limit{}, 0},
	} {
		if got := c.l.Rate(); got != c.want {
			t.Errorf("%+v: %v/s, want %v", c.l, got, c.want)
		}
	}
}

// The traffic changes its character faster than the algorithm may.
func TestDwell(t *testing.T) {
	p := New(with(1000))
	limit := Limit{Algorithm: Fixed, Limit: 800, Window: 1}
	var changes []time.Duration
	for i := range 600 {
		at := time.Duration(i) * 10 * time.Second
		demand, outlook := 100.0, expect(slices.Repeat([]float64{100}, 15)...)
		if i/30%2 == 1 {
			demand = 300 + 200*float64(i%2)
			outlook = expect(slices.Repeat([]float64{900}, 15)...)
		}
		r := p.Advise(Snapshot{At: start.Add(at), Interval: 10 * time.Second, Observed: demand, Forwarded: demand,
			P95: 140 * time.Millisecond, Limit: limit}, outlook)
		if r.Algorithm != limit.Algorithm {
			changes = append(changes, at)
		}
		limit = r.Limit
	}
	if len(changes) < 2 {
		t.Fatalf("the algorithm changed %d times: the test shows nothing", len(changes))
	}
	for k := 1; k < len(changes); k++ {
		if changes[k]-changes[k-1] < dwell {
			t.Errorf("the algorithm changed at %v", changes)
			break
		}
	}
}
