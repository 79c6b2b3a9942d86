package core

import (
	"math"
	"testing"
	"time"

	"weir/advisor/policy"
	"weir/internal/test/testkit"
)

// day returns a rate with a daily course: 100/s at noon, 20/s at midnight.
func day(at time.Time) float64 {
	return 60 - 40*math.Cos(2*math.Pi*float64(at.Unix()%86400)/86400)
}

// snapAt returns the snapshot of the 30 s up to at, with a limit that refuses nothing.
func snapAt(at time.Time) *Snapshot {
	return answered(&Snapshot{At: at, Interval: 30 * time.Second, Observed: day(at), Forwarded: day(at), P95: 0.02,
		Limit: policy.Limit{Algorithm: policy.Fixed, Limit: 200, Window: 1}})
}

// answered returns s with an answer to each forwarded request.
func answered(s *Snapshot) *Snapshot {
	s.Ended = s.Forwarded * s.Interval.Seconds()
	return s
}

// feed lets a core process the snapshots of a span, and fails if one is not learned from.
func feed(t testing.TB, c *Core, from, to time.Time, every time.Duration) {
	t.Helper()
	for at := from.Add(every); !at.After(to); at = at.Add(every) {
		s := snapAt(at)
		s.Interval = every
		if r := c.HandleSnapshot(answered(s)); r.Result != Learned {
			t.Fatalf("the snapshot of %s is %s", at, r.Result)
		}
	}
}

// again returns a core restored from the state of c.
func again(t testing.TB, c *Core) *Core {
	t.Helper()
	parts := testkit.Must(c.Parts())(t)
	other, partErrors := Restore(c.settings, parts)
	if len(partErrors) > 0 {
		t.Fatal(partErrors[0])
	}
	return other
}
