package serve

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const hour = time.Hour

// A step of a script about time: what is reported when, and what becomes of it.
type step struct {
	proxy string
	at    time.Duration // after monday
	want  result
}

// play posts the steps to a core.
func play(t *testing.T, c *core, steps []step) {
	t.Helper()
	for i, s := range steps {
		snap := snapAt(monday.Add(s.at))
		snap.instance = s.proxy
		if r := c.post(snap); r.result != s.want {
			t.Fatalf("step %d (%s at %s) is %s, want %s", i, s.proxy, s.at, r.result, s.want)
		}
	}
}

// steady is a proxy that reports every half minute.
func steady(proxy string, from, to time.Duration, want result) (steps []step) {
	for at := from; at <= to; at += 30 * time.Second {
		steps = append(steps, step{proxy, at, want})
	}
	return steps
}

func TestTime(t *testing.T) {
	half := 30 * time.Second
	for _, c := range []struct {
		name   string
		steps  []step
		newest time.Duration
		rounds uint64
	}{
		{"a silence of an hour is none", slices.Concat(steady("", half, 15*time.Minute, resultLearned), steady("", 75*time.Minute, 76*time.Minute, resultLearned)), 76 * time.Minute, 33},
		{"a longer one is believed with the second snapshot, and both are learned from", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 20 * hour, resultAhead}, {"", 20*hour + half, resultLearned}, {"", 20*hour + 2*half, resultLearned}}), 20*hour + 2*half, 33},
		{"one wrong time is forgotten", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned), []step{{"", 9000 * hour, resultAhead}},
			steady("", 15*time.Minute+half, 20*time.Minute, resultLearned), []step{{"", 9000*hour + half, resultAhead}},
			steady("", 20*time.Minute+half, 21*time.Minute, resultLearned)), 21 * time.Minute, 42},
		{"two that do not go together are not believed", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 20 * hour, resultAhead}, {"", 90 * hour, resultAhead}, {"", 50 * hour, resultAhead}, {"", 50 * hour, resultAhead}}), 15 * time.Minute, 30},
		{"a clock that was wrong for a while costs that while", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 9000 * hour, resultAhead}}, steady("", 9000*hour+half, 9000*hour+9*half, resultLearned),
			[]step{{"", 80 * time.Minute, resultOld}, {"", 80*time.Minute + half, resultOld}, {"", 81 * time.Minute, resultLearned}}), 81 * time.Minute, 31},
		{"and it may be wrong again", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 9000 * hour, resultAhead}, {"", 9000*hour + half, resultLearned}},
			[]step{{"", 20 * time.Minute, resultOld}, {"", 20*time.Minute + half, resultOld}, {"", 21 * time.Minute, resultLearned}},
			[]step{{"", 9000*hour + 2*half, resultAhead}, {"", 9000*hour + 3*half, resultLearned}}), 9000*hour + 3*half, 34},
		{"a first snapshot that was wrong", slices.Concat(
			[]step{{"", 9000 * hour, resultLearned}, {"", half, resultOld}, {"", 2 * half, resultOld}, {"", 3 * half, resultLearned}, {"", 4 * half, resultLearned}}), 4 * half, 2},
		{"old snapshots that do not go together are refused for ever", slices.Concat(
			steady("", 100*hour, 100*hour+20*half, resultLearned),
			steady("", 50*hour, 50*hour+8*half, resultOld), steady("", 30*hour, 30*hour+8*half, resultOld), slices.Repeat([]step{{"", hour, resultOld}}, 20)), 100*hour + 20*half, 21},
		{"ten that do begin an empty time", slices.Concat(
			steady("", 100*hour, 100*hour+20*half, resultLearned), steady("", 50*hour, 50*hour+8*half, resultOld), steady("", 50*hour+9*half, 50*hour+12*half, resultLearned)), 50*hour + 12*half, 4},
		{"and the other one is found again", slices.Concat(
			steady("", 100*hour, 100*hour+20*half, resultLearned), steady("", 50*hour, 50*hour+8*half, resultOld), steady("", 50*hour+9*half, 50*hour+12*half, resultLearned),
			[]step{{"", 100*hour + 21*half, resultAhead}, {"", 100*hour + 22*half, resultLearned}}), 100*hour + 22*half, 23},
		{"of two proxies one has a wrong clock", slices.Concat(
			[]step{{"a", half, resultLearned}, {"b", half + 1, resultLearned}, {"a", 2 * half, resultLearned}},
			[]step{{"b", 9000 * hour, resultAhead}, {"b", 9000*hour + half, resultAhead}, {"a", 3 * half, resultLearned}, {"b", 9000*hour + 2*half, resultAhead}, {"a", 4 * half, resultLearned}}), 4 * half, 3},
		{"two proxies after a silence", []step{
			{"a", half, resultLearned}, {"b", half + 1, resultLearned}, {"a", 2 * half, resultLearned},
			{"a", 20 * hour, resultAhead}, {"b", 20*hour + 1, resultAhead}, {"a", 20*hour + half, resultLearned}}, 20*hour + half, 4},
		{"a clock that is hours slow is answered", []step{
			{"a", 10 * hour, resultLearned}, {"b", 2 * hour, resultBehind}, {"a", 10*hour + half, resultLearned}, {"b", 2*hour + half, resultBehind}, {"a", 10*hour + 2*half, resultLearned}}, 10*hour + 2*half, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			core := newTestCore()
			play(t, core, c.steps)
			if newest := core.now.newest().Sub(monday); newest != c.newest || core.now.rounds != c.rounds {
				t.Errorf("newest is %s after %d rounds, want %s and %d", newest, core.now.rounds, c.newest, c.rounds)
			}
		})
	}
}

