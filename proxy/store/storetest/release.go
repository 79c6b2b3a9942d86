package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// charges are requests that were charged and may be given back later.
type charges []store.Refund

// add adds those of an answer, each counter of the request apart. Places in queues are given back by
// their slots.
func (c *charges) add(counters []store.Counter, ans *store.Answer) {
	for i := range counters {
		if l := counters[i].Limit; ans.Granted > 0 && l.Refunds() && l.Algorithm() != limit.Leaky {
			*c = append(*c, store.Refund{Counter: counters[i], Instant: ans.At})
		}
	}
}

// giveBack gives some of them back in both stores.
func (c *charges) giveBack(t *testing.T, r *rand.Rand, a, b Store) {
	for len(*c) > 0 && r.IntN(3) == 0 {
		i, last := r.IntN(len(*c)), len(*c)-1
		one := (*c)[i]
		(*c)[i] = (*c)[last]
		*c = (*c)[:last]
		if got, want := a.Refund(&one.Counter, one.Instant), b.Refund(&one.Counter, one.Instant); got != want {
			t.Fatalf("%+v: given back %v and %v", one, got, want)
		}
	}
}

// windowBegin is when a window of 10 s begins.
const windowBegin = limittest.Epoch / 10_000_000 * 10_000_000

// An uncharging gives back some of 4 permits that were all charged at windowBegin.
type uncharging struct {
	limit limit.Config
	after time.Duration // from the charge to the release
	cost  int64         // that is given back
	late  time.Duration // how much later than the charge the refund says that it was
	fails bool
	left  int64 // afterwards
}

// unchargings are at the bounds of the time in which permits can be given back.
func unchargings() map[string]uncharging {
	fixed, sliding, token, gcra := four(limit.Fixed), four(limit.Sliding), four(limit.Token), four(limit.GCRA)
	return map[string]uncharging{
		"fixed":                 {limit: fixed, cost: 2, left: 2},
		"fixed, end of window":  {limit: fixed, after: 10*sec - us, cost: 1, left: 1},
		"fixed, next window":    {limit: fixed, after: 10 * sec, cost: 1, fails: true, left: 4},
		"fixed, in the future":  {limit: fixed, cost: 1, late: us, fails: true},
		"fixed, nothing":        {limit: fixed, fails: true},
		"sliding":               {limit: sliding, after: 5 * sec, cost: 1, left: 1},
		"sliding, next window":  {limit: sliding, after: 15 * sec, cost: 2, left: 3}, // 2 by half
		"sliding, window after": {limit: sliding, after: 20 * sec, cost: 1, fails: true, left: 4},
		"token":                 {limit: token, cost: 2, left: 2},
		"token, half regained":  {limit: token, after: 2 * sec, cost: 2, left: 2}, // 1 regained, 1 given back
		"token, regained":       {limit: token, after: 4 * sec, cost: 2, fails: true, left: 2},
		"token, in the future":  {limit: token, cost: 1, late: us, fails: true},
		"gcra":                  {limit: gcra, cost: 3, left: 3},
		"gcra, half regained":   {limit: gcra, after: 2 * sec, cost: 2, left: 2},
		"gcra, regained":        {limit: gcra, after: 4 * sec, cost: 2, fails: true, left: 2},
		"sliding_log": {limit: limit.Config{Algorithm: limit.SlidingLog, Limit: 4, Window: 10}, cost: 1,
			fails: true},
	}
}

// four returns a limit of 4 permits, of which buckets regain one in 2 s.
func four(a limit.Algorithm) limit.Config {
	switch a {
	case limit.Token:
		return limit.Config{Algorithm: a, Capacity: 4, FillRate: 0.5}
	case limit.GCRA:
		return limit.Config{Algorithm: a, Limit: 4, Window: 8, Burst: 4}
	}
	return limit.Config{Algorithm: a, Limit: 4, Window: 10}
}

// uncharge gives charges back, under hard and soft limits.
func uncharge(t *testing.T, open Open) {
	for name, test := range unchargings() {
		for _, l := range []*limit.Limit{limittest.Must(test.limit), limittest.Soft(test.limit, 0.25, 5)} {
			s := open(t)
			s.at(windowBegin)
			c := store.Counter{Rule: "r", Key: []byte("key"), Limit: l, Cost: 1}
			if ans := s.ask(4, c); ans.Granted != 4 || ans.At != windowBegin {
				t.Fatalf("%s: %+v", name, ans)
			}
			s.Advance(test.after)
			c.Cost = test.cost
			if got := s.Refund(&c, windowBegin+test.late.Microseconds()); got == test.fails {
				t.Errorf("%s: given back %v", name, got)
			}
			c.Cost = 0
			if d := s.ask(1, c).Decisions[0]; d.Remaining != test.left {
				t.Errorf("%s: %d left, want %d", name, d.Remaining, test.left)
			}
		}
	}
}

