package remote

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/ask/check"
	"weir/proxy/ask/port"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/simredis"
	"weir/proxy/store/storetest"
)

var background = context.Background()

// patience is longer than a busy machine needs.
const patience = 20 * time.Second

// A world is a store whose keys have tables and clocks of their own, distinguished by what
// their rules begin with: 17/rule.
//
// Safe for concurrent use: mu guards tables.
type world struct {
	*simredis.Store // documents, leases, epoch
	mode            atomic.Uint32

	mu     sync.Mutex
	tables map[string]*table
}

// A table is the keys of one prefix.
type table struct {
	*simredis.Table
	clock    *storetest.Clock
	released atomic.Bool // the last place was given back
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(s.Close)
	return &world{Store: s, tables: make(map[string]*table)}
}

// open adds a table.
func (w *world) open(t testing.TB) (prefix string, tab *table) {
	keys := testkit.Must(simredis.New(simredis.Config{Stripes: 1}))(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	prefix = strconv.Itoa(len(w.tables)) + "/"
	tab = &table{Table: keys, clock: storetest.NewClock()}
	w.tables[prefix] = tab
	return prefix, tab
}

func (w *world) of(rule string) *table {
	prefix, _, _ := strings.Cut(rule, "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables[prefix+"/"]
}

func (w *world) Mode() store.Mode { return store.Mode(w.mode.Load()) }

func (w *world) NewLane(func(func(now time.Time))) store.Lane { return &onTheSpot{w} }

func (w *world) Forget(rule string, key []byte) (bool, error) {
	w.ForgetRefusals()
	return w.of(rule).Forget(rule, key), nil
}

func (w *world) Add(rule string, key []byte, n int64) (bool, error) {
	w.ForgetRefusals()
	tab := w.of(rule)
	return tab.Add(tab.clock.Now(), rule, key, n), nil
}

// onTheSpot is a lane of a world.
type onTheSpot struct{ w *world }

func (l *onTheSpot) Ask(_ time.Time, ask *store.Ask, ans *store.Answer, _ store.Done) bool {
	if mode := l.w.Mode(); mode != store.Exact {
		*ans = store.Answer{Mode: mode}
		return true
	}
	tab := l.w.of(ask.Counters[0].Rule)
	tab.Take(tab.clock.Now(), ask, ans)
	return true
}

func (l *onTheSpot) Refund(_ time.Time, c *store.Counter, slot int64, _ store.Mode) {
	tab := l.w.of(c.Rule)
	tab.released.Store(tab.Table.Refund(tab.clock.Now(), c, slot))
}

func (l *onTheSpot) Close() {}

// A served is a decision port that the test ends, or its end.
type served struct {
	*port.Server
	stop func()
}

// startMaster starts a decision port over s.
func startMaster(t testing.TB, s store.Store, addr string) served {
	t.Helper()
	return startSecure(t, s, addr, nil)
}

// startSecure starts a decision port with TLS, unless secure is nil.
func startSecure(t testing.TB, s store.Store, addr string, secure *tls.Config) served {
	t.Helper()
	var socket net.Listener
	testkit.Eventually(t, "the address is free", func() bool {
		var err error
		socket, err = net.Listen("tcp", addr)
		return err == nil
	})
	p, err := port.Start(port.Config{
		Listener: port.Listener{Socket: socket, Secure: secure, Access: check.AccessPolicy{Token: "secret", Edit: "admin"}},
		Loop:     loop.Config{Loops: 2}, Store: s, Local: true,
		Documents: []string{"ratelimiter:config", "ratelimiter:rules"},
		Healthy:   func() bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	m := served{p, sync.OnceFunc(func() { p.Drain(background) })}
	t.Cleanup(m.stop)
	return m
}

// config is that of a sidecar of masters.
func config(masters ...served) Config {
	cfg := Config{Config: lane.Config{Timeout: time.Second}, Token: "admin"}
	for _, m := range masters {
		cfg.URLs = append(cfg.URLs, "http://"+m.Addr().String())
	}
	return cfg
}

// startWorld starts a master over a world, which has a table.
func startWorld(t testing.TB) (w *world, prefix string, m served) {
	t.Helper()
	w = newWorld(t)
	prefix, _ = w.open(t)
	return w, prefix, startMaster(t, w, "127.0.0.1:0")
}

// mastered is a sidecar with a master, and the prefix of a table there.
func mastered(t testing.TB) (s *sidecar, prefix string) {
	t.Helper()
	_, prefix, m := startWorld(t)
	return openSidecar(t, config(m)), prefix
}

// A sidecar is a backend and its loop client on a loop.
type sidecar struct {
	*backend
	loopClient *loopClient
	group      *loop.Group
}

// openSidecar returns one that the test closes, and waits patiently.
func openSidecar(t testing.TB, cfg Config) *sidecar {
	t.Helper()
	g := testkit.Must(loop.Start(loop.Config{Loops: 1}))(t)
	t.Cleanup(g.Stop)
	s := &sidecar{backend: testkit.Must(newBackend(cfg))(t), group: g}
	s.cfg.Timeout = patience
	t.Cleanup(s.Close)
	s.on(func(time.Time) { s.loopClient = s.NewLoopClient(g.Loops()[0]).(*loopClient) })
	return s
}

// on calls do on the loop, and waits for it.
func (s *sidecar) on(do func(now time.Time)) {
	done := make(chan struct{})
	s.group.Loops()[0].Post(func(now time.Time) { do(now); close(done) })
	<-done
}

// ask asks about a batch.
func (s *sidecar) ask(batch *store.Batch) { <-s.send(batch, s.cfg.Timeout) }

// decide asks about a group.
func (s *sidecar) decide(g *store.Group) *store.Group {
	s.ask(&store.Batch{Groups: []*store.Group{g}})
	return g
}

// send is ask that does not wait for the answer.
func (s *sidecar) send(batch *store.Batch, timeout time.Duration) <-chan struct{} {
	done := make(chan struct{}, 1)
	s.group.Loops()[0].Post(func(now time.Time) {
		s.loopClient.Send(now, batch, now.Add(timeout), func(time.Time) { done <- struct{}{} })
	})
	return done
}

// opener opens stores in one master, each with keys and a clock of its own.
func opener(t testing.TB) storetest.Open {
	w := newWorld(t)
	b := openSidecar(t, config(startMaster(t, w, "127.0.0.1:0")))
	open := func(prefix string, tab *table) storetest.Store {
		return storetest.Store{
			Take: func(ask *store.Ask, ans *store.Answer) {
				g := &store.Group{N: ask.N}
				for _, c := range ask.Counters {
					c.Rule = prefix + c.Rule
					g.Counters = append(g.Counters, c)
				}
				b.decide(g)
				if g.Err != nil {
					t.Error(g.Err)
				}
				storetest.ComputeAnswer(g, ans)
			},
			Refund: func(c *store.Counter, slot int64) bool {
				r := store.Refund{Counter: *c, Instant: slot}
				r.Counter.Rule = prefix + c.Rule
				b.ask(&store.Batch{Refunds: []store.Refund{r}})
				return tab.released.Load()
			},
			Add: func(rule string, key []byte, n int64) bool {
				if n == 0 {
					return false // as lane.Store.Add
				}
				changed, err := b.Add(background, prefix+rule, key, n)
				if err != nil {
					t.Error(err)
				}
				return changed
			},
			Forget: func(rule string, key []byte) {
				if _, err := b.Forget(background, prefix+rule, key); err != nil {
					t.Error(err)
				}
			},
			Now:     tab.clock.Now,
			Advance: tab.clock.Advance,
		}
	}
	return func(t testing.TB) storetest.Store { return open(w.open(t)) }
}

// fixed is a limit of that many in all, as long as a test runs.
func fixed(permits int64) *limit.Limit {
	l, err := limit.NewFixed(permits, 100*365*24*time.Hour)
	if err != nil {
		panic(err)
	}
	return &l
}

// one asks for n requests of a key.
func one(n int, rule string, l *limit.Limit) *store.Group {
	return &store.Group{N: n, Counters: []store.Counter{{Rule: rule, Key: []byte("key"), Limit: l, Cost: 1}}}
}

// idle is the number of idle connections.
func (s *sidecar) idle() (n int) {
	s.on(func(time.Time) { n = len(s.loopClient.idle) })
	return n
}
