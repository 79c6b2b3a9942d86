package postgres

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/simredis"
	"weir/proxy/store/storetest"
)

// openBackend returns one that the test closes, and waits patiently.
func openBackend(t testing.TB, cfg Config) *backend {
	t.Helper()
	cfg.silence = testkit.Timeout
	b := testkit.Must(newBackend(cfg))(t)
	b.cfg.Timeout = testkit.Timeout
	t.Cleanup(b.Close)
	return b
}

// probed opens a backend whose schema is made, and which calls functions by messages.
func probed(t testing.TB, cfg Config) *backend {
	t.Helper()
	b := openBackend(t, cfg)
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	if b.oids[takeAny].Load() == 0 {
		t.Error("functions are called by statements")
	}
	return b
}

// newWorld starts a server and a backend for it, whose schema is made.
func newWorld(t testing.TB) (*postgrestest.Server, *backend) {
	t.Helper()
	s := postgrestest.Start(t)
	return s, probed(t, Config{URL: s.URL("weir", "weir"), Connections: 4, clock: func() int64 { return limittest.Epoch }})
}

// lockRows locks the rows of all keys by a connection that is open until the test ends.
func lockRows(t *testing.T, s *postgrestest.Server) *pgconn.PgConn {
	t.Helper()
	conn := testkit.Must(pgconn.Connect(background, s.URL("weir", "weir")))(t)
	t.Cleanup(func() { _ = conn.Close(background) })
	if _, err := conn.Exec(background, "BEGIN; SELECT FROM weir.keys FOR UPDATE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	return conn
}

var opened atomic.Int64

// opener opens stores which share the connections of b, each with keys and a clock of its
// own.
func opener(b *backend) storetest.Open {
	var open func(t testing.TB, clock *storetest.Clock, prefix string) storetest.Store
	open = func(t testing.TB, clock *storetest.Clock, prefix string) storetest.Store {
		cfg := b.cfg
		cfg.KeyPrefix = prefix
		cfg.clock = func() int64 { return clock.Now().UnixMicro() }
		own := &backend{cfg: cfg, schema: b.schema, pool: b.pool, documents: b.documents, counts: b.counts}
		for f := range functions {
			own.oids[f].Store(b.oids[f].Load())
		}
		return storetest.Store{
			Take: func(ask *store.Ask, ans *store.Answer) {
				g := &store.Group{Counters: ask.Counters, N: ask.N}
				own.Decide(background, &store.Batch{Groups: []*store.Group{g}})
				if g.Err != nil {
					t.Error(g.Err)
				}
				storetest.ComputeAnswer(g, ans)
			},
			Refund: func(c *store.Counter, slot int64) bool {
				call := takes(cfg.KeyPrefix, &store.Batch{Refunds: []store.Refund{{Counter: *c, Instant: slot}}})[0]
				r := testkit.Must(b.take(background, call, cfg.clock(), 0))(t)
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
			Copy: func() storetest.Store {
				then, to := storetest.NewClock(), newPrefix()
				then.Advance(clock.Now().Sub(then.Now()))
				copyRows(t, b, prefix, to)
				return open(t, then, to)
			},
		}
	}
	return func(t testing.TB) storetest.Store { return open(t, storetest.NewClock(), newPrefix()) }
}

// newPrefix is one that no other begins with.
func newPrefix() string { return strconv.FormatInt(opened.Add(1), 10) + "_" }

// copyRows copies what is kept under one prefix to another.
func copyRows(t testing.TB, b *backend, from, to string) {
	t.Helper()
	const sql = `INSERT INTO weir.%[1]s SELECT '%[3]s'::bytea || substr(name, %[4]d), %[5]s FROM weir.%[1]s WHERE name >= '%[2]s_' AND name < '%[2]s\140';`
	number := strings.TrimSuffix(from, "_")
	script := fmt.Sprintf(sql, "keys", number, to, len(from)+1, "tag, at, a, b, began, under, expires") +
		fmt.Sprintf(sql, "log", number, to, len(from)+1, "at, before, expires")
	if _, err := b.pool.run(&job{ctx: background, silent: testkit.Timeout, script: true, sql: script}); err != nil {
		t.Fatal(err)
	}
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
	return storetest.Timed(testkit.Must(simredis.New(simredis.Config{}))(t))
}

// Groups over the same keys in opposite orders, from two proxies with many connections: no
// deadlock, as many are admitted as there are permits, and nothing else is charged.
func TestOppositeOrders(t *testing.T) {
	t.Parallel()
	s, one := newWorld(t)
	cfg := Config{URL: one.cfg.URL, Connections: 8, clock: one.cfg.clock}
	proxies := [2]*backend{probed(t, cfg), probed(t, cfg)}
	const clients, keys = 16, 12
	most := int64(clients * *rounds * 2 * 7 / 10)
	total := make(chan int64, clients)
	for client := range clients {
		go func() {
			granted := int64(0)
			for range *rounds {
				g := &store.Group{N: 2}
				for i := range keys / 2 {
					key := i*2 + client%2 // odd or even ones and one of all
					if client%4 > 1 {
						key = keys - 1 - key
					}
					g.Counters = append(g.Counters, store.Counter{Rule: "r" + strconv.Itoa(key), Limit: fixed(1 << 40), Cost: 1})
				}
				g.Counters = append(g.Counters, store.Counter{Rule: "all", Limit: fixed(most), Cost: 1})
				proxies[client*2/clients].Decide(background, &store.Batch{Groups: []*store.Group{g}})
				if g.Err != nil {
					t.Error(g.Err)
				}
				granted += int64(g.Granted)
			}
			total <- granted
		}()
	}
	sum := int64(0)
	for range clients {
		sum += <-total
	}
	if sum != most {
		t.Errorf("%d admitted of a limit of %d", sum, most)
	}
	if charged := s.Do("weir", "SELECT sum(a) FROM weir.keys"); charged != strconv.FormatInt(most*(keys/2+1), 10) {
		t.Errorf("%s permits were charged, want %d for each of %d", charged, keys/2+1, most)
	}
	if deadlocks := s.Do("weir", "SELECT deadlocks FROM pg_stat_database WHERE datname = 'weir'"); deadlocks != "0" {
		t.Errorf("%s deadlocks", deadlocks)
	}
	if proxies[0].counts.waits.Load() == 0 {
		t.Log("no lock was waited for")
	}
}

// Batches of many keys, single keys, groups over some of them and edits, in any order and from
// two proxies with many connections: no deadlock, and each key is given what it has.
func TestKeysTogether(t *testing.T) {
	t.Parallel()
	s, one := newWorld(t)
	cfg := Config{URL: one.cfg.URL, Connections: 8, clock: one.cfg.clock}
	proxies := [2]*backend{probed(t, cfg), probed(t, cfg)}
	const clients, keys, most = 16, 6, 600
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: most, FillRate: 1})
	counter := func(key int) store.Counter {
		return store.Counter{Rule: "r" + strconv.Itoa(key), Limit: bucket, Cost: 1}
	}
	var granted [keys]atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		b, r := proxies[client%2], rand.New(rand.NewPCG(uint64(client), 1))
		all.Go(func() {
			for round := range *rounds {
				batch, order := new(store.Batch), r.Perm(keys)
				switch round % 4 {
				case 0: // some of them together
					batch.Groups = []*store.Group{{N: 2,
						Counters: []store.Counter{counter(order[0]), counter(order[1]), counter(order[2])}}}
				case 1:
					order = order[:1]
					if _, err := b.Forget(background, "other", []byte{byte(r.IntN(4))}); err != nil {
						t.Error(err)
					}
					fallthrough
				default:
					for _, key := range order {
						batch.Groups = append(batch.Groups, &store.Group{N: 3, Counters: []store.Counter{counter(key)}})
					}
				}
				b.Decide(background, batch)
				for _, g := range batch.Groups {
					if g.Err != nil {
						t.Error(g.Err)
					}
					for i := range g.Counters {
						key, _ := strconv.Atoi(g.Counters[i].Rule[1:])
						granted[key].Add(int64(g.Granted))
					}
				}
			}
		})
	}
	all.Wait()
	for key := range granted {
		rest := &store.Group{N: most, Counters: []store.Counter{counter(key)}}
		one.Decide(background, &store.Batch{Groups: []*store.Group{rest}})
		if sum := granted[key].Load() + int64(rest.Granted); rest.Err != nil || sum != most {
			t.Errorf("key %d: %d admitted of %d, %v", key, sum, most, rest.Err)
		}
	}
	if deadlocks := s.Do("weir", "SELECT deadlocks FROM pg_stat_database WHERE datname = 'weir'"); deadlocks != "0" {
		t.Errorf("%s deadlocks", deadlocks)
	}
}
