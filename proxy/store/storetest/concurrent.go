package storetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

const (
	askers = 16
	rounds = 200
)

// asks runs ask many times in many goroutines and waits for them.
func asks(ask func(asker, round int)) {
	var wg sync.WaitGroup
	for asker := range askers {
		wg.Go(func() {
			for round := range rounds {
				ask(asker, round)
			}
		})
	}
	wg.Wait()
}

// hotKey tests one key with many goroutines: exactly the limit is admitted, for each algorithm.
func hotKey(t *testing.T, s Store) {
	s.at(limittest.Epoch)
	for _, c := range []limit.Config{
		{Algorithm: limit.Fixed, Limit: 1000, Window: 60},
		{Algorithm: limit.Sliding, Limit: 1000, Window: 60},
		{Algorithm: limit.Token, Capacity: 1000, FillRate: 1},
		{Algorithm: limit.SlidingLog, Limit: 1000, Window: 60},
		{Algorithm: limit.GCRA, Limit: 1000, Window: 60, Burst: 1000},
		{Algorithm: limit.Leaky, Capacity: 999, FillRate: 1},
	} {
		l := limittest.Must(c)
		var admitted atomic.Int64
		asks(func(asker, round int) {
			ans := s.ask(1+asker%3, store.Counter{Rule: c.Algorithm.String(), Key: []byte("hot"), Limit: l, Cost: 1})
			admitted.Add(int64(ans.Granted))
		})
		want := int64(1000)
		if admitted.Load() != want {
			t.Errorf("%v: %d admitted", c, admitted.Load())
		}
	}
}

// overlap tests groups that share counters, named in different orders, with many goroutines: each
// counter is charged for exactly the groups that were granted.
func overlap(t *testing.T, s Store) {
	s.at(limittest.Epoch)
	l := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1000, Window: 60})
	rules := []string{"a", "b", "c", "d"}
	counter := func(rule int) store.Counter {
		return store.Counter{Rule: rules[rule], Limit: l, Cost: int64(1 + rule)}
	}
	var charged [4]atomic.Int64
	asks(func(asker, round int) {
		first, second := (asker+round)%4, (asker+2*round+1)%4
		if first == second {
			return
		}
		ans := s.ask(2, counter(first), counter(second))
		for _, rule := range []int{first, second} {
			charged[rule].Add(int64(ans.Granted) * counter(rule).Cost)
		}
	})
	for rule := range rules {
		look := counter(rule)
		look.Cost = 0
		if left := s.ask(1, look).Decisions[0].Remaining; left != l.Permits()-charged[rule].Load() {
			t.Errorf("rule %s: %d charged, %d of %d left", rules[rule], charged[rule].Load(), left, l.Permits())
		}
	}
}
