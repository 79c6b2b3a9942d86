package redis

import (
	"context"
	"strconv"
	"time"
)

func (c *client) Lease(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	conn, err := c.connected()
	if err != nil {
		return false, err
	}
	name = c.cfg.KeyPrefix + name
	reply, err := c.run(ctx, conn, &call{script: c.scripts.lease, keys: []string{name},
		args: []string{owner, strconv.FormatInt(ttl.Milliseconds(), 10)}})
	if err != nil {
		return false, c.failed(name, err)
	}
	held, err := reply.AsInt64()
	if err != nil {
		return false, errReply
	}
	return held == 1, nil
}
