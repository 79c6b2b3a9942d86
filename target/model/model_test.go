package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"weir/internal/data/strict"
	"weir/internal/test/testkit"
)

const ms = time.Millisecond

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// newModel makes a model with the chance of a seed.
func newModel(t testing.TB, cfg Config, seed uint64) *Model[int] {
	t.Helper()
	return testkit.Must(New[int](epoch, cfg, rand.New(rand.NewPCG(seed, 0))))(t)
}

// A step is one call at a time after the epoch, and what it must say.
type step struct {
	at     time.Duration
	arrive int     // the request that arrives; 0: none
	cancel int     // the request whose client goes away; 0: none
	change *Config // the new behaviour; nil: none
	want   string  // outcome of the arrival, then what Expire tells: "who outcome@end wait"
	busy   int
	queue  int
}

// play runs the steps and compares what is said after each.
func play(t *testing.T, cfg Config, steps []step) {
	t.Helper()
	m := newModel(t, cfg, 1)
	handles := map[int]Handle[int]{}
	for n, s := range steps {
		now := epoch.Add(s.at)
		said := ""
		switch {
		case s.arrive != 0:
			handle, outcome := m.Arrive(now, s.arrive)
			handles[s.arrive] = handle
			said = outcome.String()
		case s.cancel != 0:
			said = fmt.Sprint(m.Cancel(handles[s.cancel]))
		case s.change != nil:
			if err := m.Change(now, *s.change); err != nil {
				t.Fatalf("step %d: change: %v", n, err)
			}
		}
		for _, d := range m.Expire(now, nil) {
			if said != "" {
				said += ", "
			}
			said += fmt.Sprintf("%d %s@%v %v", d.Who, d.Outcome, d.At.Sub(epoch), d.Wait)
		}
		if said != s.want {
			t.Errorf("step %d at %v: said %q, want %q", n, s.at, said, s.want)
		}
		if m.Busy() != s.busy || m.Waiting() != s.queue {
			t.Errorf("step %d at %v: %d busy and %d waiting, want %d and %d", n, s.at, m.Busy(), m.Waiting(), s.busy, s.queue)
		}
	}
}

// service is a constant one with the given capacity.
func service(workers, queue int, delay, patience time.Duration) Config {
	return Config{Delay: delay, Workers: workers, Queue: queue, QueueTimeout: patience}
}

func TestImmediate(t *testing.T) {
	play(t, Default(), []step{
		{at: 0, arrive: 1, want: "served"},
		{at: 0, arrive: 2, want: "served"},
	})
	play(t, Config{QueueTimeout: 1 * ms, ErrorRate: 1}, []step{
		{at: 0, arrive: 1, want: "failed"},
	})
	play(t, service(1, 0, 0, 1*ms), []step{ // no time is taken, so one worker is enough
		{at: 0, arrive: 1, want: "served"},
		{at: 0, arrive: 2, want: "served"},
	})
}

func TestQueueIsServedInOrder(t *testing.T) {
	play(t, service(1, 9, 10*ms, 100*ms), []step{
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 1 * ms, arrive: 2, want: "queued", busy: 1, queue: 1},
		{at: 2 * ms, arrive: 3, want: "queued", busy: 1, queue: 2},
		{at: 10*ms - 1, want: "", busy: 1, queue: 2},
		{at: 10 * ms, want: "1 served@10ms 0s", busy: 1, queue: 1},
		{at: 20 * ms, want: "2 served@20ms 9ms", busy: 1},
		{at: 30 * ms, want: "3 served@30ms 18ms"},
	})
}

// A late look finds what happened at the times when it happened.
func TestLateLookChangesNothing(t *testing.T) {
	play(t, service(1, 9, 10*ms, 15*ms), []step{
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 0, arrive: 2, want: "queued", busy: 1, queue: 1},
		{at: 0, arrive: 3, want: "queued", busy: 1, queue: 2},
		{at: 500 * ms, want: "1 served@10ms 0s, 3 timed out@15ms 15ms, 2 served@20ms 10ms"},
	})
	play(t, service(1, 9, 10*ms, 15*ms), []step{ // the same when an arrival is the late look
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 0, arrive: 2, want: "queued", busy: 1, queue: 1},
		{at: 500 * ms, arrive: 3, want: "started, 1 served@10ms 0s, 2 served@20ms 10ms", busy: 1},
	})
}

