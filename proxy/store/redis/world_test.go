package redis

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// A loop stands for an event loop: it runs what is posted, and lets asks expire.
type loop struct {
	t    testing.TB
	lane *Lane
	skew atomic.Int64 // of this loop's clock, in ns

	mu     sync.Mutex
	posted []func(now time.Time)
	wake   chan struct{}
	stop   chan struct{}
	ended  chan struct{}
}

// newLoop starts a loop with a lane of c.
func newLoop(t testing.TB, c *Client) *loop {
	l := &loop{t: t, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	l.lane = c.NewLane(l.post)
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
	return l.askAs(l.lane.client.cfg.KeyPrefix, &store.Ask{N: n, Counters: counters})
}

// askAs is ask with a key prefix of its own.
func (l *loop) askAs(prefix string, ask *store.Ask) store.Answer {
	answers := make(chan store.Answer, 1)
	keep := func(_ time.Time, ans *store.Answer) {
		kept := *ans
		kept.Decisions = append([]limit.Decision(nil), ans.Decisions...)
		answers <- kept
	}
	l.post(func(now time.Time) {
		l.lane.encoder.prefix = prefix
		var ans store.Answer
		if l.lane.Ask(now, ask, &ans, keep) {
			keep(now, &ans)
		}
	})
	select {
	case ans := <-answers:
		return ans
	case <-time.After(patience):
		l.t.Error("an ask got no answer")
		panic("no answer")
	}
}

// A journal keeps what a client logs.
type journal struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(b)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.String()
}

// count says how many lines have the text.
func (j *journal) count(text string) int { return strings.Count(j.text(), text) }

// reset forgets what was logged.
func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out.Reset()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Writer(j), nil))
}

// config is that of a client of s which waits patiently: a machine that is busy
// must not fail a test.
func config(s *server) Config {
	return Config{Addrs: []string{s.addr()}, Timeout: timeoutMax, dialTimeout: timeoutMax}
}

// newClient returns a client that the test closes.
func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newWorld starts a server, a client and a loop.
func newWorld(t testing.TB) (*server, *Client, *loop) {
	s := startServer(t)
	c := newClient(t, config(s))
	return s, c, newLoop(t, c)
}

func newTable(t testing.TB) *simredis.Table {
	t.Helper()
	table, err := simredis.New(simredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return table
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

// newGroup is the group that an ask is for.
func newGroup(prefix string, ask *store.Ask) *group {
	e, g := encoder{prefix: prefix}, new(group)
	e.encode(ask.Counters)
	g.fill(&e, ask.Counters)
	g.n = ask.N
	return g
}

// decideNow sends an ask as a batch of its own on the calling goroutine, and
// returns its group with what the script said.
func decideNow(c *Client, prefix string, ask *store.Ask) *group {
	g := newGroup(prefix, ask)
	b := &batch{groups: []*group{g}}
	b.send(c)
	g.replay()
	return g
}