// unchargeOthers gives back what another key, or the key under another limit, was charged.
func unchargeOthers(t *testing.T, s Store) {
	s.at(windowBegin)
	c := store.Counter{Rule: "r", Key: []byte("key"), Cost: 1}
	for _, a := range []limit.Algorithm{limit.Fixed, limit.GCRA, limit.Token} {
		c.Limit = limittest.Must(four(a))
		s.ask(4, c)
	}
	rate, pace, window, key := four(limit.Token), four(limit.GCRA), four(limit.Fixed), c
	rate.FillRate, pace.Limit, window.Window = 0.25, 5, 20
	key.Key = []byte("other")
	others := []store.Counter{key}
	for _, other := range []limit.Config{rate, pace, window} {
		c.Limit = limittest.Must(other)
		others = append(others, c)
	}
	for _, c := range others {
		if s.Refund(&c, windowBegin) {
			t.Errorf("%q, %+v gave back what another was charged", c.Key, c.Limit.Config())
		}
	}
}

// unchargeChanged gives back after the key was kept at another rate meanwhile.
func unchargeChanged(t *testing.T, s Store) {
	s.at(windowBegin)
	slow, fast := four(limit.Token), four(limit.Token)
	fast.FillRate *= 2
	c := store.Counter{Rule: "r", Key: []byte("key"), Limit: limittest.Must(slow), Cost: 1}
	faster := c
	faster.Limit = limittest.Must(fast)
	s.ask(4, c)
	s.ask(1, faster) // refused, and adopts
	s.ask(1, c)
	if s.Refund(&c, windowBegin) || s.Refund(&faster, windowBegin) {
		t.Error("given back though the key was kept at another rate meanwhile")
	}
}

// A sending is a key whose requests are sent or given back.
type sending struct {
	limit    *limit.Limit
	requests []request // that were admitted
	gave     int
}

type request struct {
	at, cost int64
	sent     bool
}

// play asks for requests and gives back some of the latest.
func (k *sending) play(r *rand.Rand, s Store) {
	now := limittest.Epoch + r.Int64N(1e9)
	for range 60 {
		now += [...]int64{0, r.Int64N(10), r.Int64N(400_000), r.Int64N(1_500_000)}[r.IntN(4)]
		s.at(now)
		c := store.Counter{Rule: "r", Key: []byte("key"), Limit: k.limit, Cost: 1 + r.Int64N(min(2, k.limit.Burst()))}
		if r.IntN(3) > 0 || len(k.requests) == 0 {
			if s.ask(1, c).Granted == 1 {
				k.requests = append(k.requests, request{now, c.Cost, true})
			}
			continue
		}
		n := len(k.requests)
		one := &k.requests[n-1-r.IntN(min(3, n))]
		c.Cost = one.cost
		if one.sent && s.Refund(&c, one.at) {
			k.gave++
		}
		one.sent = false
	}
}

// check compares with a key that was asked only for what was sent.
func (k *sending) check(t *testing.T) {
	t.Helper()
	var without limittest.Model
	for _, q := range k.requests {
		if !q.sent {
			continue
		}
		if granted, _ := without.Take(q.at, k.limit, limit.Charge{Cost: q.cost, N: 1}); granted == 0 {
			t.Fatalf("%+v: %+v would not have been admitted among those that were sent", k.limit.Config(), q)
		}
	}
}

// unsent gives back some of what was charged. The rest would have been admitted alone, too. Limits
// are hard, because a soft one depends on when it was exceeded.
func unsent(t *testing.T, open Open) {
	gave := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 4))
		limits := []*limit.Limit{
			limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1 + r.Int64N(9), Window: 2}),
			limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 1 + r.Int64N(9), Window: 2}),
			limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 1 + r.Int64N(9), FillRate: 3.5}),
			limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 5, Window: 2, Burst: 1 + r.Int64N(9)}),
		}
		k := sending{limit: limits[seed%4]}
		k.play(r, open(t))
		k.check(t)
		gave += k.gave
	}
	if gave < 100 {
		t.Errorf("only %d were given back", gave)
	}
}
