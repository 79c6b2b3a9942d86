package redis

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// A caller who does not wait for an answer says nothing about the server.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	_, q, log := newWorld(t)
	e := accepts(t, q, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := q.Read(ctx, e.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	if err := q.Stats().Err; err != nil || log.Count("Queue cannot be written") > 0 {
		t.Errorf("the queue is unusable: %v\n%s", err, log)
	}
}

// Claims that were never answered are given back once, also when several claim at once.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	_, q, _ := newWorld(t)
	for range 20 {
		q.missed("1", "2")
		testkit.Eventually(t, "they are given back", func() bool {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { _, _, _ = q.Claim(t.Context(), time.Now(), 1) }) // one that fails misses them again
			}
			all.Wait()
			return !q.unclaimed()
		})
	}
}

// A server that has lost a part of a line, by eviction, goes on with the rest of it.
func TestLineLost(t *testing.T) {
	t.Parallel()
	s, q, _ := newWorld(t)
	first, second := accepts(t, q, "a"), accepts(t, q, "a")
	lose := func() {
		s.Do("eval", "for _, name in ipairs(redis.call('KEYS', '*}:l:*')) do redis.call('DEL', name) end", "0")
	}
	lose()
	c := claims(t, q)
	if c.Entry.ID != first.ID {
		t.Errorf("claimed %s, want %s", c.Entry.ID, first.ID)
	}
	lose()
	if err := deferredtest.Settle(t, q, c, deferred.Done); err != nil {
		t.Error(err)
	}
	if c = claims(t, q); c.Entry.ID != second.ID {
		t.Errorf("claimed %s, want %s", c.Entry.ID, second.ID)
	}
	lose()
	s.Do("eval", "for _, name in ipairs(redis.call('KEYS', '*}:q:*')) do redis.call('DEL', name) end", "0")
	if err := deferredtest.Settle(t, q, c, deferred.Done); err != nil {
		t.Error(err)
	}
	e := accepts(t, q, "b")
	if c = claims(t, q); c.Entry.ID != e.ID {
		t.Errorf("claimed %s, want %s", c.Entry.ID, e.ID)
	}
}
