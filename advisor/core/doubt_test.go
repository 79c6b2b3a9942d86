package core

import (
	"testing"
	"time"

	"weir/advisor/policy"
	"weir/internal/test/testkit"
)

func rated(at time.Duration, rate float64) *Snapshot {
	s := snapAt(monday.Add(at))
	s.Observed, s.Forwarded = rate, 50
	return answered(s)
}

// One absurd rate changes nothing that is forecast, as if it had not been told.
func TestAbsurdRate(t *testing.T) {
	for _, absurd := range []float64{5e4, 1e9} {
		a, b := New(Settings{}), New(Settings{})
		for i := range 240 {
			at := time.Duration(i+1) * 30 * time.Second
			a.HandleSnapshot(rated(at, 50))
			b.HandleSnapshot(rated(at, 50))
		}
		r := a.HandleSnapshot(rated(2*time.Hour+30*time.Second, absurd))
		if r.Result != Doubtful || r.Limit != rated(0, 0).Limit || r.Recommendation.Codes[0] != "doubtful_rate" ||
			r.Recommendation.PredictedRPS > 1000 {
			t.Errorf("%g/s is answered %+v", absurd, r)
		}
		for i := range 5 {
			next := 2*time.Hour + time.Duration(i+2)*30*time.Second
			got, want := a.HandleSnapshot(rated(next, 50)), b.HandleSnapshot(rated(next, 50))
			if testkit.JSON(got) != testkit.JSON(want) {
				t.Fatalf("%g/s: the answer is %s, want %s", absurd, testkit.JSON(got), testkit.JSON(want))
			}
		}
	}
}

// The largest rate is kept, and computed again from history.
func TestMostIsKept(t *testing.T) {
	a := New(Settings{})
	for i := range 240 {
		a.HandleSnapshot(rated(time.Duration(i+1)*30*time.Second, 50))
	}
	testkit.Tolerance(0.02).Near(t, "the largest rate", a.now.Most, 50)
	b := again(t, a)
	if b.now.Most != a.now.Most {
		t.Errorf("after a restart it is %g", b.now.Most)
	}
	b.now.recall()
	testkit.Tolerance(0.02).Near(t, "of the history it", b.now.Most, 50)
}

// The parts of a limit do not exceed it, and add up to it again.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		limit  policy.Limit
		factor float64
		want   policy.Limit
	}{
		{policy.Limit{Algorithm: "fixed", Limit: 100, Window: 1}, 1. / 3,
			policy.Limit{Algorithm: "fixed", Limit: 33, Window: 1}},
		{policy.Limit{Algorithm: "fixed", Limit: 33, Window: 1}, 3, policy.Limit{Algorithm: "fixed", Limit: 99, Window: 1}},
		{policy.Limit{Algorithm: "sliding", Limit: 2, Window: 10}, 1. / 4,
			policy.Limit{Algorithm: "sliding", Limit: 1, Window: 20}},
		{policy.Limit{Algorithm: "gcra", Limit: 9, Window: 1, Burst: 2}, 1. / 3,
			policy.Limit{Algorithm: "gcra", Limit: 3, Window: 1, Burst: 1}},
		{policy.Limit{Algorithm: "token", Capacity: 50, FillRate: 5}, 1. / 4,
			policy.Limit{Algorithm: "token", Capacity: 12, FillRate: 1.25}},
		{policy.Limit{Algorithm: "leaky", Capacity: 3, FillRate: 5}, 1. / 5,
			policy.Limit{Algorithm: "leaky", Capacity: 1, FillRate: 1}},
		{policy.Limit{Algorithm: "off"}, 1. / 4, policy.Limit{Algorithm: "off"}},
	} {
		if got := times(c.limit, c.factor); got != c.want {
			t.Errorf("%g times %+v is %+v, want %+v", c.factor, c.limit, got, c.want)
		}
	}
}
