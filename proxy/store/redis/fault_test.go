package redis

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/rules/keys"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// A world in which Redis comes and goes.
type outage struct {
	t   *testing.T
	s   *redistest.Server
	c   *testStore
	l   *loop
	log *testkit.Log
}

// newOutage starts a server and a client that gives asks half a second.
func newOutage(t *testing.T, change func(*Config)) *outage {
	s := redistest.Start(t)
	log := new(testkit.Log)
	cfg := config(s)
	cfg.Timeout, cfg.Log = 500*time.Millisecond, log.Logger()
	if change != nil {
		change(&cfg)
	}
	c := newTestStore(t, cfg)
	// on a machine that is busy the first probe may have been too slow
	testkit.Eventually(t, "redis is there",
		func() bool { return c.Connected() && log.Count(lostLine) == log.Count(backLine) })
	log.Reset()
	return &outage{t, s, c, newLoop(t, c), log}
}

const (
	lostLine = "Redis connection lost, entering "
	backLine = "Redis reconnected, resuming normal operation"
)

// away asks until Redis counts as away, and checks every answer on the way.
func (o *outage) away() {
	o.t.Helper()
	testkit.Eventually(o.t, "redis counts as away", func() bool {
		if ans := o.l.ask(1, counter("k", fixed(1000))); ans.Granted != 1 {
			o.t.Errorf("refused while redis goes: %+v", ans)
		}
		return !o.c.Connected()
	})
	o.saysOnce(lostLine + "fail-open mode")
	commands := o.c.Stats().Decisions
	for range 10 { // far more than the limit
		if ans := o.l.ask(1000, counter("k", fixed(1000))); ans.Granted != 1000 || ans.Mode != store.FailOpen {
			o.t.Errorf("while redis is away: %+v", ans)
		}
	}
	if n := o.c.Stats().Decisions; n != commands {
		o.t.Errorf("%d decisions while redis is away", n-commands)
	}
}

// back waits until Redis decides again.
func (o *outage) back() {
	o.t.Helper()
	testkit.Eventually(o.t, "redis is back", o.c.Connected)
	testkit.Eventually(o.t, "it decides",
		func() bool { return o.l.ask(1, counter("back", fixed(1000))).Mode == store.Exact })
	o.saysOnce(backLine)
}

// saysOnce waits for a line, and checks that there is one only.
func (o *outage) saysOnce(line string) {
	o.t.Helper()
	testkit.Eventually(o.t, line, func() bool { return o.log.Count(line) > 0 })
	if n := o.log.Count(line); n != 1 {
		o.t.Errorf("%d lines say %q:\n%s", n, line, o.log.String())
	}
}

func TestOutages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		breakIt func(s *redistest.Server)
		healIt  func(s *redistest.Server)
		reason  string
	}{
		{"killed", func(s *redistest.Server) { s.Kill() }, func(s *redistest.Server) { s.Start() }, ""},
		{"frozen", func(s *redistest.Server) { s.Signal(syscall.SIGSTOP) },
			func(s *redistest.Server) { s.Signal(syscall.SIGCONT) }, "5 batches in a row"},
		{"read only", func(s *redistest.Server) { s.Do("replicaof", "127.0.0.1", "1") },
			func(s *redistest.Server) { s.Do("replicaof", "no", "one") }, "READONLY"},
		{"without its master", func(s *redistest.Server) {
			s.Do("config", "set", "replica-serve-stale-data", "no")
			s.Do("replicaof", "127.0.0.1", "1")
		}, func(s *redistest.Server) { s.Do("replicaof", "no", "one") }, "MASTERDOWN"},
		{"out of memory", func(s *redistest.Server) {
			s.Do("config", "set", "maxmemory-policy", "noeviction")
			s.Do("config", "set", "maxmemory", "1")
		}, func(s *redistest.Server) { s.Do("config", "set", "maxmemory", "0") }, "OOM"},
		{"busy with a script", func(s *redistest.Server) {
			s.Do("config", "set", "busy-reply-threshold", "1")
			go s.Try("eval", "while true do end", "0") // ends when the script is killed
		}, func(s *redistest.Server) { s.Do("script", "kill") }, "BUSY"},
		{"without permission", func(s *redistest.Server) { s.Do("acl", "setuser", "default", "-eval", "-evalsha") },
			func(s *redistest.Server) { s.Do("acl", "setuser", "default", "+@all") }, "NOPERM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t, nil)
			o.l.ask(1, counter("k", fixed(1000)))
			test.breakIt(o.s)
			o.away()
			if !strings.Contains(o.log.String(), test.reason) {
				t.Errorf("the reason is not %q:\n%s", test.reason, o.log.String())
			}
			test.healIt(o.s)
			o.back()
		})
	}
}

