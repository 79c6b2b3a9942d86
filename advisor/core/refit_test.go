package core

import (
	"testing"
	"time"

	"weir/advisor/season"
)

// Coarse steps do not ask for a refit each, but after an alarm one comes at once.
func TestRefitsOfCoarseSteps(t *testing.T) {
	c := New(Tuning{})
	const steps = 3 * 48
	post := func(i int, factor float64) int {
		s := snapAt(monday.Add(time.Duration(i) * 30 * time.Minute))
		s.Interval = 30 * time.Minute
		s.Observed, s.Forwarded = s.Observed*factor, s.Forwarded*factor
		c.Take(answered(s))
		return refit(t, c)
	}
	fits := 0
	for i := 1; i <= steps; i++ {
		fits += post(i, 1)
	}
	if shifts := len(c.now.Shifts); fits < steps/6 || fits > steps/4+shifts {
		t.Errorf("%d refits in %d steps with %d alarms", fits, steps, shifts)
	}
	before := len(c.now.Shifts)
	for i := steps + 1; len(c.now.Shifts) == before; i++ {
		if i > steps+100 {
			t.Fatal("no change of level is found")
		}
		post(i, 5)
	}
	if at := c.now.forecastAt(); !c.now.Fitted.Equal(at) {
		t.Errorf("at the alarm of %s the last refit is of %s", at, c.now.Fitted)
	}
}

// A refit is overtaken when three more were due since.
func TestOvertaken(t *testing.T) {
	c := New(Tuning{})
	s := snapAt(monday)
	if c.Overtaken(s) {
		t.Error("none runs")
	}
	c.refit = &Refit{at: monday.Add(-30 * time.Minute)}
	for _, step := range []struct {
		after, interval time.Duration
		want            bool
	}{
		{0, 30 * time.Second, false}, {time.Second, 30 * time.Second, true},
		{5 * time.Hour, 30 * time.Minute, false}, {6 * time.Hour, 30 * time.Minute, true},
	} {
		s.At, s.Interval = monday.Add(step.after), step.interval
		if c.Overtaken(s) != step.want {
			t.Errorf("after %v of steps of %v it is waited for: %v", step.after, step.interval, !step.want)
		}
	}
}

// One refit is under way at a time, and one of a time that is over changes nothing.
func TestRefitOfAnotherTime(t *testing.T) {
	c := New(Tuning{})
	var r *Refit
	for at := monday; r == nil; at = at.Add(time.Minute) {
		c.Take(snapAt(at))
		if r = c.Refit(); at.After(monday.Add(24 * time.Hour)) {
			t.Fatal("none is due in a day")
		}
	}
	if c.Refit() != nil {
		t.Error("a second one is handed out")
	}
	for i := range 3 {
		c.Take(snapAt(monday.Add(-24*time.Hour + time.Duration(i)*30*time.Second)))
	}
	if c.now.Rounds != 1 || c.jumps != 1 {
		t.Fatalf("%d rounds and %d jumps", c.now.Rounds, c.jumps)
	}
	c.Adopt(r, new(season.Model)) // would panic
	if c.refit != nil {
		t.Error("it is still under way")
	}
}

// A change that was handed out stays as it is when others follow.
func TestChangeIsTheCallersOwn(t *testing.T) {
	c := New(Tuning{})
	c.Take(snapAt(monday))
	var handed []*Change
	var copies []string
	for i := range changesMax + 20 {
		c.now.Advice.Rec.Limit.Limit = float64(i) // another recommendation than the next
		if r := c.Take(snapAt(monday.Add(time.Duration(i+1) * 30 * time.Second))); r.Changed != nil {
			handed, copies = append(handed, r.Changed), append(copies, sprint(r.Changed))
		}
	}
	if len(handed) <= changesMax {
		t.Fatalf("only %d changes", len(handed))
	}
	for i, c := range handed {
		if sprint(c) != copies[i] {
			t.Fatalf("change %d of %d has become\n%s, was\n%s", i, len(handed), sprint(c), copies[i])
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
