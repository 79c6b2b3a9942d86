package redis

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
)

// A server that is out of memory stores no more and lets entries leave; faults name what to do.
func TestFaults(t *testing.T) {
	t.Parallel()
	s, q, log := newWorld(t)
	accepts(t, q, "a")
	for _, test := range []struct {
		name, say string
		set       [][]string
		reset     [][]string
	}{
		{"memory", "raise its maxmemory, or lower DEFER_MAX_BYTES", [][]string{{"config", "set", "maxmemory", "1mb"}},
			[][]string{{"config", "set", "maxmemory", "0"}}},
		{"replica", "it must lead to the master", [][]string{{"replicaof", "127.0.0.1", "1"}},
			[][]string{{"replicaof", "no", "one"}}},
		{"password", "set REDIS_PASSWORD", [][]string{{"config", "set", "requirepass", "x"},
			{"-a", "x", "client", "kill", "type", "normal"}}, [][]string{{"-a", "x", "config", "set", "requirepass", ""}}},
	} {
		for _, words := range test.set {
			s.Do(words...)
		}
		testkit.Eventually(t, test.name+": puts are refused",
			func() bool { return deferredtest.Put(q, order("b")).Outcome == deferred.Unstored })
		testkit.Eventually(t, test.name+" is told", func() bool { return log.Count(test.say) > 0 })
		if test.name == "memory" {
			if err := deferredtest.Settle(t, q, claims(t, q), deferred.Waiting); err != nil {
				t.Errorf("%s: settled: %v", test.name, err)
			}
		}
		for _, words := range test.reset {
			s.Do(words...)
		}
		accepts(t, q, test.name)
		if n := log.Count(test.say); n != 1 {
			t.Errorf("%s: told %d times\n%s", test.name, n, log)
		}
	}
}

// What only a person can end is said at once; a server that is not there is waited for.
func TestOpen(t *testing.T) {
	t.Parallel()
	s, log := redistest.Start(t, "--requirepass", "x"), new(testkit.Log)
	open := func(password string, key byte) error {
		cfg := Config{Redis: redis.Config{Addrs: []string{s.Addr()}, Password: password}, Limits: deferredtest.LargeLimits,
			Log: log.Logger(), patience: time.Minute}
		if key > 0 {
			cfg.Key = []byte(strings.Repeat(string(key), 32))
		}
		q, err := Open(cfg)
		if err == nil {
			e := order("a")
			if st := deferredtest.Put(q, e); st.Outcome != deferred.Accepted {
				t.Errorf("%s, %v", st.Outcome, st.Err)
			}
			_ = q.Close()
		}
		return err
	}
	for _, test := range []struct {
		password string
		key      byte
		say      string
	}{
		{"y", 0, "REDIS_PASSWORD"}, {"", 0, "REDIS_PASSWORD"}, {"x", 1, ""}, {"x", 2, "DEFER_KEY_FILE"},
		{"x", 0, "DEFER_KEY_FILE"}, {"x", 1, ""},
	} {
		err := open(test.password, test.key)
		if (err == nil) != (test.say == "") || err != nil && !strings.Contains(err.Error(), test.say) {
			t.Errorf("password %q, key %d: %v, want %q", test.password, test.key, err, test.say)
		}
	}
	s.Args = nil
	s.Kill()
	q := opened(t, s, log)
	if st := deferredtest.Put(q, order("a")); st.Outcome != deferred.Unstored {
		t.Errorf("without a server: %s", st.Outcome)
	}
	s.Start()
	accepts(t, q, "a")
}

// How durable the server is, and that it may drop entries, is read again.
func TestSettings(t *testing.T) {
	t.Parallel()
	s, q, log := newWorld(t)
	for _, test := range []struct{ only, fsync, want string }{
		{"no", "everysec", "memory"}, {"yes", "everysec", "everysec"}, {"yes", "always", "always"}, {"yes", "no", "memory"},
	} {
		s.Do("config", "set", "appendonly", test.only)
		s.Do("config", "set", "appendfsync", test.fsync)
		if q.readSettings(t.Context()); q.Stats().Durability != test.want ||
			deferredtest.Put(q, order("a")).Durability != test.want {
			t.Errorf("appendonly %s, appendfsync %s: %s, want %s", test.only, test.fsync, q.Stats().Durability, test.want)
		}
	}
	for policy, warned := range map[string]int{"volatile-lru": 0, "allkeys-lru": 1} {
		log.Reset() // before the change, which the queue may find by itself
		s.Do("config", "set", "maxmemory", "100mb")
		s.Do("config", "set", "maxmemory-policy", policy)
		q.readSettings(t.Context())
		q.readSettings(t.Context())
		if n := log.Count("maxmemory-policy to noeviction"); n != warned {
			t.Errorf("%s: warned %d times", policy, n)
		}
	}
	s.Do("acl", "setuser", "default", "-config")
	if q.readSettings(context.Background()); q.Stats().Durability != "unknown" {
		t.Errorf("without the right to know: %s", q.Stats().Durability)
	}
}

// documentedRights are those of the documentation.
func documentedRights(t *testing.T) []string {
	t.Helper()
	text := testkit.Must(os.ReadFile("../../../docs/deferred.md"))(t)
	return strings.Fields(string(regexp.MustCompile(`(?m)^ACL SETUSER weir (.*)$`).FindSubmatch(text)[1]))
}

