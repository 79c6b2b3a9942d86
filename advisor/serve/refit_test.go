package serve

import (
	"sync/atomic"
	"testing"
	"time"

	"weir/advisor/season"
)

// Coarse steps do not ask for a refit each, but after an alarm one comes at once.
func TestRefitsOfCoarseSteps(t *testing.T) {
	c := newTestCore()
	var fits atomic.Int64
	c.fitted = func(time.Duration, error) { fits.Add(1) }
	const steps = 3 * 48
	post := func(i int, factor float64) {
		s := snapAt(monday.Add(time.Duration(i) * 30 * time.Minute))
		s.interval = 30 * time.Minute
		s.observed, s.forwarded = s.observed*factor, s.forwarded*factor
		c.post(s)
		c.refits.Wait()
	}
	for i := 1; i <= steps; i++ {
		post(i, 1)
	}
	if n, shifts := fits.Load(), int64(len(c.now.shifts)); n < steps/6 || n > steps/4+shifts {
		t.Errorf("%d refits in %d steps with %d alarms", n, steps, shifts)
	}
	before := len(c.now.shifts)
	for i := steps + 1; len(c.now.shifts) == before; i++ {
		if i > steps+100 {
			t.Fatal("no change of level is found")
		}
		post(i, 5)
	}
	if at := c.now.forecastAt(); !c.now.fitted.Equal(at) {
		t.Errorf("at the alarm of %s the last refit is of %s", at, c.now.fitted)
	}
}

// A refit is overtaken when three more were due since.
func TestOvertaken(t *testing.T) {
	c := newTestCore()
	s := snapAt(monday)
	if c.overtaken(s) != nil {
		t.Error("none runs")
	}
	c.refit = &refit{at: monday.Add(-30 * time.Minute)}
	if c.overtaken(s) != nil {
		t.Error("it is waited for after half an hour")
	}
	s.at = s.at.Add(time.Second)
	if c.overtaken(s) == nil {
		t.Error("it is not waited for after half an hour and a second")
	}
	s.interval = 30 * time.Minute
	if s.at = s.at.Add(5 * time.Hour); c.overtaken(s) != nil {
		t.Error("it is waited for after eleven steps")
	}
	if s.at = s.at.Add(time.Hour); c.overtaken(s) == nil {
		t.Error("it is not waited for after thirteen steps")
	}
}

// A model that cannot be adopted costs nothing but itself.
func TestAdoptFails(t *testing.T) {
	c := newTestCore()
	feed(t, c, monday, monday.Add(time.Hour), time.Minute)
	var failed error
	c.fitted = func(_ time.Duration, err error) { failed = err }
	r := &refit{at: monday, done: make(chan struct{})}
	c.refit = r
	future := c.now.future
	c.now.future = nil
	c.run(r, c.now, func() (*season.Model, error) { return new(season.Model), nil })
	c.now.future = future
	if failed == nil || c.refit != nil {
		t.Errorf("it is adopted: %v", failed)
	}
	feed(t, c, monday.Add(time.Hour), monday.Add(2*time.Hour), time.Minute)
}

// A change that was handed out stays as it is when others follow.
func TestChangeIsTheCallersOwn(t *testing.T) {
	c := newTestCore()
	c.post(snapAt(monday))
	var handed []*change
	var copies []string
	for i := range changesMax + 20 {
		c.now.advice.Rec.Limit.Limit = float64(i) // another recommendation than the next
		if r := c.post(snapAt(monday.Add(time.Duration(i+1) * 30 * time.Second))); r.changed != nil {
			handed, copies = append(handed, r.changed), append(copies, sprint(r.changed))
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
