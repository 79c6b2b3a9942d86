package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// A step is an ask at a given time, optionally followed by an edit of its first key.
type step struct {
	now  int64 // µs since the epoch
	ask  store.Ask
	edit bool
	add  int64 // permits to add; 0: the key is forgotten
}

func (s step) String() string {
	text := fmt.Sprintf("at %d: %d ×", s.now, s.ask.N)
	for _, c := range s.ask.Counters {
		text += fmt.Sprintf(" [%s %q %+v of %+v]", c.Rule, c.Key, c.Charge(1), c.Limit.Config())
	}
	return text
}

// Differential runs the same random histories, one for each seed below seeds, against two stores
// and compares the answers. A history has groups of 1 to 8 counters over a few keys, and limits of
// all algorithms that change occasionally. In between, keys are given permits or forgotten, and if
// both stores can, booked places and charges are given back.
func Differential(t *testing.T, openA, openB Open, seeds uint64) {
	for seed := range seeds {
		a, b := openA(t), openB(t)
		var charged charges
		r := rand.New(rand.NewPCG(seed, 3))
		for i, step := range history(seed, 100) {
			a.at(step.now)
			b.at(step.now)
			got := a.ask(step.ask.N, step.ask.Counters...)
			want := b.ask(step.ask.N, step.ask.Counters...)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, step %d, %v:\n got %+v\nwant %+v", seed, i, step, got, want)
			}
			if a.Refund != nil && b.Refund != nil && i%2 == 0 {
				step.giveBack(t, a, b, want.Decisions)
			}
			if a.Refund != nil && b.Refund != nil {
				charged.add(step.ask.Counters, &want)
				charged.giveBack(t, r, a, b)
			}
			if step.edit {
				edit(t, a, b, step)
			}
		}
	}
}

// edit gives permits to the first key of a step in both stores, or forgets it.
func edit(t *testing.T, a, b Store, s step) {
	c := &s.ask.Counters[0]
	if s.add == 0 {
		a.Forget(c.Rule, c.Key)
		b.Forget(c.Rule, c.Key)
		return
	}
	got, want := a.Add(c.Rule, c.Key, s.add), b.Add(c.Rule, c.Key, s.add)
	if got != want {
		t.Fatalf("%v, then %d given to the first key: %v and %v", s, s.add, got, want)
	}
}

// giveBack gives back the place booked last of each counter of a step, in both stores.
func (s step) giveBack(t *testing.T, a, b Store, decisions []limit.Decision) {
	counters := s.ask.Counters
	for i, d := range decisions {
		if d.Slot == 0 {
			continue
		}
		if got, want := a.Refund(&counters[i], d.Slot), b.Refund(&counters[i], d.Slot); got != want || !want {
			t.Fatalf("the last place of %+v, %+v: given back %v and %v", counters[i], d, got, want)
		}
	}
}

// history returns a random history over a few rules with a few keys each.
func history(seed uint64, steps int) (h []step) {
	r := rand.New(rand.NewPCG(seed, 2))
	limits := append(limittest.Limits(), limittest.Must(limit.Config{Algorithm: limit.Off}))
	rules := make([]*limit.Limit, store.CountersMax+2)
	for i := range rules {
		rules[i] = limits[r.IntN(len(limits))]
	}
	now := limittest.Epoch + r.Int64N(1e12)
	for range steps {
		now += pause(r)
		if r.IntN(10) == 0 {
			rules[r.IntN(len(rules))] = limits[r.IntN(len(limits))]
		}
		ask := store.Ask{N: 1 + r.IntN(4)}
		for _, rule := range r.Perm(len(rules))[:1+r.IntN(1+r.IntN(store.CountersMax))] {
			ask.Counters = append(ask.Counters, counter(r, rule, rules[rule]))
		}
		next := step{now: now, ask: ask, edit: r.IntN(3) == 0}
		if r.IntN(4) > 0 {
			next.add = limittest.RandomAdd(r, ask.Counters[0].Limit)
		}
		h = append(h, next)
	}
	return h
}

// pause returns the time until the next ask in µs: often zero, sometimes long enough for keys to
// expire.
func pause(r *rand.Rand) int64 {
	switch r.IntN(8) {
	case 0:
		return r.Int64N(10)
	case 1:
		return r.Int64N(1_000_000)
	case 2:
		return r.Int64N(20_000_000)
	case 3:
		return r.Int64N(300_000_000_000)
	}
	return 0
}

// counter returns a counter of a rule, sometimes with conditions. Its cost is usually small, and
// sometimes larger than the limit.
func counter(r *rand.Rand, rule int, l *limit.Limit) store.Counter {
	c := store.Counter{
		Rule:  fmt.Sprintf("rule-%d", rule),
		Key:   fmt.Appendf(nil, "key-%d", r.IntN(2)),
		Limit: l,
		Cost:  min(r.Int64N(3), l.Burst()),
	}
	if r.IntN(10) == 0 {
		c.Cost = r.Int64N(l.Burst() + 2)
	}
	switch r.IntN(8) {
	case 0:
		c.Reserve = l.Reserve(r.Int64N(700))
	case 1:
		c.MaxDelay = time.Duration(r.Int64N(2_000_000)) * time.Microsecond
	case 2:
		c.Debt = l.Debt(r.Int64N(3))
	}
	return c
}
