package redis

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/rules/keys"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis/redistest"
	"weir/proxy/store/simredis"
)

// A loop stands for an event loop: it runs what is posted, and lets asks expire.
type loop struct {
	t    testing.TB
	lane *lane.Lane
	skew atomic.Int64 // of this loop's clock, in ns

	mu     sync.Mutex
	posted []func(now time.Time)
	wake   chan struct{}
	stop   chan struct{}
	ended  chan struct{}
}

// newLoop starts a loop with a lane of c.
func newLoop(t testing.TB, c *testStore) *loop {
	l := &loop{t: t, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	l.lane = c.NewLane(l.post).(*lane.Lane)
	go l.run()
	t.Cleanup(func() {
		close(l.stop)
		<-l.ended
		l.lane.Close()
	})
	return l
}

func (l *loop) post(f func(now time.Time)) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *loop) run() {
	defer close(l.ended)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-l.wake:
		case <-tick.C:
		}
		l.mu.Lock()
		posted := l.posted
		l.posted = nil
		l.mu.Unlock()
		for _, f := range posted {
			f(l.now())
		}
		if now, next := l.now(), l.lane.Next(); !next.IsZero() && !now.Before(next) {
			l.lane.Expire(now)
		}
	}
}

func (l *loop) now() time.Time { return time.Now().Add(time.Duration(l.skew.Load())) }

// ask asks on the loop and waits for the answer.
func (l *loop) ask(n int, counters ...store.Counter) store.Answer {
	return l.askAll(&store.Ask{N: n, Counters: counters})
}

func (l *loop) askAll(ask *store.Ask) store.Answer {
	answers := make(chan store.Answer, 1)
	keep := func(_ time.Time, ans *store.Answer) {
		kept := *ans
		kept.Decisions = append([]limit.Decision(nil), ans.Decisions...)
		answers <- kept
	}
	l.post(func(now time.Time) {
		var ans store.Answer
		if l.lane.Ask(now, ask, &ans, keep) {
			keep(now, &ans)
		}
	})
	select {
	case ans := <-answers:
		return ans
	case <-time.After(testkit.Timeout):
		l.t.Error("an ask got no answer")
		panic("no answer")
	}
}

// timeoutMax is the longest that a client may be given.
const timeoutMax = 2 * time.Second

// config is that of a client of s which waits patiently: a machine that is busy
// must not fail a test.
func config(s *redistest.Server) Config {
	return Config{Config: lane.Config{Timeout: timeoutMax, ShowKey: keys.AppendRedacted}, Addrs: []string{s.Addr()},
		dialTimeout: timeoutMax}
}

// A testStore is a store in Redis and its backend.
type testStore struct {
	*lane.Store
	back    *backend
	metrics *metric.Set
}

// newTestStore returns a client that the test closes.
func newTestStore(t testing.TB, cfg Config) *testStore {
	t.Helper()
	return openClient(t, cfg, newScripts())
}

func openClient(t testing.TB, cfg Config, s scripts) *testStore {
	t.Helper()
	store, back, err := open(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	c := &testStore{store, back, metric.New()}
	c.Register(c.metrics)
	return c
}

// Connected reports whether Redis decides.
func (c *testStore) Connected() bool { return c.Mode() == store.Exact }

// stats are counts of a client, as its metrics have them.
type stats struct {
	Commands, Decisions, Remembered, Unreleased uint64
	Undecided, Late, Crowded                    uint64
	Errors, Reloads, DocumentErrors             uint64
}

func (c *testStore) Stats() (n stats) {
	var text bytes.Buffer
	c.metrics.Write(&text)
	var away uint64
	for name, to := range map[string]*uint64{
		"ratelimiter_store_commands_total": &n.Commands, "ratelimiter_store_decisions_total": &n.Decisions,
		"ratelimiter_store_remembered_total": &n.Remembered, "ratelimiter_store_unreleased_total": &n.Unreleased,
		`ratelimiter_store_undecided_total{reason="away"}`:    &away,
		`ratelimiter_store_undecided_total{reason="late"}`:    &n.Late,
		`ratelimiter_store_undecided_total{reason="crowded"}`: &n.Crowded, "ratelimiter_redis_errors_total": &n.Errors,
		"ratelimiter_redis_script_reloads_total": &n.Reloads, "ratelimiter_redis_document_errors_total": &n.DocumentErrors,
	} {
		_, rest, found := strings.Cut("\n"+text.String(), "\n"+name+" ")
		if _, err := fmt.Sscan(rest, to); !found || err != nil {
			panic("no metric " + name)
		}
	}
	n.Undecided = away + n.Late + n.Crowded
	return n
}

// as returns a backend with the connection of c whose names have a prefix.
func (be *backend) as(prefix string) *backend {
	cfg := be.cfg
	cfg.KeyPrefix = prefix
	other := &backend{cfg: cfg, scripts: be.scripts,
		counts: counts{exchanges: metric.NewHistogram(metric.LatencyBuckets())}}
	other.conn.Store(be.conn.Load())
	return other
}

// do runs a script.
func (be *backend) do(call *call) (rueidis.RedisMessage, error) {
	return be.run(background, *be.conn.Load(), call)
}

// newWorld starts a server, a client and a loop.
func newWorld(t testing.TB) (*redistest.Server, *testStore, *loop) {
	s := redistest.Start(t)
	c := newTestStore(t, config(s))
	return s, c, newLoop(t, c)
}

// newLocal returns a store that decides in mode local.
func newLocal(t testing.TB) *simredis.Store {
	t.Helper()
	local := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(local.Close)
	return local
}

// counter is one of rule "r" with a cost of 1.
func counter(key string, l *limit.Limit) store.Counter {
	return store.Counter{Rule: "r", Key: []byte(key), Limit: l, Cost: 1}
}

// century is a window that does not end while a test runs, in seconds.
const century = 100 * 365 * 24 * 3600

// fixed is a limit of that many in all.
func fixed(permits int64) *limit.Limit {
	return limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: century})
}

// A decided is a group with what the script said of it.
type decided struct {
	store.Group
	names []string
}

// decideNow sends an ask as a batch of its own on the calling goroutine.
func decideNow(c *testStore, prefix string, ask *store.Ask) *decided {
	d := newDecided(prefix, ask)
	c.back.as(prefix).Decide(background, &store.Batch{Groups: []*store.Group{&d.Group}})
	return d
}

func newDecided(prefix string, ask *store.Ask) *decided {
	d := &decided{Group: store.Group{Counters: ask.Counters, N: ask.N}}
	for _, c := range ask.Counters {
		d.names = append(d.names, string(appendName(nil, prefix, &c)))
	}
	return d
}