// With exactly the documented rights everything works, and none of them is too many.
func TestRights(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t)
	s, log := redistest.Start(t, append([]string{"--databases", "4", "--user", "weir"}, rights...)...), new(testkit.Log)
	q := openedAs(t, Config{Redis: redis.Config{Addrs: []string{s.Addr()}, Username: "weir", Password: "secret",
		DB: 3}, Log: log.Logger()})
	first, second := accepts(t, q, "a"), accepts(t, q, "a")
	same := order("a")
	same.Scope = first.Scope
	if st := deferredtest.Put(q, same); st.Outcome != deferred.Duplicate {
		t.Errorf("the same: %s", st.Outcome)
	}
	c := claims(t, q)
	if lost, err := q.Renew(t.Context(), time.Now(), []deferred.Lease{c.Lease}); err != nil || len(lost) > 0 {
		t.Errorf("renew: %v, %v", lost, err)
	}
	if err := deferredtest.Settle(t, q, c, deferred.Failed); err != nil {
		t.Error(err)
	}
	for _, e := range []deferred.Edit{{Action: deferred.Retry, ID: first.ID}, {Action: deferred.Cancel, ID: second.ID},
		{Action: deferred.Drop, ID: second.ID}} {
		if _, err := q.Edit(t.Context(), time.Now(), e); err != nil {
			t.Error(err)
		}
	}
	for _, paused := range []bool{true, false} {
		if err := q.Pause(t.Context(), "orders", paused); err != nil {
			t.Error(err)
		}
	}
	if page, err := q.List(t.Context(), deferred.Query{Limit: 10}); err != nil || len(page.Entries) != 1 {
		t.Errorf("%d listed, %v", len(page.Entries), err)
	}
	if d := q.Stats().Durability; d != "memory" {
		t.Errorf("durability %q", d)
	}
	if refused := s.Do("acl", "log"); refused != "" {
		t.Errorf("refused: %s", refused)
	}
	used := s.Do("info", "commandstats")
	for _, right := range rights {
		if command, ok := strings.CutPrefix(right, "+"); ok &&
			!slices.Contains([]string{"ping", "role", "cluster|shards", "cluster|slots"}, command) &&
			!strings.Contains(used, "cmdstat_"+command+":") {
			t.Errorf("the right to %s is not used", command)
		}
	}
}

// A queue of another version is left alone, and its version is told.
func TestVersion(t *testing.T) {
	t.Parallel()
	s, q, log := newWorld(t)
	accepts(t, q, "a")
	s.Do("hset", namespace+"about", "version", "2")
	testkit.Eventually(t, "it is refused",
		func() bool { return deferredtest.Put(q, order("b")).Outcome == deferred.Unstored })
	const want = "the queue was made by a newer version of the proxy"
	if _, err := Open(q.cfg); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("opened: %v", err)
	}
	testkit.Eventually(t, "it is told", func() bool { return log.Count(want) == 1 })
}

// An entry that cannot be read is a dead letter and holds nobody up.
func TestDamaged(t *testing.T) {
	t.Parallel()
	s, q, log := newWorld(t)
	bad, good := accepts(t, q, "a"), accepts(t, q, "a")
	s.Do("eval", "return redis.call('HSET', KEYS[1] .. redis.call('ZRANGE', KEYS[2], 0, 0)[1], 'h', 'x')", "2",
		namespace+"e:", namespace+"s0:orders")
	if c := claims(t, q); c.Entry.ID != good.ID {
		t.Errorf("claimed %s", c.Entry.ID)
	}
	given := deferred.GivenUpLabels{Rule: "orders", To: deferred.Failed}
	if s := q.Stats(); s.Unreadable != 1 || s.GivenUp[given] != 1 || log.Count("cannot be read") != 1 {
		t.Errorf("%d are unreadable, given up: %v\n%s", s.Unreadable, s.GivenUp, log)
	}
	page, err := q.List(t.Context(), deferred.Query{State: deferred.Failed, Limit: 10})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].ID != bad.ID {
		t.Errorf("%d failed, %v", len(page.Entries), err)
	}
}

// With a key nothing is kept from which a request can be guessed.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	s, log := redistest.Start(t), new(testkit.Log)
	q := openedAs(t, Config{Redis: redis.Config{Addrs: []string{s.Addr()}}, Log: log.Logger(),
		Key: []byte(strings.Repeat("k", 32))})
	e := order("secret shop")
	e.Scope, e.Fingerprint = deferred.SHA256([]byte("the digest of scope, of 32 bytes")),
		deferred.SHA256([]byte("the digest of print, of 32 bytes"))
	if st := deferredtest.Put(q, e); st.Outcome != deferred.Accepted {
		t.Fatalf("%s, %v", st.Outcome, st.Err)
	}
	const find = "local found = 0; for _, name in ipairs(redis.call('KEYS', '*')) do if redis.call('TYPE', " +
		"name).ok == 'hash' then " +
		"for _, value in ipairs(redis.call('HGETALL', name)) do if string.find(value, ARGV[1], 1, true) then found = " +
		"found + 1 end end end end; return found"
	for _, text := range []string{"digest of scope", "digest of print", "secret shop", "order of"} {
		if n := s.Do("eval", find, "0", text); n != "0" {
			t.Errorf("%q is kept %s times", text, n)
		}
	}
	if n := s.Do("eval", find, "0", "orders"); n == "0" {
		t.Error("nothing is found")
	}
	e.ID[0] ^= 1
	if st := deferredtest.Put(q, e); st.Outcome != deferred.Duplicate {
		t.Errorf("the same: %s", st.Outcome)
	}
}
