package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// editsName counts edits of keys. Every client looks at it every pollPause, and has its
// lanes forget their refusals when it has changed.
const editsName = namespace + "edits"

// Forget removes a key under all kinds of limits, so that it is as one never seen, and
// has all proxies forget their refusals, this one at once and others within pollPause.
// It reports whether there was one. It waits for Redis, and is not for loops. The error
// is that Redis is away or does not answer in time; then the key may be forgotten, and
// refusals may be remembered elsewhere: it can be tried again.
func (c *Client) Forget(rule string, key []byte) (bool, error) {
	n, err := c.edit(rule, key, func(ctx context.Context, conn rueidis.Client, names []string) (int64, error) {
		c.counts.commands.Inc()
		return conn.Do(ctx, conn.B().Del().Key(names...).Build()).AsInt64()
	})
	if err != nil {
		return n > 0, fmt.Errorf("forget a key of rule %s: %w", rule, err)
	}
	return n > 0, nil
}

// Add gives a key n permits more than it has now by the server's clock, under every
// kind of limits and at most until it is as new, and has all proxies forget their
// refusals as Forget does. It reports whether the key could use some; see
// [limit.State.Add]. The error is that of Forget, or that the key holds something else.
// After one that came in the middle the key may have been given them, and is given them
// again when it is tried again. A negative n is a mistake of the caller, and panics.
func (c *Client) Add(rule string, key []byte, n int64) (bool, error) {
	if n < 0 {
		panic("bug: redis: a negative number of permits to add")
	}
	if n == 0 {
		return false, nil
	}
	changed, err := c.edit(rule, key, func(ctx context.Context, _ rueidis.Client, names []string) (int64, error) {
		return c.runAdd(ctx, c.addCall(names, n))
	})
	if err != nil {
		return changed > 0, fmt.Errorf("give to a key of rule %s: %w", rule, err)
	}
	return changed > 0, nil
}

func (c *Client) addCall(names []string, n int64) *call {
	return &call{script: c.scripts.add, keys: names, args: []string{strconv.FormatInt(min(n, exactMax), 10)}}
}

// runAdd runs add.lua.
func (c *Client) runAdd(ctx context.Context, add *call) (changed int64, err error) {
	reply, err := c.run(ctx, add)
	if err != nil {
		return 0, err
	}
	changed, err = reply.AsInt64()
	switch {
	case err != nil || changed < -1 || changed > int64(len(add.keys)):
		return 0, errReply
	case changed == -1:
		return 0, errForeign
	}
	return changed, nil
}

// edit changes a key by all its names and counts the edit after it, so that whoever
// sees the count, and asks again, finds the key changed. In a Cluster the two are in
// different slots, so that no script does both. What was under way meanwhile is not
// remembered, as its epoch is over: see [refusals].
func (c *Client) edit(rule string, key []byte, change func(context.Context, rueidis.Client, []string) (int64, error)) (n int64, err error) {
	loaded := c.conn.Load()
	if loaded == nil || c.breaker.away.Load() {
		return 0, errAway
	}
	conn := *loaded
	ctx, cancel := c.within()
	defer cancel()
	sent, about := time.Now(), c.cfg.KeyPrefix+kindsName
	names, err := c.names(ctx, conn, rule, key)
	if err == nil && len(names) > 0 {
		about = names[0]
		n, err = change(ctx, conn, names)
	}
	if err == nil {
		about = c.cfg.KeyPrefix + editsName
		c.counts.commands.Inc()
		err = conn.Do(ctx, conn.B().Incr().Key(about).Build()).Error()
	}
	c.judge(sent, about, err)
	c.Forgetful()
	return n, err
}
