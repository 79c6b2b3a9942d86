package postgres

import (
	"sync"
	"time"
)

// A clock knows by how much the server's clock is ahead of this machine's.
//
// Safe for concurrent use: mu guards all.
type clock struct {
	mu     sync.Mutex
	ahead  time.Duration
	within time.Duration // how far ahead may be wrong
	known  bool
}

// seen notes that the server's clock was at instant, in µs, at some time between sent and
// received. The quickest answer tells most, and is believed less with each that follows.
func (c *clock) seen(sent, received time.Time, instant int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	within := received.Sub(sent) / 2
	ahead := time.UnixMicro(instant).Sub(sent.Add(within)).Round(time.Microsecond)
	changed := (ahead - c.ahead).Abs() > within+c.within // one of the clocks was set
	if c.within += c.within/32 + time.Microsecond; c.known && within > c.within && !changed {
		return
	}
	if ahead.Abs() <= within { // they may be the same
		ahead = 0
	}
	c.ahead, c.within, c.known = ahead, within, true
}

// there is a time of this machine on the server, in µs.
func (c *clock) there(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.Add(c.ahead).UnixMicro()
}

// deadline is there, or 0 as long as the server's clock is not known.
func (c *clock) deadline(t time.Time) int64 {
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if !known {
		return 0
	}
	return c.there(t)
}

// here is the inverse of there; zero for 0.
func (c *clock) here(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.UnixMicro(us).Add(-c.ahead).UTC()
}
