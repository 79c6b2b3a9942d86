package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// A Store is a store under test with a clock that the test advances.
type Store struct {
	// Take decides an ask at Now. It is safe for concurrent use.
	Take func(ask *store.Ask, ans *store.Answer)
	// Refund gives back what was charged at an instant, or a place in a queue, and reports whether
	// it did.
	Refund func(c *store.Counter, instant int64) bool
	// Add gives a key n permits at Now under all kinds of limits, and reports whether it could use
	// any.
	Add func(rule string, key []byte, n int64) bool
	// Forget removes a key under all kinds of limits.
	Forget func(rule string, key []byte)
	// Now is the store's clock, in whole microseconds.
	Now func() time.Time
	// Advance advances the clock.
	Advance func(d time.Duration)
	// Copy returns a store with the same content and a separate clock that shows the same time. It
	// is nil if repeating the asks is no more difficult. If there is one, the laws are tested in
	// parallel.
	Copy func() Store
}

// Open returns an empty store with a separate clock that shows a time not later than
// [limittest.Epoch]. It is called several thousand times.
type Open func(t testing.TB) Store

// at advances the store's clock to now.
func (s Store) at(now int64) {
	s.Advance(time.UnixMicro(now).Sub(s.Now()))
}

// ask calls Take and returns a new answer.
func (s Store) ask(n int, counters ...store.Counter) store.Answer {
	var ans store.Answer
	s.Take(&store.Ask{Counters: counters, N: n}, &ans)
	return ans
}

// A Clock is advanced by hand, for stores to which the time is passed.
//
// Safe for concurrent use: it holds a lock.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows limittest.Epoch.
func NewClock() *Clock { return &Clock{now: time.UnixMicro(limittest.Epoch)} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance advances the clock, or turns it back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A Table is a store to which the time is passed, such as the simulated Redis.
type Table interface {
	Take(now time.Time, ask *store.Ask, ans *store.Answer)
	Refund(now time.Time, c *store.Counter, instant int64) bool
	Add(now time.Time, rule string, key []byte, n int64) bool
	Forget(rule string, key []byte) bool
}

// Timed returns a Store that passes the time of a new Clock to a table.
func Timed(table Table) Store {
	clock := NewClock()
	return Store{
		Take:    func(ask *store.Ask, ans *store.Answer) { table.Take(clock.Now(), ask, ans) },
		Refund:  func(c *store.Counter, instant int64) bool { return table.Refund(clock.Now(), c, instant) },
		Add:     func(rule string, key []byte, n int64) bool { return table.Add(clock.Now(), rule, key, n) },
		Forget:  func(rule string, key []byte) { table.Forget(rule, key) },
		Now:     clock.Now,
		Advance: clock.Advance,
	}
}

// Naive opens the store that others are compared with: a model for each key, which decides
// requests one by one. It gives nothing back.
func Naive(testing.TB) Store {
	clock := NewClock()
	n := naive{keys: map[string]*limittest.Model{}}
	return Store{
		Take: func(ask *store.Ask, ans *store.Answer) { n.take(clock.Now().UnixMicro(), ask, ans) },
		Add: func(rule string, key []byte, permits int64) bool {
			return n.add(clock.Now().UnixMicro(), rule, key, permits)
		},
		Forget:  n.forget,
		Now:     clock.Now,
		Advance: clock.Advance,
	}
}

// Safe for concurrent use: it holds a lock.
type naive struct {
	mu   sync.Mutex
	keys map[string]*limittest.Model
}

func (s *naive) take(now int64, ask *store.Ask, ans *store.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*ans = store.Answer{}
	for _, c := range ask.Counters {
		if c.Limit.Algorithm() != limit.Off {
			ans.At = now
		}
	}
	for range ask.N {
		if s.one(now, ask.Counters, ans) {
			ans.Granted++
		}
	}
	ans.Tightest = store.Tightest(ask.Counters, ans.Decisions)
}

// model returns the model of a key.
func (s *naive) model(rule string, key []byte) *limittest.Model {
	name := nameOf(rule, key)
	if s.keys[name] == nil {
		s.keys[name] = new(limittest.Model)
	}
	return s.keys[name]
}

func nameOf(rule string, key []byte) string { return fmt.Sprintf("%q %q", rule, key) }

func (s *naive) add(now int64, rule string, key []byte, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model(rule, key).Add(now, n)
}

func (s *naive) forget(rule string, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, nameOf(rule, key))
}

// one decides about one request.
func (s *naive) one(now int64, counters []store.Counter, ans *store.Answer) (allowed bool) {
	models := make([]*limittest.Model, len(counters))
	admits := make([]bool, len(counters))
	allowed = true
	for i, c := range counters {
		models[i] = s.model(c.Rule, c.Key)
		admits[i] = models[i].Admits(now, c.Limit, c.Charge(1))
		allowed = allowed && admits[i]
	}
	ans.Decisions = make([]limit.Decision, len(counters))
	for i, c := range counters {
		one := c.Charge(1)
		if !allowed && admits[i] && c.Debt == 0 {
			one.Cost = 0 // changes nothing
		}
		_, ans.Decisions[i] = models[i].Take(now, c.Limit, one)
	}
	return allowed
}
