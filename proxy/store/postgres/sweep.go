package postgres

import (
	"context"
	"time"

	"weir/internal/timing/every"
)

const (
	sweepPause  = time.Second
	sweepBlocks = 512             // of one table at a time: at most some 30,000 rows
	sweepLease  = 5 * time.Second // of the proxy that sweeps
	sweepName   = namespace + "sweep"
)

// keepSweeping removes expired rows from the tables, a slice each second, unless another proxy
// does. It uses the connection for documents, so that decisions do not wait for it.
func (b *backend) keepSweeping(stopping context.Context, owner string) {
	var next [2]int64
	every.Interval(stopping.Done(), sweepPause, func(time.Time) {
		if !b.ready.Load() {
			return
		}
		ctx, cancel := context.WithTimeout(stopping, sweepLease)
		held, err := b.lease(ctx, b.documents,
			new(Args).Text(b.cfg.KeyPrefix+sweepName).Text(owner).Int8(sweepLease.Milliseconds()))
		for i, table := range [...]string{"keys", "log"} {
			if err == nil && held {
				next[i], err = b.sweep(ctx, table, next[i])
			}
		}
		cancel() // other calls report errors; the next slice is tried anyway
	})
}

// sweep removes expired rows in a slice of a table, and returns where the next slice begins.
func (b *backend) sweep(ctx context.Context, table string, start int64) (next int64, err error) {
	f, err := b.documents.row(b.documents.job(ctx, "SELECT next FROM "+b.schema+"sweep_1($1,$2,$3)",
		new(Args).Text(table).Int8(start).Int8(sweepBlocks)))
	if err != nil {
		return start, err
	}
	next = f.Int8()
	return next, f.Err
}
