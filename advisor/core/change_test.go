package core

import (
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A returned change is a copy, which later ones do not alter.
func TestChangeIsTheCallersOwn(t *testing.T) {
	c := New(Settings{})
	c.HandleSnapshot(snapAt(monday))
	var handed []*Change
	var copies []string
	for i := range changesMax + 20 {
		c.now.Advice.Rec.Limit.Limit = float64(i) // differs from the next recommendation
		if r := c.HandleSnapshot(snapAt(monday.Add(time.Duration(i+1) * 30 * time.Second))); r.Changed != nil {
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

// The gates' limits and shares are added up.
func TestGatesAreAddedUp(t *testing.T) {
	var f fleet
	one := rated(0, 100)
	one.Instance, one.GateLimit, one.GateShare = "a", 10, .5
	if _, ended, err := f.add(one); err != nil || !ended {
		t.Fatal(ended, err)
	}
	two := rated(time.Second, 100)
	two.Instance, two.GateLimit, two.GateShare, two.Mode = "b", 30, 1, 1
	_, _, _ = f.add(two)
	one.At = one.At.Add(30 * time.Second)
	sum, _, _ := f.add(one)
	if sum.GateLimit != 40 || sum.GateShare != 35./40 || sum.Mode != 1 || sum.Ended != 2*50*30 {
		t.Errorf("the sum is %+v", sum)
	}
}
