package serve

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/advisor/series"
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
		{"a longer one is believed at once of one that is alone", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 20 * hour, resultLearned}, {"", 20*hour + half, resultLearned}, {"", 20*hour + 2*half, resultLearned}}), 20*hour + 2*half, 33},
		{"also when it reports seldom", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 2 * hour, resultLearned}, {"", 4 * hour, resultLearned}, {"", 6 * hour, resultLearned}, {"", 8 * hour, resultLearned}}), 8 * hour, 34},
		{"one beyond five weeks with the second snapshot, and both are learned from", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 900 * hour, resultAhead}, {"", 900*hour + half, resultLearned}, {"", 900*hour + 2*half, resultLearned}}), 900*hour + 2*half, 33},
		{"a clock that was an hour ahead for a moment", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 76 * time.Minute, resultLearned}, {"", 15*time.Minute + half, resultOld}, {"", 16 * time.Minute, resultOld}, {"", 16*time.Minute + half, resultLearned}}), 16*time.Minute + half, 31},
		{"one wrong time is forgotten", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned), []step{{"", 9000 * hour, resultAhead}},
			steady("", 15*time.Minute+half, 20*time.Minute, resultLearned), []step{{"", 9000*hour + half, resultAhead}},
			steady("", 20*time.Minute+half, 21*time.Minute, resultLearned)), 21 * time.Minute, 42},
		{"two that do not go together are not believed", slices.Concat(
			steady("", half, 15*time.Minute, resultLearned),
			[]step{{"", 9000 * hour, resultAhead}, {"", 20000 * hour, resultAhead}, {"", 5000 * hour, resultAhead}, {"", 5000 * hour, resultAhead}}), 15 * time.Minute, 30},
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
			steady("", 50*hour, 50*hour+half, resultOld), steady("", 30*hour, 30*hour+half, resultOld), slices.Repeat([]step{{"", hour, resultOld}}, 20)), 100*hour + 20*half, 21},
		{"three that do begin an empty time when they come evenly", slices.Concat(
			steady("", 100*hour, 100*hour+20*half, resultLearned), steady("", 50*hour, 50*hour+half, resultOld), steady("", 50*hour+2*half, 50*hour+12*half, resultLearned)), 50*hour + 12*half, 11},
		{"ten when they do not", slices.Concat(
			steady("", 100*hour, 100*hour+20*half, resultLearned), []step{{"", 50*hour - half, resultOld}, {"", 50*hour - 5*time.Second, resultOld}},
			steady("", 50*hour, 50*hour+6*half, resultOld), steady("", 50*hour+7*half, 50*hour+12*half, resultLearned)), 50*hour + 12*half, 6},
		{"and the other one is found again", slices.Concat(
			steady("", 100*hour, 100*hour+20*half, resultLearned), steady("", 50*hour, 50*hour+half, resultOld), steady("", 50*hour+2*half, 50*hour+12*half, resultLearned),
			[]step{{"", 100*hour + 21*half, resultLearned}, {"", 100*hour + 22*half, resultLearned}}), 100*hour + 22*half, 23},
		{"of two proxies one has a wrong clock", slices.Concat(
			[]step{{"a", half, resultLearned}, {"b", half + 1, resultLearned}, {"a", 2 * half, resultLearned}},
			[]step{{"b", 9000 * hour, resultAhead}, {"b", 9000*hour + half, resultAhead}, {"a", 3 * half, resultLearned}, {"b", 9000*hour + 2*half, resultAhead}, {"a", 4 * half, resultLearned}}), 4 * half, 3},
		{"two proxies after a silence", []step{
			{"a", half, resultLearned}, {"b", half + 1, resultLearned}, {"a", 2 * half, resultLearned},
			{"a", 20 * hour, resultAhead}, {"b", 20*hour + 1, resultLearned}, {"a", 20*hour + half, resultLearned}}, 20*hour + half, 4},
		{"one that goes on in large steps when the other is silent", []step{
			{"a", half, resultLearned}, {"b", half + 1, resultLearned}, {"a", 2 * half, resultLearned},
			{"a", 2 * hour, resultAhead}, {"a", 4 * hour, resultLearned}, {"a", 6 * hour, resultLearned}}, 6 * hour, 5},
		{"two that are right and one that is slow and was the first", []step{
			{"c", half, resultLearned}, {"a", 10 * time.Minute, resultAhead}, {"c", 2 * half, resultLearned}, {"b", 10*time.Minute + 1, resultLearned},
			{"a", 10*time.Minute + half, resultLearned}}, 10*time.Minute + half, 4},
		{"a new one that is far ahead while others report", slices.Concat(
			[]step{{"a", half, resultLearned}, {"b", half + 1, resultLearned}, {"x", 50 * time.Minute, resultAhead}, {"a", 2 * half, resultLearned}, {"b", 2*half + 1, resultLearned}},
			[]step{{"x", 50*time.Minute + half, resultAhead}, {"a", 3 * half, resultLearned}, {"x", 50*time.Minute + 2*half, resultAhead}, {"b", 3*half + 1, resultLearned}}), 3*half + 1, 3},
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

