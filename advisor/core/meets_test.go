package core

import (
	"testing"
	"time"

	"weir/advisor/policy"
)

// fleetOf lets proxies a and b report every 30 s for 5 minutes. It is a that ends rounds,
// and b is the next to report.
func fleetOf(t *testing.T, change func(*Snapshot)) (c *Core, report func(name string, after time.Duration, change func(*Snapshot)) Reply) {
	t.Helper()
	c = New(Tuning{})
	report = func(name string, after time.Duration, change func(*Snapshot)) Reply {
		s := snapAt(monday.Add(after))
		s.Instance = name
		if change != nil {
			change(s)
		}
		r := c.Take(s)
		if r.Result != Learned {
			t.Fatalf("%s at %v: %v %v", name, after, r.Result, r.Err)
		}
		return r
	}
	for at := 30 * time.Second; at <= 5*time.Minute; at += 30 * time.Second {
		report("a", at, change)
		if at < 5*time.Minute {
			report("b", at+time.Second, change)
		}
	}
	return c, report
}

// A recommendation for another limit than the one in force is not used: the limit has been
// changed since.
func TestChangedSinceTheRound(t *testing.T) {
	limit := func(l policy.Limit) func(*Snapshot) { return func(s *Snapshot) { s.Limit = l } }
	for _, l := range []policy.Limit{
		{Algorithm: policy.Fixed, Limit: 50, Window: 1}, {Algorithm: policy.Fixed, Limit: 500, Window: 1},
		{Algorithm: policy.Token, Capacity: 10, FillRate: 200}, {Algorithm: policy.Off},
	} {
		_, report := fleetOf(t, nil)
		if r := report("b", 5*time.Minute+time.Second, limit(l)); r.Limit != l {
			t.Errorf("in force is %+v, and before the next round it is answered %+v", l, r.Limit)
		}
	}
	_, report := fleetOf(t, limit(policy.Limit{Algorithm: policy.Off}))
	on := policy.Limit{Algorithm: policy.Fixed, Limit: 50, Window: 1}
	if r := report("b", 5*time.Minute+time.Second, limit(on)); r.Limit != on {
		t.Errorf("in force is %+v, others are off, and it is answered %+v", on, r.Limit)
	}
}

// While the store is unavailable each proxy enforces a whole limit. Afterwards they share
// one, which is not the sum of those.
func TestStoreIsBack(t *testing.T) {
	_, report := fleetOf(t, func(s *Snapshot) { s.Unshared = true })
	if r := report("b", 5*time.Minute+time.Second, nil); r.Limit.Limit != 200 {
		t.Errorf("of a shared limit of 200/s it is answered %+v", r.Limit)
	}
}
