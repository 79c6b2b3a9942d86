package redis

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
)

// opened opens a queue on a server until the test ends.
func opened(t *testing.T, s *redistest.Server, log *testkit.Log) *Queue {
	t.Helper()
	return openedAs(t, Config{Redis: redis.Config{Addrs: []string{s.Addr()}}, Log: log.Logger()})
}

// newWorld starts a server and opens a queue on it.
func newWorld(t *testing.T) (*redistest.Server, *Queue, *testkit.Log) {
	t.Helper()
	s, log := redistest.Start(t), new(testkit.Log)
	return s, opened(t, s, log), log
}

// openedAs opens a queue until the test ends. Unless cfg says otherwise it waits for answers as long as a
// busy machine may take, so that only a server that is not there is an outage.
func openedAs(t *testing.T, cfg Config) *Queue {
	t.Helper()
	cfg.Limits, cfg.patience = deferredtest.LargeLimits, cmp.Or(cfg.patience, time.Minute)
	q := testkit.Must(Open(cfg))(t)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// order returns a new entry with a key.
func order(line string) deferred.Entry { return deferredtest.WithKey(deferredtest.NewEntry(line)) }

// accepts waits until an entry is accepted.
func accepts(t *testing.T, q *Queue, line string) (e deferred.Entry) {
	t.Helper()
	testkit.Eventually(t, "an entry is accepted", func() bool {
		e = order(line)
		return deferredtest.Put(q, e).Outcome == deferred.Accepted
	})
	return e
}

// claims waits until one entry is claimed.
func claims(t *testing.T, q *Queue) (c deferred.ClaimedEntry) {
	t.Helper()
	testkit.Eventually(t, "an entry is claimed", func() bool {
		claimed, _, err := q.Claim(t.Context(), time.Now(), 1)
		if err != nil || len(claimed) == 0 {
			return false
		}
		c = claimed[0]
		return true
	})
	return c
}

// Nothing that was accepted is lost when the server is killed under load and its AOF is always
// durable, nor is there anything that was refused, unless Redis had to cut its AOF: then a part of
// the last call, which was not answered, may come back with its next restart.
func TestKill(t *testing.T) {
	t.Parallel()
	s := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	logFile := filepath.Join(s.Dir, "log")
	s.Args = append(s.Args, "--logfile", logFile)
	s.Start()
	log := new(testkit.Log)
	q := opened(t, s, log)
	if d := q.Stats().Durability; d != "always" {
		t.Errorf("durability %q", d)
	}
	f := deferredtest.StartFlood(t, q)
	for range 5 {
		f.RequireGrowth()
		s.Kill()
		s.Start()
		testkit.Eventually(t, "the queue is there again", func() bool { return q.Stats().Err == nil })
	}
	f.RequireGrowth()
	accepted := f.Stop()
	q.look(t.Context())
	cuts := strings.Count(string(testkit.Must(os.ReadFile(logFile))(t)), "Truncating the AOF")
	if there := entries(q); there < accepted || there > accepted+cuts*deferredtest.FloodClients {
		t.Errorf("%d are there, %d were accepted, and the AOF was cut %d times", there, accepted, cuts)
	}
	if log.Count("lost entries") > 0 {
		t.Errorf("nothing was lost:\n%s", log)
	}
}

// entries is how many entries wait, as far as the queue knows.
func entries(q *Queue) int {
	s := q.Stats()
	waiting, _ := s.Totals()
	return waiting
}

// A server that is stopped refuses puts, and does not store them when it goes on. What was
// being delivered is settled then.
func TestStopped(t *testing.T) {
	t.Parallel()
	s, log := redistest.Start(t), new(testkit.Log)
	q := openedAs(t, Config{Redis: redis.Config{Addrs: []string{s.Addr()}}, Log: log.Logger(), patience: answerWithin})
	accepts(t, q, "a")
	c := claims(t, q)
	unsent := accepts(t, q, "z")
	s.Signal(syscall.SIGSTOP)
	late := order("b")
	ctx, cancel := context.WithCancel(t.Context())
	claiming := make(chan error, 1)
	go func() {
		_, _, err := q.Claim(ctx, time.Now(), 1)
		claiming <- err
	}()
	settled := make(chan error, 1)
	q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: deferred.Done, Keep: time.Hour,
		Done: func(err error) { settled <- err }})
	if st := deferredtest.Put(q, late); st.Outcome != deferred.Unstored {
		t.Errorf("stopped: %s", st.Outcome)
	}
	if st := deferredtest.Put(q, order("c")); st.Outcome != deferred.Unstored || st.Err == nil {
		t.Errorf("known to be stopped: %s", st.Outcome)
	}
	cancel()
	if err := testkit.Receive(t, claiming, "the end of the claim"); err == nil {
		t.Error("a claim succeeded")
	}
	s.Signal(syscall.SIGCONT)
	if err := testkit.Receive(t, settled, "the end of the settlement"); err != nil {
		t.Errorf("settled: %v", err)
	}
	accepts(t, q, "d")
	if c := claims(t, q); c.Entry.ID != unsent.ID || c.Entry.Attempts != 0 {
		t.Errorf("claimed %s after %d attempts, want %s, which nobody has had", c.Entry.ID, c.Entry.Attempts, unsent.ID)
	}
	if _, _, err := q.Read(t.Context(), late.ID); !errors.Is(err, deferred.ErrNotFound) {
		t.Errorf("what was refused is there: %v", err)
	}
	if log.Count("Queue cannot be written") != 1 || log.Count("Queue writes again") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestPutsDuringOutage tests what every queue guarantees while its store is unavailable.
func TestPutsDuringOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	q := openedAs(t, Config{Redis: redis.Config{Addrs: []string{s.Addr()}}, patience: answerWithin})
	deferredtest.PutsDuringOutage(t, q, func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) })
}

// A server that has forgotten the scripts is given them again; one that was emptied is said to
// have lost entries, once, and goes on.
func TestFlush(t *testing.T) {
	t.Parallel()
	s, q, log := newWorld(t)
	accepts(t, q, "a")
	for range 10 {
		accepts(t, q, "b")
	}
	s.Do("script", "flush")
	c := claims(t, q)
	s.Do("flushall")
	if err := deferredtest.Settle(t, q, c, deferred.Done); !errors.Is(err, deferred.ErrLease) {
		t.Errorf("settled what is lost: %v", err)
	}
	testkit.Eventually(t, "the loss is noticed", func() bool { return log.Count("Redis has lost entries") > 0 })
	e := accepts(t, q, "c")
	if got := claims(t, q); got.Entry.ID != e.ID {
		t.Errorf("claimed %s", got.Entry.ID)
	}
	if n := log.Count("Redis has lost entries"); n != 1 || entries(q) != 1 {
		t.Errorf("said %d times, %d entries\n%s", n, entries(q), log)
	}
}

// TestSeveralProxies plays several proxies with one queue.
func TestSeveralProxies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var queues []deferred.Queue
	for range 2 {
		queues = append(queues, openedAs(t, Config{Redis: redis.Config{Addrs: []string{s.Addr()}}}))
	}
	deferredtest.SeveralProxies(t, queues...)
}

// What a proxy has claimed that ends is delivered by another when its leases have passed.
func TestProxyEnds(t *testing.T) {
	t.Parallel()
	s, log := redistest.Start(t), new(testkit.Log)
	a, b := opened(t, s, log), opened(t, s, log)
	e := accepts(t, a, "x")
	if c := claims(t, a); c.Entry.ID != e.ID {
		t.Fatalf("claimed %s", c.Entry.ID)
	}
	_ = a.Close()
	if claimed, _, err := b.Claim(t.Context(), time.Now(), 1); err != nil || len(claimed) > 0 {
		t.Errorf("claimed %d that another has, %v", len(claimed), err)
	}
	passLeases(t, s)
	if c := claims(t, b); c.Entry.ID != e.ID || c.Entry.Attempts != 1 {
		t.Errorf("claimed %s after %d attempts", c.Entry.ID, c.Entry.Attempts)
	}
}

// passLeases lets all leases pass.
func passLeases(t *testing.T, s *redistest.Server) {
	t.Helper()
	name := namespace + "leases"
	s.Do("eval", "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, id) end",
		"1", name)
}

// A delivery that ends while the server is unavailable is settled before anything is claimed, which
// would take it back if its lease has passed meanwhile.
func TestSettledBeforeClaims(t *testing.T) {
	t.Parallel()
	s, q, _ := newWorld(t)
	accepts(t, q, "a")
	c := claims(t, q)
	s.Do("hset", namespace+"about", "version", "2")
	settled := make(chan error, 1)
	q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: deferred.Done, Keep: time.Hour,
		Done: func(err error) { settled <- err }})
	testkit.Eventually(t, "the queue is unavailable", func() bool { return q.Stats().Err != nil })
	passLeases(t, s)
	claimed := make(chan int, 1)
	go func() {
		for {
			if some, _, err := q.Claim(t.Context(), time.Now(), 1); err == nil || t.Context().Err() != nil {
				claimed <- len(some)
				return
			}
		}
	}()
	s.Do("hset", namespace+"about", "version", "1")
	if err := testkit.Receive(t, settled, "the end of the settlement"); err != nil {
		t.Errorf("settled: %v", err)
	}
	if n := testkit.Receive(t, claimed, "the end of the claim"); n > 0 {
		t.Error("it is claimed again")
	}
}

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