// A proxy whose clock is ahead silences nobody, however far it is ahead and whenever
// it appears.
func TestClockAhead(t *testing.T) {
	for _, skew := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 50 * time.Minute, 20 * hour} {
		for since := range 4 {
			c := newTestCore()
			post := func(name string, at time.Duration) {
				s := snapAt(monday.Add(at))
				s.instance, s.observed, s.forwarded = name, 100, 100
				c.post(s)
			}
			for i := 1; i <= 60; i++ {
				now := time.Duration(i) * 30 * time.Second
				if since == 3 { // it is there before all others
					post("c", now+skew)
				}
				post("a", now)
				post("b", now+time.Second)
				if since < 3 && i > 10*since {
					post("c", now+skew)
				}
			}
			if m := c.now; m.rounds < 50 || m.advice.Sum.Observed < 200 {
				t.Errorf("%s ahead since round %d: the sum is %g after %d rounds", skew, 10*since, m.advice.Sum.Observed, m.rounds)
			}
		}
	}
}

// A false time costs no history: neither one that is absurd nor one that is believed,
// and the forecast begins where the time goes on.
func TestFalseTime(t *testing.T) {
	half := 30 * time.Second
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"absurd", []step{{"", 90_000 * hour, resultAhead}}},
		{"absurd, twice", []step{{"", 90_000 * hour, resultAhead}, {"", 90_000*hour + half, resultLearned}}},
		{"believed", []step{{"", 26 * hour, resultLearned}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			core := newTestCore()
			play(t, core, steady("", half, hour, resultLearned))
			play(t, core, c.steps)
			if last := c.steps[len(c.steps)-1]; last.want == resultLearned {
				if at := core.now.forecastAt(); !at.Equal(monday.Add(last.at)) {
					t.Errorf("the forecast is of %s", at)
				}
				play(t, core, []step{{"", hour + half, resultOld}, {"", hour + 2*half, resultOld}})
			}
			play(t, core, steady("", hour+3*half, 2*hour, resultLearned))
			if age := core.now.future.History().Age(); age != 2*hour {
				t.Errorf("the history is %s long", age)
			}
			got, covered := core.now.future.History().Mean(series.Minute, monday, monday.Add(hour))
			if near(t, "the rate of the first hours", got, day(monday.Add(hour/2)), 0.1); covered < 0.99 {
				t.Errorf("only %g of the first hours are known", covered)
			}
		})
	}
}

// What is set aside is kept in the state file.
func TestParkedIsKept(t *testing.T) {
	a := newTestCore()
	half := 30 * time.Second
	play(t, a, slices.Concat(steady("", half, 15*time.Minute, resultLearned), []step{{"", 9000 * hour, resultAhead}}, steady("", 9000*hour+half, 9000*hour+2*half, resultLearned)))
	a.refits.Wait()
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