// What is set aside is kept in the state file.
func TestParkedIsKept(t *testing.T) {
	a := newTestCore()
	half := 30 * time.Second
	play(t, a, slices.Concat(steady("", half, 15*time.Minute, resultLearned), []step{{"", 9000 * hour, resultAhead}}, steady("", 9000*hour+half, 9000*hour+2*half, resultLearned)))
	image, err := a.image()
	if err != nil {
		t.Fatal(err)
	}
	b := newTestCore()
	if err := b.restore(&image); err != nil {
		t.Fatal(err)
	}
	play(t, b, []step{{"", 20 * time.Minute, resultOld}, {"", 20*time.Minute + half, resultOld}, {"", 21 * time.Minute, resultLearned}})
	if b.now.rounds != 31 {
		t.Errorf("after %d rounds", b.now.rounds)
	}
}

// The same snapshots lead to the same knowledge, also by the journal; and what is
// written down is what is known.
func TestDeterministic(t *testing.T) {
	var records []string
	a := newTestCore()
	for i := range 300 {
		s := snapAt(monday.Add(time.Duration(i) * 30 * time.Second))
		s.instance = []string{"x", "y"}[i%2]
		records = append(records, string(s.record()))
		a.post(s)
	}
	b := newTestCore()
	for _, r := range records {
		s, err := readSnapshot([]byte(r))
		if err != nil {
			t.Fatal(err)
		}
		b.post(&s)
	}
	imageA, errA := a.image()
	imageB, errB := b.image()
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	restored := newTestCore()
	if err := restored.restore(&imageA); err != nil {
		t.Fatal(err)
	}
	imageC, err := restored.image()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range imageA.Parts {
		if string(p.Data) != string(imageB.Parts[i].Data) {
			t.Errorf("the same snapshots taught two cores different things about %s", p.Name)
		}
		if string(p.Data) != string(imageC.Parts[i].Data) {
			t.Errorf("%s is another one after it was restored", p.Name)
		}
	}
	next := snapAt(monday.Add(301 * 30 * time.Second))
	next.instance = "y"
	want, got := a.post(next), restored.post(next)
	if sprint(want.JSON()) != sprint(got.JSON()) {
		t.Errorf("the restored core answers\n%s, not\n%s", sprint(got.JSON()), sprint(want.JSON()))
	}
}

// A limiter that is off can be written down as well.
func TestOffIsKept(t *testing.T) {
	c := newTestCore()
	for i := range 10 {
		s := snapAt(monday.Add(time.Duration(i) * 30 * time.Second))
		if i > 4 {
			s.limit.Algorithm = "off"
		}
		c.post(s)
	}
	image, err := c.image()
	if err != nil {
		t.Fatal(err)
	}
	if err := newTestCore().restore(&image); err != nil {
		t.Error(err)
	}
}

// A panic of the thinking part costs an answer.
func TestPanic(t *testing.T) {
	c := newTestCore()
	c.now.policy = nil
	s := snapAt(monday)
	r := c.post(s)
	if r.result != resultFailed || r.limit != s.limit || !strings.Contains(r.stack, "policy") {
		t.Errorf("answered %+v", r)
	}
}