// Asks that wait when Redis goes are answered by the mode, each once.
func TestWaitingWhenRedisGoes(t *testing.T) {
	t.Parallel()
	o := newOutage(t, func(cfg *Config) { cfg.Timeout = timeoutMax })
	o.l.ask(1, counter("k", fixed(10)))
	o.s.Signal(syscall.SIGSTOP)
	var asks []store.Ask
	for i := range 1000 {
		asks = append(asks, repeated(1, counter(fmt.Sprint(i%500), fixed(10)))...)
	}
	r := startTurn(o.l, asks)
	o.s.Kill()
	r.wait(t, o.l)
	for i, ans := range r.answers {
		if ans.Granted != 1 || ans.Mode != store.FailOpen {
			t.Fatalf("ask %d: %+v", i, ans)
		}
	}
	if n := o.c.Stats(); n.Late != 0 {
		t.Errorf("%d waited for their deadline: %s", n.Late, o.log.String())
	}
}

func TestFailureModes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode    store.Mode
		line    string
		granted int
	}{
		{store.FailOpen, "entering fail-open mode", 5},
		{store.Closed, "entering closed mode", 0},
		{store.Local, "entering local mode", 3},
	} {
		t.Run(test.mode.String(), func(t *testing.T) {
			t.Parallel()
			o := newOutage(t, func(cfg *Config) {
				cfg.Failure, cfg.Local, cfg.Timeout = test.mode, newLocal(t), timeoutMax
			})
			three := fixed(3)
			if ans := o.l.ask(5, counter("k", three)); ans.Granted != 3 || ans.Mode != store.Exact {
				t.Errorf("by redis: %+v", ans)
			}
			if ans := o.l.ask(1, counter("k", three)); ans.Mode != store.Cached {
				t.Errorf("from memory: %+v", ans)
			}
			o.s.Kill()
			testkit.Eventually(t, "redis counts as away", func() bool {
				o.l.ask(1, counter("x", three))
				return !o.c.Connected()
			})
			ans := o.l.ask(5, counter("k", three))
			if ans.Granted != test.granted || ans.Mode != test.mode || o.c.Mode() != test.mode {
				t.Errorf("while redis is away: %+v, mode %v", ans, o.c.Mode())
			}
			if test.mode == store.Local && (len(ans.Decisions) != 1 || ans.Decision().RetryAfter == 0) {
				t.Errorf("decided locally: %+v", ans)
			}
			o.saysOnce(test.line)
			o.s.Start()
			o.back()
			if ans := o.l.ask(5, counter("k", three)); ans.Granted != 3 || ans.Mode != store.Exact {
				t.Errorf("by a redis that is new: %+v", ans)
			}
		})
	}
}

// What Redis forgets is not an outage.
func TestRedisForgets(t *testing.T) {
	t.Parallel()
	o := newOutage(t, func(cfg *Config) { cfg.Timeout = timeoutMax })
	ten := fixed(10)
	o.l.ask(4, counter("k", ten))
	o.s.Do("script", "flush")
	before := o.c.Stats()
	ans := o.l.ask(1, counter("k", ten))
	if ans.Mode != store.Exact || ans.Decision().Remaining != 5 {
		t.Errorf("after SCRIPT FLUSH: %+v", ans)
	}
	if after := o.c.Stats(); after.Reloads != before.Reloads+1 || after.Errors != before.Errors {
		t.Errorf("counted %+v, before %+v", after, before)
	}
	o.s.Do("flushall")
	if ans := o.l.ask(1, counter("k", ten)); ans.Mode != store.Exact || ans.Decision().Remaining != 9 {
		t.Errorf("after FLUSHALL: %+v", ans)
	}
	if text := o.log.String(); text != "" {
		t.Errorf("logged:\n%s", text)
	}
}

