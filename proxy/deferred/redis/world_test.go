package redis

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
)

// TestQueue plays what every queue promises.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	deferredtest.Run(t, func(t *testing.T, key []byte) deferredtest.Place {
		return &place{Config{Redis: redis.Config{Addrs: []string{s.Addr()}, KeyPrefix: t.Name() + ":"}, Key: key}}
	})
}

// A place is a prefix on a server.
type place struct{ cfg Config }

// Open is part of deferredtest.Place.
func (p *place) Open(t testing.TB, now time.Time, limits deferred.Limits) deferred.Queue {
	t.Helper()
	q := &timed{}
	q.now.Store(&now)
	cfg := p.cfg
	cfg.Limits, cfg.patience, cfg.clock = limits, time.Minute, func() time.Time { return *q.now.Load() }
	q.Queue = testkit.Must(Open(cfg))(t)
	return q
}

// Crash is part of deferredtest.Place.
func (p *place) Crash(t testing.TB, q deferred.Queue) {
	t.Helper()
	q.(*timed).cancel()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// Reopens is part of deferredtest.Place.
func (p *place) Reopens() bool { return false }

// A timed queue takes the time that it is told for the server's.
type timed struct {
	*Queue
	now atomic.Pointer[time.Time]
}

func (q *timed) Put(now time.Time, p *deferred.Put) {
	q.now.Store(&now)
	q.Queue.Put(now, p)
}

func (q *timed) Settle(now time.Time, s *deferred.Settlement) {
	q.now.Store(&now)
	q.Queue.Settle(now, s)
}

func (q *timed) Claim(ctx context.Context, now time.Time, n int, except ...string) ([]deferred.Claimed, time.Time, error) {
	q.now.Store(&now)
	return q.Queue.Claim(ctx, now, n, except...)
}

func (q *timed) Renew(ctx context.Context, now time.Time, leases []deferred.Lease) ([]deferred.Lease, error) {
	q.now.Store(&now)
	return q.Queue.Renew(ctx, now, leases)
}

func (q *timed) Edit(ctx context.Context, now time.Time, e deferred.Edit) (int, error) {
	q.now.Store(&now)
	return q.Queue.Edit(ctx, now, e)
}