func TestQueueBound(t *testing.T) {
	play(t, service(2, 2, 10*ms, 100*ms), []step{
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 0, arrive: 2, want: "started", busy: 2},
		{at: 0, arrive: 3, want: "queued", busy: 2, queue: 1},
		{at: 0, arrive: 4, want: "queued", busy: 2, queue: 2},  // at the bound
		{at: 0, arrive: 5, want: "refused", busy: 2, queue: 2}, // one beyond
		{at: 10 * ms, arrive: 6, want: "queued, 1 served@10ms 0s, 2 served@10ms 0s", busy: 2, queue: 1},
	})
	play(t, service(1, 0, 10*ms, 100*ms), []step{ // no places at all
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 0, arrive: 2, want: "refused", busy: 1},
		{at: 10 * ms, arrive: 3, want: "started, 1 served@10ms 0s", busy: 1},
	})
}

func TestQueueTimeout(t *testing.T) {
	play(t, service(1, 9, 100*ms, 30*ms), []step{
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 5 * ms, arrive: 2, want: "queued", busy: 1, queue: 1},
		{at: 6 * ms, arrive: 3, want: "queued", busy: 1, queue: 2},
		{at: 35*ms - 1, want: "", busy: 1, queue: 2},
		{at: 35 * ms, want: "2 timed out@35ms 30ms", busy: 1, queue: 1},
		{at: 36 * ms, want: "3 timed out@36ms 30ms", busy: 1},
	})
	play(t, service(1, 9, 30*ms, 30*ms), []step{ // a worker free at the last moment is in time
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 0, arrive: 2, want: "queued", busy: 1, queue: 1},
		{at: 30 * ms, want: "1 served@30ms 0s", busy: 1},
		{at: 60 * ms, want: "2 served@60ms 30ms"},
	})
}

func TestCancel(t *testing.T) {
	play(t, service(1, 2, 10*ms, 100*ms), []step{
		{at: 0, arrive: 1, want: "started", busy: 1},
		{at: 0, arrive: 2, want: "queued", busy: 1, queue: 1},
		{at: 0, arrive: 3, want: "queued", busy: 1, queue: 2},
		{at: 0, cancel: 2, want: "true", busy: 1, queue: 1}, // gives the place back
		{at: 0, cancel: 2, want: "false", busy: 1, queue: 1},
		{at: 0, arrive: 4, want: "queued", busy: 1, queue: 2},
		{at: 5 * ms, cancel: 1, want: "true", busy: 1, queue: 2}, // the worker goes on to the end
		{at: 5 * ms, cancel: 1, want: "false", busy: 1, queue: 2},
		{at: 10 * ms, want: "", busy: 1, queue: 1},
		{at: 15 * ms, cancel: 4, want: "true", busy: 1}, // the last of the queue
		{at: 20 * ms, want: "3 served@20ms 10ms"},
		{at: 20 * ms, cancel: 3, want: "false"},
		{at: 20 * ms, arrive: 5, want: "started", busy: 1}, // in the place of an earlier one
		{at: 20 * ms, cancel: 3, want: "false", busy: 1},
		{at: 30 * ms, want: "5 served@30ms 0s"},
	})
	if newModel(t, Default(), 1).Cancel(Handle[int]{}) {
		t.Error("the zero handle identifies a request")
	}
}

func TestTimeStepsBack(t *testing.T) {
	play(t, service(1, 9, 10*ms, 100*ms), []step{
		{at: 5 * ms, arrive: 1, want: "started", busy: 1},
		{at: 2 * ms, arrive: 2, want: "queued", busy: 1, queue: 1},
		{at: 15 * ms, want: "1 served@15ms 0s", busy: 1},
		{at: 25 * ms, want: "2 served@25ms 10ms"},
	})
}

