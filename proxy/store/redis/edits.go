package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

const (
	// editsName counts edits of keys.
	editsName = namespace + "edits"
	// editsBytes bounds how much of the count is read.
	editsBytes = 20
)

// Edits returns the count of edits, followed by the epoch; see appendEpoch.
func (c *client) Edits(ctx context.Context) (string, error) {
	conn, err := c.connected()
	if err != nil {
		return "", err
	}
	name := c.cfg.KeyPrefix + editsName
	count, err := conn.Do(ctx, conn.B().Getrange().Key(name).Start(0).End(editsBytes-1).Build()).ToString()
	if err != nil {
		return "", c.failed(name, err)
	}
	return string(c.appendEpoch(ctx, conn, []byte(count))), nil
}

func (c *client) Forget(ctx context.Context, rule string, key []byte) (bool, error) {
	n, err := c.edit(ctx, rule, key, func(conn rueidis.Client, names []string) (int64, error) {
		c.counts.commands.Inc()
		return conn.Do(ctx, conn.B().Del().Key(names...).Build()).AsInt64()
	})
	return n > 0, err
}

func (c *client) Add(ctx context.Context, rule string, key []byte, n int64) (bool, error) {
	changed, err := c.edit(ctx, rule, key, func(conn rueidis.Client, names []string) (int64, error) {
		return c.runAdd(ctx, conn, names, strconv.FormatInt(min(n, store.ExactMax), 10))
	})
	return changed > 0, err
}

func (c *client) runAdd(ctx context.Context, conn rueidis.Client, names []string, args ...string) (changed int64,
	err error) {
	reply, err := c.run(ctx, conn, &call{script: c.scripts.add, keys: names, args: args})
	if err != nil {
		return 0, err
	}
	changed, err = reply.AsInt64()
	switch {
	case err != nil || changed < -1 || changed > int64(len(names)):
		return 0, errReply
	case changed == -1:
		return 0, errForeign
	}
	return changed, nil
}

// edit changes a key under all its names, and then counts the edit, so that a proxy that sees
// the new count finds the key changed. In a Cluster the two are in different slots, so a
// script cannot do both.
func (c *client) edit(ctx context.Context, rule string, key []byte,
	change func(rueidis.Client, []string) (int64, error)) (n int64, err error) {
	conn, err := c.connected()
	if err != nil {
		return 0, err
	}
	about := c.cfg.KeyPrefix + kindsName
	names, err := c.names(ctx, conn, rule, key)
	if err == nil && len(names) > 0 {
		about = names[0]
		n, err = change(conn, names)
	}
	if err == nil {
		about = c.cfg.KeyPrefix + editsName
		c.counts.commands.Inc()
		err = conn.Do(ctx, conn.B().Incr().Key(about).Build()).Error()
	}
	return n, c.failed(about, err)
}
