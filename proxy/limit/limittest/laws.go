package limittest

import (
	"testing"
	"time"

	"weir/proxy/limit"
)

// Take asks one key, as [limit.Limit.Decide] does.
type Take func(now int64, l *limit.Limit, charge limit.Charge) (granted int64, d limit.Decision)

// one returns an ask for one request.
func one(cost int64) limit.Charge { return limit.Charge{Cost: cost, N: 1} }

// A Subject is an implementation under test.
type Subject struct {
	// Fresh returns a key that was never seen.
	Fresh func() Take
	// Given returns a key that was never seen and a function that gives it permits. It is
	// nil if the implementation cannot give permits.
	Given func() (Take, Add)
	// Forked returns a key that was never seen, and a function that returns a copy of its
	// current state. If Forked is nil, the history is replayed on another key instead.
	Forked func() (take Take, fork func() Take)
	// Parallel runs the laws in parallel, for an implementation that mostly waits.
	Parallel bool
	// Forward means that the implementation reads a clock that never steps back. Histories
	// in which the clock steps back are left out.
	Forward bool
	// Seeds is the number of random histories for each law and limit; 0 means 10.
	Seeds int
}

// Run checks all laws.
func Run(t *testing.T, s Subject) {
	if s.Seeds == 0 {
		s.Seeds = 10
	}
	law := func(name string, check func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			if s.Parallel {
				t.Parallel()
			}
			check(t)
		})
	}
	law("no interval admits more than allowed", s.intervals)
	law("agrees with the model", s.model)
	law("agrees with the model when limits change", s.changes)
	law("refusing changes nothing", s.refusals)
	law("n asks are n single asks", s.singles)
	law("cost 0 changes nothing", s.looks)
	law("RetryAfter is exact", s.retries)
	law("a cost beyond the limit is never ready", s.never)
	law("ResetAfter is exact", s.resets)
	law("Reserve is left", s.reserves)
	law("a queue is in order and at a constant rate", s.queues)
	law("a charge with debt counts in full", s.debts)
	law("debt admits a cost for each request in flight", s.flights)
	if s.Given != nil {
		law("Add takes back a charge with debt", s.restores)
		law("Add agrees with the model", s.adds)
		law("Add admits as many more", s.gains)
	}
	if !s.Forward {
		law("a clock stepping back creates no permits", s.mints)
		law("a clock stepping back delays by one window at most", s.locks)
		law("a clock that was far ahead locks no key", func(t *testing.T) { RunClockStepsBack(t, s.Fresh) })
	}
}

// histories calls check with random histories of every limit.
func (s Subject) histories(t *testing.T, steps int, check func(t *testing.T, h []Step)) {
	s.random(t, steps, false, check)
}

// random is like histories. With debts, some asks of every second history have debt.
func (s Subject) random(t *testing.T, steps int, debts bool, check func(t *testing.T, h []Step)) {
	for _, l := range Limits() {
		for seed := range s.Seeds {
			w := newWalk(uint64(seed), s.Forward, l)
			w.debts = debts && seed%2 == 1
			check(t, w.history(l, steps))
			if t.Failed() {
				t.Fatalf("limit %v, seed %d", l.Config(), seed)
			}
		}
	}
}

func (take Take) replay(h []Step) (answers []Answer) {
	for _, step := range h {
		granted, d := take(step.Now, step.Limit, step.Charge)
		answers = append(answers, Answer{granted, d})
	}
	return answers
}

func (s Subject) model(t *testing.T) {
	s.random(t, 60, true, s.agrees)
}

// changes switches between limits of the same kind and of different kinds. What a key has
// consumed under another kind does not count.
func (s Subject) changes(t *testing.T) {
	s.agrees(t, forgivenWhileHard())
	if !s.Forward {
		s.agrees(t, setBackWithoutDebt())
	}
	for i, limits := range families() {
		for seed := range s.Seeds {
			w := newWalk(uint64(seed), s.Forward, limits...)
			w.debts = seed%2 == 1
			var h []Step
			for range 80 {
				h = append(h, w.step(limits[w.IntN(1+w.IntN(len(limits)))]))
			}
			s.agrees(t, h)
			if t.Failed() {
				t.Fatalf("family %d, seed %d", i, seed)
			}
		}
	}
}

func (s Subject) agrees(t *testing.T, h []Step) {
	var m Model
	got, want := s.Fresh().replay(h), Take(m.Take).replay(h)
	for i := range h {
		if got[i] != want[i] {
			t.Fatalf("step %d, %v:\n got %+v\nwant %+v", i, h[i], got[i], want[i])
		}
		if d := got[i].Decision; d.Remaining > d.Limit {
			t.Fatalf("step %d, %v: %d of %d are left", i, h[i], d.Remaining, d.Limit)
		}
	}
}

// intervals sums what was admitted between any two admissions of a history.
func (s Subject) intervals(t *testing.T) {
	s.histories(t, 100, func(t *testing.T, h []Step) {
		var log []spent
		for i, a := range s.Fresh().replay(h) {
			at := h[i].Now
			if len(log) > 0 {
				at = max(at, log[len(log)-1].at)
			}
			if total := a.Granted * h[i].Cost; total > 0 {
				log = append(log, spent{at, total})
			}
		}
		for i := range log {
			var sum int64
			for j := i; j < len(log); j++ {
				sum += log[j].cost
				if !lawful(h[0].Limit, sum, log[i].at, log[j].at) {
					t.Fatalf("%d admitted from %d to %d µs", sum, log[i].at, log[j].at)
				}
			}
		}
	})
}

