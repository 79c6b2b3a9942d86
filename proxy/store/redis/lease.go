package redis

import (
	"fmt"
	"strconv"
	"time"
)

// Lease takes the lease called name for owner, a word that nobody else has, or
// keeps it: it lasts ttl from when the server was asked, so that the holder counts
// from before the call. It reports whether owner holds it; at any time at most one
// does, unless the server loses it. It waits for Redis, and is not for loops. The
// error is that Redis is away or does not answer in time, and then it is unknown.
func (c *Client) Lease(name, owner string, ttl time.Duration) (held bool, err error) {
	if ttl < time.Millisecond {
		panic("bug: redis: a lease of less than a millisecond")
	}
	return c.lease(name, owner, ttl)
}

// Release gives the lease back, if owner holds it.
func (c *Client) Release(name, owner string) error {
	_, err := c.lease(name, owner, 0)
	return err
}

func (c *Client) lease(name, owner string, ttl time.Duration) (bool, error) {
	reply, err := c.do(&call{script: c.scripts.lease, keys: []string{c.cfg.KeyPrefix + name},
		args: []string{owner, strconv.FormatInt(ttl.Milliseconds(), 10)}})
	if err != nil {
		return false, fmt.Errorf("hold lease %s: %w", name, err)
	}
	held, err := reply.AsInt64()
	if err != nil {
		return false, fmt.Errorf("hold lease %s: %w", name, errReply)
	}
	return held == 1, nil
}
