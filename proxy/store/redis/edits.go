package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
)

// editsName counts edits of keys. Every client looks at it with the documents, and has
// its lanes forget their refusals when it has changed: see [Client.Watch].
const editsName = "ratelimiter:edits"

// Forget removes a key, so that it is as one never seen, and has all proxies forget
// their refusals, this one at once and others within pollPause. It reports whether
// there was one. It waits for Redis, and is not for loops. The error is that Redis is
// away or does not answer in time; then the key may be forgotten, and refusals may be
// remembered elsewhere: it can be tried again.
func (c *Client) Forget(rule string, key []byte) (bool, error) {
	name := string(appendName(nil, c.cfg.KeyPrefix, rule, key))
	n, err := c.edit(name, func(ctx context.Context, conn rueidis.Client) (int64, error) {
		c.counts.commands.Inc()
		return conn.Do(ctx, conn.B().Del().Key(name).Build()).AsInt64()
	})
	if err != nil {
		return n == 1, fmt.Errorf("forget a key of rule %s: %w", rule, err)
	}
	return n == 1, nil
}

// Add gives a key n permits of limit l more than it has now by the server's clock, at
// most until it is as new, and has all proxies forget their refusals as Forget does.
// It reports whether the key could use some; see [limit.Limit.Add]. The error is that
// of Forget, or that the key holds something else. After one that came in the middle
// the key may have been given them, and is given them again when it is tried again. A
// negative n is a mistake of the caller, and panics.
func (c *Client) Add(rule string, key []byte, l *limit.Limit, n int64) (bool, error) {
	if n < 0 {
		panic("bug: redis: a negative number of permits to add")
	}
	if a := l.Algorithm(); a == limit.Off || a == limit.Leaky || n == 0 {
		return false, nil
	}
	name := string(appendName(nil, c.cfg.KeyPrefix, rule, key))
	add := call{script: c.scripts.add, keys: []string{name}, args: appendAdd(nil, l, n)}
	changed, err := c.edit(name, func(ctx context.Context, _ rueidis.Client) (int64, error) { return c.runAdd(ctx, &add) })
	if err != nil {
		return changed == 1, fmt.Errorf("give to a key of rule %s: %w", rule, err)
	}
	return changed == 1, nil
}

// runAdd runs add.lua.
func (c *Client) runAdd(ctx context.Context, add *call) (changed int64, err error) {
	reply, err := c.run(ctx, add)
	if err != nil {
		return 0, err
	}
	changed, err = reply.AsInt64()
	switch {
	case err != nil || changed < -1 || changed > 1:
		return 0, errReply
	case changed == -1:
		return 0, errForeign
	}
	return changed, nil
}

// edit changes a key and counts the edit after it, so that whoever sees the count, and
// asks again, finds the key changed. In a Cluster the two are in different slots, so
// that no script does both. What was under way meanwhile is not remembered, as its
// epoch is over: see [refusals].
func (c *Client) edit(name string, change func(context.Context, rueidis.Client) (int64, error)) (n int64, err error) {
	loaded := c.conn.Load()
	if loaded == nil || c.breaker.away.Load() {
		return 0, errAway
	}
	conn := *loaded
	ctx, cancel := c.within()
	defer cancel()
	sent := time.Now()
	if n, err = change(ctx, conn); err == nil {
		name = c.cfg.KeyPrefix + editsName
		c.counts.commands.Inc()
		err = conn.Do(ctx, conn.B().Incr().Key(name).Build()).Error()
	}
	c.judge(sent, name, err)
	c.Forgetful()
	return n, err
}
