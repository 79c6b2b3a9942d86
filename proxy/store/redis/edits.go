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
func (be *backend) Edits(ctx context.Context) (string, error) {
	conn, err := be.connected()
	if err != nil {
		return "", err
	}
	name := be.cfg.KeyPrefix + editsName
	count, err := conn.Do(ctx, conn.B().Getrange().Key(name).Start(0).End(editsBytes-1).Build()).ToString()
	if err != nil {
		return "", be.failed(name, err)
	}
	return string(be.appendEpoch(ctx, conn, []byte(count))), nil
}

func (be *backend) Forget(ctx context.Context, rule string, key []byte) (bool, error) {
	n, err := be.edit(ctx, rule, key, func(conn rueidis.Client, names []string) (int64, error) {
		be.counts.commands.Inc()
		return conn.Do(ctx, conn.B().Del().Key(names...).Build()).AsInt64()
	})
	return n > 0, err
}

func (be *backend) Add(ctx context.Context, rule string, key []byte, n int64) (bool, error) {
	changed, err := be.edit(ctx, rule, key, func(conn rueidis.Client, names []string) (int64, error) {
		return be.runAdd(ctx, conn, names, strconv.FormatInt(min(n, store.ExactIntMax), 10))
	})
	return changed > 0, err
}

func (be *backend) runAdd(ctx context.Context, conn rueidis.Client, names []string, args ...string) (changed int64,
	err error) {
	reply, err := be.run(ctx, conn, &call{script: be.scripts.add, keys: names, args: args})
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
func (be *backend) edit(ctx context.Context, rule string, key []byte,
	change func(rueidis.Client, []string) (int64, error)) (n int64, err error) {
	conn, err := be.connected()
	if err != nil {
		return 0, err
	}
	about := be.cfg.KeyPrefix + kindsName
	names, err := be.names(ctx, conn, rule, key)
	if err == nil && len(names) > 0 {
		about = names[0]
		n, err = change(conn, names)
	}
	if err == nil {
		about = be.cfg.KeyPrefix + editsName
		be.counts.commands.Inc()
		err = conn.Do(ctx, conn.B().Incr().Key(about).Build()).Error()
	}
	return n, be.failed(about, err)
}
