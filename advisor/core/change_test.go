package core

import (
	"testing"
	"time"

	"weir/internal/testkit"
)

// A change that was handed out stays as it is when others follow.
func TestChangeIsTheCallersOwn(t *testing.T) {
	c := New(Tuning{})
	c.Take(snapAt(monday))
	var handed []*Change
	var copies []string
	for i := range changesMax + 20 {
		c.now.Advice.Rec.Limit.Limit = float64(i) // another recommendation than the next
		if r := c.Take(snapAt(monday.Add(time.Duration(i+1) * 30 * time.Second))); r.Changed != nil {
			handed, copies = append(handed, r.Changed), append(copies, testkit.JSON(r.Changed))
		}
	}
	if len(handed) <= changesMax {
		t.Fatalf("only %d changes", len(handed))
	}
	for i, c := range handed {
		if testkit.JSON(c) != copies[i] {
			t.Fatalf("change %d of %d has become\n%s, was\n%s", i, len(handed), testkit.JSON(c), copies[i])
		}
	}
}

// What of the gates is told is added up.
func TestGatesAreAddedUp(t *testing.T) {
	var f fleet
	one := rated(0, 100)
	one.Instance, one.InFlight, one.GateLimit, one.GateShare, one.Targets = "a", 6, 10, .5, 3
	if _, ended, err := f.add(one); err != nil || !ended {
		t.Fatal(ended, err)
	}
	two := rated(time.Second, 100)
	two.Instance, two.InFlight, two.GateLimit, two.GateShare, two.Targets, two.Mode = "b", 20, 30, 1, 2, 1
	_, _, _ = f.add(two)
	one.At = one.At.Add(30 * time.Second)
	sum, _, _ := f.add(one)
	if sum.InFlight != 26 || sum.GateLimit != 40 || sum.GateShare != 35./40 || sum.HealthyTargets != 2 || sum.Mode != 1 || sum.Ended != 2*50*30 {
		t.Errorf("the sum is %+v", sum)
	}
}
