package redis

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// sharded is a connection to one server that looks like a Cluster and calls after after each
// exchange.
type sharded struct {
	rueidis.Client
	after func()
}

func (s *sharded) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func (s *sharded) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	defer s.after()
	return s.Client.DoMulti(ctx, commands...)
}

// 50 requests that their own limits refuse are charged to a shared limit, and given back 2 ms
// later. Then that has what it would have without them. A bucket that would have been full in
// between may have a little less, but not more.
func TestRefusedInAnotherSlot(t *testing.T) {
	t.Parallel()
	const capacity, refused = 1000, 50
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: capacity, FillRate: 10_000})
	gcra := limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 10_000, Window: 1, Burst: capacity})
	queue := limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: capacity - 1, FillRate: 10_000})
	s := redistest.Start(t)
	c, conn := newClocked(t, s, clockInKey), dial(s)
	for i, test := range []struct {
		l       *limit.Limit
		used    int64 // charged before
		granted int   // further requests of each, which are granted
		others  int64 // charged 1 ms later by another proxy
		lost    int64
	}{
		{bucket, 100, 0, 0, 0}, {bucket, 100, 0, 100, 0}, {bucket, 100, 1, 100, 0}, {bucket, 1, 0, 0, 0},
		{bucket, 20, 0, 100, 0}, {bucket, 10, 0, 100, 10}, {bucket, 10, 1, 0, 5},
		{gcra, 100, 0, 0, 0}, {gcra, 100, 0, 100, 0}, {gcra, 1, 0, 0, 0}, {gcra, 10, 0, 100, 10},
		{queue, 100, 0, 0, 0}, {queue, 20, 0, 0, 0}, {fixed(capacity), 1, 1, 100, 0},
	} {
		prefix, now := fmt.Sprint(i, "_"), limittest.Epoch
		decide := func(n int, c1 store.Counter) *store.Group {
			setClock(t, conn, prefix, now)
			return &decideNow(c, prefix, &store.Ask{N: n, Counters: []store.Counter{c1}}).Group
		}
		charge := func(permits int64) *store.Group {
			return decide(1, store.Counter{Rule: "shared", Limit: test.l, Cost: permits})
		}
		without := charge(test.used).Before[0] // the state without the refused requests
		test.l.Decide(now, &without, limit.Charge{Cost: test.used, N: 1})
		test.l.Decide(now, &without, limit.Charge{Cost: 1, N: int64(refused * test.granted)})

		var b store.Batch
		for n := range refused {
			own := counter(fmt.Sprint(n), fixed(int64(1+test.granted)))
			decide(1, own)
			b.Groups = append(b.Groups,
				&store.Group{N: 1 + test.granted, Counters: []store.Counter{{Rule: "shared", Limit: test.l, Cost: 1}, own}})
		}
		exchanges := 0
		sender := sender{c: c.back.as(prefix), ctx: background, bySlot: make(map[uint16]int)}
		sender.conn = &sharded{*c.back.conn.Load(), func() {
			exchanges++
			if now += 1000; exchanges == 1 && test.others > 0 {
				charge(test.others)
				test.l.Decide(now, &without, limit.Charge{Cost: test.others, N: 1})
			}
			setClock(t, conn, prefix, now)
		}}
		// so that the server knows the script, and no exchange is repeated
		load := call{script: sender.c.scripts.give, keys: []string{prefix}, args: appendGive([]string{"-1"}, test.l, 0, 0)}
		if _, err := c.back.do(&load); err != nil {
			t.Fatal(err)
		}
		sender.take(&b)
		for _, g := range b.Groups {
			if g.Err != nil || g.Granted != test.granted {
				t.Fatalf("case %d: %d granted, %v", i, g.Granted, g.Err)
			}
		}
		now -= 1000
		left, want := test.l.Preview(now, &charge(0).Before[0], limit.Charge{}), test.l.Preview(now, &without, limit.Charge{})
		if exchanges != 3 || left.Remaining != want.Remaining-test.lost {
			t.Errorf("case %d, %v %+v: %d left after %d exchanges, %d without the refused requests", i, test.l.Config(),
				test, left.Remaining, exchanges, want.Remaining)
		}
	}
}