func TestChange(t *testing.T) {
	cfg := func(c Config) *Config { return &c }
	start := service(1, 3, 10*ms, 100*ms)
	crowd := func(more ...step) []step {
		return append([]step{
			{at: 0, arrive: 1, want: "started", busy: 1},
			{at: 0, arrive: 2, want: "queued", busy: 1, queue: 1},
			{at: 0, arrive: 3, want: "queued", busy: 1, queue: 2},
			{at: 0, arrive: 4, want: "queued", busy: 1, queue: 3},
		}, more...)
	}
	t.Run("more workers take from the queue at once", func(t *testing.T) {
		play(t, start, crowd(
			step{at: 5 * ms, change: cfg(service(3, 3, 10*ms, 100*ms)), busy: 3, queue: 1},
			step{at: 10 * ms, want: "1 served@10ms 0s", busy: 3},
			step{at: 20 * ms, want: "2 served@15ms 5ms, 3 served@15ms 5ms, 4 served@20ms 10ms"},
		))
	})
	t.Run("any number of workers empties the queue", func(t *testing.T) {
		play(t, start, crowd(
			step{at: 5 * ms, change: cfg(service(0, 0, 10*ms, 100*ms)), busy: 4},
			step{at: 5 * ms, arrive: 5, want: "started", busy: 5},
		))
	})
	t.Run("fewer workers let the running ones finish", func(t *testing.T) {
		play(t, service(3, 3, 10*ms, 100*ms), []step{
			{at: 0, arrive: 1, want: "started", busy: 1},
			{at: 1 * ms, arrive: 2, want: "started", busy: 2},
			{at: 2 * ms, arrive: 3, want: "started", busy: 3},
			{at: 3 * ms, arrive: 4, want: "queued", busy: 3, queue: 1},
			{at: 4 * ms, change: cfg(service(1, 3, 10*ms, 100*ms)), busy: 3, queue: 1},
			{at: 10 * ms, want: "1 served@10ms 0s", busy: 2, queue: 1}, // nobody follows
			{at: 11 * ms, want: "2 served@11ms 0s", busy: 1, queue: 1},
			{at: 12 * ms, want: "3 served@12ms 0s", busy: 1},
			{at: 22 * ms, want: "4 served@22ms 9ms"},
		})
	})
	t.Run("a new delay holds for who starts later", func(t *testing.T) {
		play(t, start, crowd(
			step{at: 5 * ms, change: cfg(service(1, 3, 1*ms, 100*ms)), busy: 1, queue: 3},
			step{at: 13 * ms, want: "1 served@10ms 0s, 2 served@11ms 10ms, 3 served@12ms 11ms, 4 served@13ms 12ms"},
		))
	})
	t.Run("no delay serves the queue with the first free worker", func(t *testing.T) {
		play(t, start, crowd(
			step{at: 5 * ms, change: cfg(service(1, 3, 0, 100*ms)), busy: 1, queue: 3},
			step{at: 10 * ms, want: "1 served@10ms 0s, 2 served@10ms 10ms, 3 served@10ms 10ms, 4 served@10ms 10ms"},
		))
	})
	t.Run("less patience gives up who has waited longer", func(t *testing.T) {
		play(t, start, crowd(
			step{at: 5 * ms, change: cfg(service(1, 3, 10*ms, 2*ms)), busy: 1,
				want: "2 timed out@5ms 5ms, 3 timed out@5ms 5ms, 4 timed out@5ms 5ms"},
			step{at: 10 * ms, want: "1 served@10ms 0s"},
		))
	})
	t.Run("fewer places refuse newcomers and keep who waits", func(t *testing.T) {
		play(t, start, crowd(
			step{at: 5 * ms, change: cfg(service(1, 1, 10*ms, 100*ms)), busy: 1, queue: 3},
			step{at: 5 * ms, arrive: 5, want: "refused", busy: 1, queue: 3},
		))
	})
	t.Run("zero service time after more workers ends the queue at once", func(t *testing.T) {
		play(t, start, crowd(
			step{at: 5 * ms, change: cfg(service(2, 3, 0, 100*ms)), busy: 1,
				want: "2 served@5ms 5ms, 3 served@5ms 5ms, 4 served@5ms 5ms"},
		))
	})
}

func TestChangeRefusesNonsense(t *testing.T) {
	m := newModel(t, Default(), 1)
	err := m.Change(epoch, Config{Delay: -1, QueueTimeout: 1 * ms})
	var faults strict.Faults
	if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Path != "delay" {
		t.Errorf("change said %v", err)
	}
	if m.Config() != Default() {
		t.Errorf("a refused change left %+v", m.Config())
	}
	if _, err := New[int](epoch, Config{}, nil); err == nil {
		t.Error("New took a zero Config")
	}
}

func TestNext(t *testing.T) {
	m := newModel(t, service(1, 9, 10*ms, 4*ms), 1)
	want := func(at time.Duration, ok bool) {
		t.Helper()
		next, is := m.Next()
		if is != ok || ok && next.Sub(epoch) != at {
			t.Errorf("next is %v %v, want %v %v", next.Sub(epoch), is, at, ok)
		}
	}
	want(0, false)
	m.Arrive(epoch, 1)
	want(10*ms, true) // the end of the service
	m.Arrive(epoch.Add(1*ms), 2)
	want(5*ms, true) // the end of the patience
	m.Arrive(epoch.Add(6*ms), 3)
	want(6*ms, true) // somebody has ended and was not told
	m.Expire(epoch.Add(6*ms), nil)
	want(10*ms, true)
	m.Expire(epoch.Add(20*ms), nil)
	want(0, false)
}

func TestOutcomeWords(t *testing.T) {
	for o, want := range []string{"started", "queued", "served", "failed", "refused", "timed out"} {
		if got := Outcome(o).String(); got != want {
			t.Errorf("outcome %d is called %q, want %q", o, got, want)
		}
		if final := o >= 2; Outcome(o).Final() != final {
			t.Errorf("%s final: %v, want %v", want, !final, final)
		}
	}
}