// A key of another type concerns its requests only.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	o := newOutage(t, func(cfg *Config) { cfg.Timeout = timeoutMax })
	other := store.Counter{Rule: "other", Key: []byte("k"), Limit: fixed(10), Cost: 1}
	logged := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 1, Window: 1})
	for _, l := range []*limit.Limit{fixed(1), logged} {
		o.s.Do("lpush", string(appendName(nil, "", &store.Counter{Rule: "r", Key: []byte("list"), Limit: l})), "x")
		o.s.Do("set", string(appendName(nil, "", &store.Counter{Rule: "r", Key: []byte("text"), Limit: l})), "x")
	}
	queue := hourly(string(keys.AppendSecret(nil, []byte("topsecret"))))
	o.l.ask(1, queue)
	o.s.Do("rename", string(appendName(nil, "", &store.Counter{Rule: "r", Key: queue.Key, Limit: queue.Limit})),
		string(appendName(nil, "", &store.Counter{Rule: "r", Key: queue.Key, Limit: fixed(1)})))
	o.l.ask(1, counter(string(queue.Key), fixed(1))) // the first is the one that is told
	var asks []store.Ask
	for range 20 {
		asks = append(asks, repeated(1, counter("list", fixed(1)))...)
		asks = append(asks, repeated(1, counter("list", logged), other, counter("text", logged))...)
		asks = append(asks, repeated(1, other, counter("text", fixed(1)))...)
	}
	for i, ans := range asksInOneTurn(t, o.l, asks).answers {
		if ans.Granted != 1 || ans.Mode != store.FailOpen {
			t.Errorf("ask %d: %+v", i, ans)
		}
	}
	if ans := o.l.ask(1, other); ans.Mode != store.Exact || ans.Decision().Remaining != 9 {
		t.Errorf("the other counter of the group: %+v, want nothing charged before", ans)
	}
	if o.log.Count("\n") != 1 || o.log.Count("WRONGTYPE") != 1 || o.log.Count("sha256:") != 1 || !o.c.Connected() {
		t.Errorf("logged:\n%s", o.log.String())
	}
}

// A client that cannot connect at first starts in its failure mode, says why, and
// decides as soon as it can.
func TestWrongAtFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		args   []string
		change func(cfg *Config)
		heal   func(s *redistest.Server)
		reason string
	}{
		{"password", []string{"--requirepass", "other"}, func(cfg *Config) { cfg.Password = "secret" },
			func(s *redistest.Server) {
				s.Do("--no-auth-warning", "-a", "other", "config", "set", "requirepass", "secret")
			}, "WRONGPASS"},
		{"no password", []string{"--requirepass", "other"}, func(cfg *Config) {},
			func(s *redistest.Server) {
				s.Do("--no-auth-warning", "-a", "other", "config", "set", "requirepass", "")
			}, "NOAUTH"},
		{"user", nil, func(cfg *Config) { cfg.Username, cfg.Password = "weir", "secret" },
			func(s *redistest.Server) { s.Do("acl", "setuser", "weir", "on", ">secret", "~*", "+@all") }, "WRONGPASS"},
		{"database", []string{"--databases", "1"}, func(cfg *Config) { cfg.DB = 5 },
			func(s *redistest.Server) { s.Kill(); s.Args = nil; s.Start() }, "DB index is out of range"},
		{"TLS", nil, func(cfg *Config) { cfg.TLS, cfg.TLSCAFile = true, "/nonexistent" }, nil, "TLSCAFile"},
		{"TLS to a port without", nil, func(cfg *Config) { cfg.TLS, cfg.dialTimeout = true, timeoutMax }, nil,
			"did not answer the TLS handshake within 2s: if it has no TLS, set REDIS_TLS=false"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, log := redistest.Start(t, test.args...), new(testkit.Log)
			cfg := config(s)
			cfg.Log = log.Logger()
			test.change(&cfg)
			c := newTestStore(t, cfg)
			l := newLoop(t, c)
			if ans := l.ask(1, counter("k", fixed(1))); c.Connected() || ans.Mode != store.FailOpen {
				t.Fatalf("at first: connected %v, %+v", c.Connected(), ans)
			}
			if log.Count("Redis connection lost, entering fail-open mode") != 1 || log.Count(test.reason) != 1 {
				t.Errorf("logged:\n%s", log.String())
			}
			if test.heal == nil {
				return
			}
			test.heal(s)
			o := outage{t, s, c, l, log}
			o.back()
		})
	}
}

// A host on which nobody listens yet.
func TestServerComesLater(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	log := new(testkit.Log)
	cfg := config(s)
	cfg.Log, cfg.Failure = log.Logger(), store.Closed
	c := newTestStore(t, cfg)
	l := newLoop(t, c)
	if ans := l.ask(1, counter("k", fixed(1))); ans.Mode != store.Closed || ans.Granted != 0 {
		t.Errorf("at first: %+v", ans)
	}
	s.Start()
	o := outage{t, s, c, l, log}
	o.back()
}

// What this side has given up says nothing about Redis.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.Canceled, fmt.Errorf("edit: %w", context.Canceled)} {
		if f := new(backend).Classify(err); f != (store.Fault{}) {
			t.Errorf("%v is %+v", err, f)
		}
	}
}
