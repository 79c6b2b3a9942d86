package postgres

import (
	"strconv"
	"sync/atomic"
	"testing"

	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/simredis"
	"weir/proxy/store/storetest"
)

// openBackend returns one that the test closes, and waits patiently.
func openBackend(t testing.TB, cfg Config) *backend {
	t.Helper()
	cfg.silence = postgrestest.Patience
	b, err := newBackend(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.cfg.Timeout = postgrestest.Patience
	t.Cleanup(b.Close)
	return b
}

// newWorld starts a server and a backend for it, whose schema is made.
func newWorld(t testing.TB) (*postgrestest.Server, *backend) {
	t.Helper()
	s := postgrestest.Start(t)
	b := openBackend(t, Config{URL: s.URL("weir", "weir"), Connections: 4, clock: func() int64 { return limittest.Epoch }})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	return s, b
}

var opened atomic.Int64

// opener opens stores which share the connections of b, each with keys and a clock of its
// own.
func opener(b *backend) storetest.Open {
	return func(t testing.TB) storetest.Store {
		clock := storetest.NewClock()
		cfg := b.cfg
		cfg.KeyPrefix = strconv.FormatInt(opened.Add(1), 10) + "_"
		cfg.clock = func() int64 { return clock.Now().UnixMicro() }
		own := &backend{cfg: cfg, schema: b.schema, pool: b.pool, documents: b.documents, counts: b.counts}
		return storetest.Store{
			Take: func(ask *store.Ask, ans *store.Answer) {
				g := &store.Group{Counters: ask.Counters, N: ask.N}
				own.Decide(background, &store.Batch{Groups: []*store.Group{g}})
				if g.Err != nil {
					t.Error(g.Err)
				}
				answer(g, ans)
			},
			Release: func(c *store.Counter, slot int64) bool {
				call := newTake(cfg.KeyPrefix)
				call.give(&store.Release{Counter: *c, Slot: slot})
				result, err := b.pool.query(background, b.takeSQL(), takeTypes, call.params(cfg.clock(), 0)...)
				if err != nil {
					t.Fatal(err)
				}
				r, err := parseTaken(result)
				if err != nil {
					t.Fatal(err)
				}
				return r.given == 1
			},
			Add: func(rule string, key []byte, n int64) bool {
				changed, err := own.Add(background, rule, key, n)
				if err != nil {
					t.Error(err)
				}
				return changed
			},
			Forget: func(rule string, key []byte) {
				if _, err := own.Forget(background, rule, key); err != nil {
					t.Error(err)
				}
			},
			Now:     clock.Now,
			Advance: clock.Advance,
		}
	}
}

// answer works out what a group's requests are told, as a lane does.
func answer(g *store.Group, ans *store.Answer) {
	*ans = store.Answer{Granted: g.Granted}
	for i := range g.Counters {
		ans.At = max(ans.At, g.At[i])
		c, s := &g.Counters[i], g.Before[i].Clone()
		_, d := c.Limit.Decide(g.At[i], &s, c.Ask(int64(g.Granted)))
		if g.Granted < g.N {
			d = c.Limit.Preview(g.At[i], &s, c.Ask(1))
		}
		ans.Decisions = append(ans.Decisions, d)
	}
	ans.Tightest = store.Tightest(g.Counters, ans.Decisions)
}

func TestStore(t *testing.T) {
	t.Parallel()
	_, b := newWorld(t)
	storetest.Run(t, opener(b))
}

// The same histories in the simulated Redis and here.
func TestLikeSimulatedRedis(t *testing.T) {
	t.Parallel()
	_, b := newWorld(t)
	storetest.Differential(t, opener(b), simulated, 20)
}

func simulated(t testing.TB) storetest.Store {
	table, err := simredis.New(simredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	clock := storetest.NewClock()
	return storetest.Store{
		Take:    func(ask *store.Ask, ans *store.Answer) { table.Take(clock.Now(), ask, ans) },
		Release: func(c *store.Counter, slot int64) bool { return table.Release(clock.Now(), c, slot) },
		Add: func(rule string, key []byte, n int64) bool {
			return table.Add(clock.Now(), rule, key, n)
		},
		Forget:  func(rule string, key []byte) { table.Forget(rule, key) },
		Now:     clock.Now,
		Advance: clock.Advance,
	}
}

// Groups over the same keys in opposite orders, from many connections: no deadlock, and as
// many are admitted as there are permits.
func TestOppositeOrders(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	const clients, rounds, keys, most = 8, 60, 12, 700
	total := make(chan int, clients)
	for client := range clients {
		go func() {
			granted := 0
			for range rounds {
				g := &store.Group{N: 2}
				for i := range keys / 2 {
					key := i*2 + client%2 // odd or even ones and one of all
					if client%4 > 1 {
						key = keys - 1 - key
					}
					g.Counters = append(g.Counters, store.Counter{Rule: "r" + strconv.Itoa(key), Limit: fixed(1 << 40), Cost: 1})
				}
				g.Counters = append(g.Counters, store.Counter{Rule: "all", Limit: fixed(most), Cost: 1})
				b.Decide(background, &store.Batch{Groups: []*store.Group{g}})
				if g.Err != nil {
					t.Error(g.Err)
				}
				granted += g.Granted
			}
			total <- granted
		}()
	}
	sum := 0
	for range clients {
		sum += <-total
	}
	if sum != most {
		t.Errorf("%d admitted of a limit of %d", sum, most)
	}
	if deadlocks := s.Do("weir", "SELECT deadlocks FROM pg_stat_database WHERE datname = 'weir'"); deadlocks != "0" {
		t.Errorf("%s deadlocks", deadlocks)
	}
	if b.counts.waits.Load() == 0 {
		t.Log("no lock was waited for")
	}
}
