package protect

import (
	"math"
	"time"
)

// hitTime is how long a target takes to answer from its cache.
const hitTime = time.Millisecond

// A cache holds all keys until it is flushed, which is when the bad phase begins. An answer adds its
// key when it is complete; until then, other requests for it also need a worker.
type cache struct {
	flushed time.Duration
	filled  map[int]time.Duration // when keys were added after the flush
}

// newCache returns the cache of the target; nil if it has none.
func (s *Scenario) newCache() *cache {
	if s.Keys == 0 {
		return nil
	}
	flushed, _, _ := s.bad()
	return &cache{flushed, make(map[int]time.Duration)}
}

func (c *cache) has(key int, at time.Duration) bool {
	filled, ok := c.filled[key]
	return at < c.flushed || ok && filled <= at
}

// fill adds a key at an instant.
func (c *cache) fill(key int, at time.Duration) {
	if before, ok := c.filled[key]; at >= c.flushed && (!ok || at < before) {
		c.filled[key] = at
	}
}

// key returns the key for a number that is drawn evenly from 0 to 1. Keys count from 1. They follow
// Zipf's law: the share of key k is log(1+1/k) ÷ log(1+Keys), nearly in proportion to 1/k.
func (s *Scenario) key(drawn float64) int {
	return min(int(math.Pow(float64(1+s.Keys), drawn)), s.Keys)
}
