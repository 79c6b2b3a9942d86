package postgres

import (
	"sync"
	"time"
)

// A clock estimates the offset of the server's clock from this machine's.
//
// Safe for concurrent use: mu guards all.
type clock struct {
	mu     sync.Mutex
	ahead  time.Duration
	within time.Duration // the largest error of ahead
	known  bool
}

// seen notes that the server's clock was at instant, in µs, at some time between sent and
// received. The quickest answer gives the best estimate, whose error bound grows with each
// following answer.
func (c *clock) seen(sent, received time.Time, instant int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	within := received.Sub(sent) / 2
	ahead := time.UnixMicro(instant).Sub(sent.Add(within)).Round(time.Microsecond)
	changed := (ahead - c.ahead).Abs() > within+c.within // one of the clocks was set
	if c.within += c.within/32 + time.Microsecond; c.known && within > c.within && !changed {
		return
	}
	if ahead.Abs() <= within { // the clocks may agree
		ahead = 0
	}
	c.ahead, c.within, c.known = ahead, within, true
}

// there converts a time of this machine to the server's, in µs.
func (c *clock) there(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.Add(c.ahead).UnixMicro()
}

// deadline is there, or 0 while the server's clock is not known.
func (c *clock) deadline(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0
	}
	return t.Add(c.ahead).UnixMicro()
}

// here is the inverse of there; 0 gives the zero time.
func (c *clock) here(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.UnixMicro(us).Add(-c.ahead).UTC()
}
