package serve

import (
	"strings"
	"testing"
	"time"
)

// flat lets a core take in n snapshots of 50/s from a moment on.
func flat(t *testing.T, c *core, from time.Duration, n int) {
	t.Helper()
	for i := range n {
		if r := c.post(rated(from+time.Duration(i)*30*time.Second, 50)); r.result != resultLearned {
			t.Fatalf("snapshot %d is %s", i, r.result)
		}
	}
}

func rated(at time.Duration, rate float64) *snapshot {
	s := snapAt(monday.Add(at))
	s.observed, s.forwarded = rate, 50
	return s
}

// One absurd rate changes nothing that is forecast, as if it had not been told.
func TestAbsurdRate(t *testing.T) {
	for _, absurd := range []float64{5e4, 1e9} {
		a, b := newTestCore(), newTestCore()
		flat(t, a, 30*time.Second, 240)
		flat(t, b, 30*time.Second, 240)
		a.refits.Wait()
		b.refits.Wait()
		r := a.post(rated(2*time.Hour+30*time.Second, absurd))
		if r.result != resultDoubtful || r.limit != rated(0, 0).limit || r.advice.Codes[0] != "doubtful_rate" || r.advice.PredictedRPS > 1000 {
			t.Errorf("%g/s is answered %+v", absurd, r)
		}
		for i := range 5 {
			next := 2*time.Hour + time.Duration(i+2)*30*time.Second
			got, want := a.post(rated(next, 50)), b.post(rated(next, 50))
			if sprint(got.JSON()) != sprint(want.JSON()) {
				t.Fatalf("%g/s: the answer is %s, want %s", absurd, sprint(got.JSON()), sprint(want.JSON()))
			}
		}
	}
}

// A surge is believed with its second snapshot, and both are learned from.
func TestSurge(t *testing.T) {
	c := newTestCore()
	flat(t, c, 30*time.Second, 240)
	first, second := c.post(rated(2*time.Hour+30*time.Second, 5e4)), c.post(rated(2*time.Hour+60*time.Second, 4e4))
	if first.result != resultDoubtful || second.result != resultLearned || c.now.rounds != 242 {
		t.Errorf("it is %s, then %s, after %d rounds", first.result, second.result, c.now.rounds)
	}
	if rows := c.now.future.History().Raw(monday.Add(2*time.Hour), monday.Add(3*time.Hour)); len(rows) != 2 || rows[0].Rate != 5e4 || rows[1].Rate != 4e4 {
		t.Errorf("the history is %+v", rows)
	}
	if r := c.post(rated(2*time.Hour+90*time.Second, 9e5)); r.result != resultLearned {
		t.Errorf("less than twenty times the surge is %s", r.result)
	}
	// A repetition confirms nothing, and neither do two that are not one after another.
	d := newTestCore()
	flat(t, d, 30*time.Second, 240)
	for i := range 6 {
		want := []result{resultDoubtful, resultLearned}[i%2]
		if r := d.post(rated(2*time.Hour+time.Duration(i+1)*30*time.Second, []float64{5e4, 50}[i%2])); r.result != want {
			t.Errorf("snapshot %d is %s", i, r.result)
		}
	}
	for range 3 {
		if r := d.post(rated(2*time.Hour+210*time.Second, 5e4)); r.result != resultDoubtful {
			t.Errorf("a repetition is %s", r.result)
		}
	}
	// What is small is never absurd, and without an hour of history nothing is.
	e := newTestCore()
	e.post(rated(30*time.Second, 50))
	if r := e.post(rated(60*time.Second, 5e4)); r.result != resultLearned {
		t.Errorf("in the first minute it is %s", r.result)
	}
	f := newTestCore()
	for i := range 240 {
		f.post(rated(time.Duration(i+1)*30*time.Second, 0))
	}
	if r := f.post(rated(2*time.Hour+30*time.Second, 90)); r.result != resultLearned {
		t.Errorf("90/s after nothing is %s", r.result)
	}
}

// What is doubted is told once, and counted.
func TestDoubtIsTold(t *testing.T) {
	r := start(t, defaults())
	flat(t, r.core, 30*time.Second, 240)
	r.post(rated(2*time.Hour+30*time.Second, 1e6))
	if _, text := r.do("GET", "/metrics", ""); !strings.Contains(text, `advisor_snapshots_total{result="doubtful"} 1`) {
		t.Error("it is not counted")
	}
	r.stop()
	if log := r.log.String(); !strings.Contains(log, `why=doubtful count=1 latest="observedRps 1e+06 instance`) {
		t.Errorf("the log is\n%s", log)
	}
}

// The largest rate is kept, and worked out again from history.
func TestMostIsKept(t *testing.T) {
	a := newTestCore()
	flat(t, a, 30*time.Second, 240)
	if a.now.most < 49 || a.now.most > 51 {
		t.Errorf("it is %g", a.now.most)
	}
	image, err := a.image()
	if err != nil {
		t.Fatal(err)
	}
	b := newTestCore()
	if damages := b.restore(&image); damages != nil || b.now.most != a.now.most {
		t.Errorf("after a restart it is %g, %v", b.now.most, damages)
	}
	b.now.recall()
	near(t, "of the history it", b.now.most, 50, 0.02)
}