// lawful reports whether sum permits may be admitted from one instant to another, both
// included.
func lawful(l *limit.Limit, sum, from, to int64) bool {
	c, window := l.Config(), l.Window().Microseconds()
	overshoot, _ := l.Overshoot()
	most := l.Burst() + overshoot
	switch c.Algorithm {
	case limit.Token:
		return withinRate(c, sum, most, to-from)
	case limit.GCRA, limit.Leaky:
		return withinRate(c, sum, places(c)+overshoot, to-from)
	case limit.SlidingLog:
		return sum <= ((to-from)/window+1)*most
	}
	return sum <= (to/window-from/window+1)*most
}

// withinRate reports whether sum ≤ burst + span·pace/interval.
func withinRate(c limit.Config, sum, burst, span int64) bool {
	most := product(span, pace(c))
	most.Add(most, product(burst, interval(c)))
	return product(sum, interval(c)).Cmp(most) <= 0
}

// refusals repeats a history without its refused asks, and expects the same answers.
func (s Subject) refusals(t *testing.T) {
	s.histories(t, 60, func(t *testing.T, h []Step) {
		var admitted []Step
		var want []limit.Decision
		for i, a := range s.Fresh().replay(h) {
			if a.Granted == h[i].N {
				admitted, want = append(admitted, h[i]), append(want, a.Decision)
			} else if a.Granted > 0 {
				part := h[i]
				part.N = a.Granted
				admitted, want = append(admitted, part), append(want, limit.Decision{})
			}
		}
		for i, a := range s.Fresh().replay(admitted) {
			if a.Granted != admitted[i].N || want[i] != (limit.Decision{}) && a.Decision != want[i] {
				t.Fatalf("%v without the refused asks before:\n got %+v\nwant %+v", admitted[i], a, want[i])
			}
		}
	})
}

func (s Subject) singles(t *testing.T) {
	s.random(t, 60, true, func(t *testing.T, h []Step) {
		single := s.Fresh()
		for i, got := range s.Fresh().replay(h) {
			var want Answer
			for range h[i].N {
				charge := h[i].Charge
				charge.N = 1
				granted, d := single(h[i].Now, h[i].Limit, charge)
				want.Granted += granted
				want.Decision = d
			}
			if got != want {
				t.Fatalf("step %d, %v:\n   got %+v\nsingly %+v", i, h[i], got, want)
			}
		}
	})
}

// looks tests that an ask of cost 0 before every step does not change the answers.
func (s Subject) looks(t *testing.T) {
	s.random(t, 60, true, func(t *testing.T, h []Step) {
		want := s.Fresh().replay(h)
		take := s.Fresh()
		for i, step := range h {
			granted, d := take(step.Now, step.Limit, limit.Charge{N: 3})
			if granted != 3 || !d.Allowed || d.RetryAfter != 0 {
				t.Fatalf("a look before %v was not admitted: %d, %+v", step, granted, d)
			}
			granted, d = take(step.Now, step.Limit, step.Charge)
			if got := (Answer{granted, d}); got != want[i] {
				t.Fatalf("%v after a look:\n got %+v\nwant %+v", step, got, want[i])
			}
		}
	})
}

// forks calls check after each step of a history, with a function that returns a key with
// the same history so far.
func (s Subject) forks(t *testing.T, check func(step Step, a Answer, fork func() Take)) {
	s.random(t, 25, true, func(t *testing.T, h []Step) {
		if s.Forked != nil {
			take, fork := s.Forked()
			for i := range h {
				check(h[i], take.replay(h[i : i+1])[0], fork)
			}
			return
		}
		for i, a := range s.Fresh().replay(h) {
			check(h[i], a, func() Take {
				take := s.Fresh()
				take.replay(h[:i+1])
				return take
			})
		}
	})
}

func (s Subject) retries(t *testing.T) {
	s.forks(t, func(step Step, a Answer, fork func() Take) {
		wait := a.Decision.RetryAfter
		if a.Decision.Allowed || wait == limit.Never {
			if a.Decision.Allowed && wait != 0 {
				t.Errorf("%v: admitted with RetryAfter %v", step, wait)
			}
			return
		}
		ready := step.Now + int64(wait/time.Microsecond)
		step.N = 1
		if overshoot, _ := step.Limit.Overshoot(); step.Debt > 0 && step.Cost > step.Limit.Burst()+overshoot-step.Reserve {
			step.Cost = 0 // it is charged, and never admitted
		}
		if granted, _ := fork()(ready-1, step.Limit, step.Charge); granted != 0 {
			t.Errorf("%v: RetryAfter %v, but admitted a microsecond earlier", step, wait)
		}
		if granted, d := fork()(ready, step.Limit, step.Charge); granted != 1 {
			t.Errorf("%v: RetryAfter %v, but refused then: %+v", step, wait, d)
		}
	})
}
