package redis

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis/redistest"
)

// documentedRights returns the words of an ACL user in docs/stores.md, from "on" on: the
// first such line is for the servers, the second for Sentinels. The prefix of names is
// put where it belongs.
func documentedRights(t testing.TB, line int, prefix string) []string {
	t.Helper()
	text := testkit.Must(os.ReadFile("../../../docs/stores.md"))(t)
	found := regexp.MustCompile(`(?m)^ACL SETUSER weir (.*?) *(#.*)?$`).FindAllStringSubmatch(string(text), -1)
	if len(found) != 2 {
		t.Fatalf("docs/stores.md has %d lines with ACL SETUSER weir, want 2", len(found))
	}
	return strings.Fields(strings.ReplaceAll(found[line][1], "~ratelimiter:", "~"+prefix+"ratelimiter:"))
}

// allow gives the server the documented user, whose password is secret.
func allow(s *redistest.Server, prefix string) {
	s.T.Helper()
	s.Do(append([]string{"acl", "setuser", "weir"}, documentedRights(s.T, 0, prefix)...)...)
}

// commandsOf returns the commands that the user of a server was allowed to run and ran, and
// fails the test for each that was refused.
func commandsOf(s *redistest.Server) map[string]bool {
	s.T.Helper()
	for _, refused := range regexp.MustCompile(`context\n.*\n *object\n.*`).FindAllString(s.Do("acl", "log"), -1) {
		s.T.Errorf("refused: %s", strings.Join(strings.Fields(refused), " "))
	}
	commands := map[string]bool{}
	for _, found := range regexp.MustCompile(`cmdstat_([a-z-|]+):calls=[1-9]`).FindAllStringSubmatch(s.Do("info",
		"commandstats"), -1) {
		commands[found[1]] = true
	}
	return commands
}

// restricted is the configuration of a client that is the documented user.
func restricted(addrs ...string) Config {
	return Config{Config: lane.Config{Timeout: timeoutMax}, Addrs: addrs, Username: "weir", Password: "secret",
		KeyPrefix: "w:", dialTimeout: timeoutMax}
}

// exercise has a client do all that a proxy does; edit runs a command on the server
// that has a key, as somebody else. It is repeated until the caller has seen enough.
func exercise(t *testing.T, c *testStore, l *loop, edit func(key string, words ...string), enough func() bool) {
	t.Helper()
	var told atomic.Int64
	c.Watch(docName, func(doc store.Document) { told.Store(doc.Version) })
	limits := limittest.Limits()
	r := rand.New(rand.NewPCG(17, 18))
	version := int64(0)
	testkit.Eventually(t, "everything was used", func() bool {
		exerciseKeys(t, c, l, store.Counter{Rule: fmt.Sprint("r", r.IntN(99)), Key: fmt.Append(nil, r.IntN(3)),
			Limit: limits[r.IntN(len(limits))], Cost: 1})
		doc, written, err := c.CompareAndSet(docName, version,
			fmt.Appendf(nil, "%d%s", version, strings.Repeat(" ", headBytes)))
		if version++; !written || err != nil || doc.Version != version {
			t.Fatalf("document: %v, %v, %v", doc.Version, written, err)
		}
		edit("w:"+leaseName, "set", "w:"+leaseName, "nobody")
		for _, owner := range []string{"a", "b", "b"} {
			if _, err := c.Lease(leaseName, owner, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Release(leaseName, "b"); err != nil {
			t.Fatal(err)
		}
		return t.Failed() || told.Load() > 0 && enough()
	})
	if n := c.Stats(); n.Errors != 0 || n.Undecided != 0 || n.DocumentErrors != 0 || !c.Connected() {
		t.Errorf("%+v", n)
	}
}

// exerciseKeys asks, gives back, adds and forgets.
func exerciseKeys(t *testing.T, c *testStore, l *loop, one store.Counter) {
	t.Helper()
	other := one
	other.Rule, other.Key = "other", []byte("elsewhere")
	for range 20 {
		ans := l.ask(3, one, other)
		if ans.Mode != store.Exact && ans.Mode != store.Cached {
			t.Fatalf("%v: %+v", one.Limit.Config(), ans)
		}
		if ans.Mode == store.Exact {
			slot := ans.Decisions[0].Slot
			l.post(func(now time.Time) { l.lane.Refund(now, &one, slot, store.Exact) })
		}
	}
	if _, err := c.Add(one.Rule, one.Key, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Forget("other", other.Key); err != nil {
		t.Fatal(err)
	}
}

// everythingBut reports whether all documented commands were used, apart from some.
func everythingBut(t *testing.T, line int, used map[string]bool, exempt ...string) bool {
	for _, word := range documentedRights(t, line, "") {
		if command, ok := strings.CutPrefix(word, "+"); ok && !used[command] && !slices.Contains(exempt, command) {
			return false
		}
	}
	return true
}

// With exactly the documented rights everything works, and none of them is too many:
// commands of a Cluster and of Sentinels are used where there are some.
func TestRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, append([]string{"--databases", "4", "--user", "weir"}, documentedRights(t, 0, "w:")...)...)
	cfg := restricted(s.Addr())
	cfg.DB = 3
	c := newTestStore(t, cfg)
	l := newLoop(t, c)
	edit := func(_ string, words ...string) { s.Do(append([]string{"-n", "3"}, words...)...) }
	exercise(t, c, l, edit, func() bool {
		return everythingBut(t, 0, commandsOf(s), "exists", "asking", "role", "cluster|slots", "cluster|shards")
	})
	s.Kill()
	testkit.Eventually(t, "the server is missed",
		func() bool { l.ask(1, counter("k", fixed(1000))); return !c.Connected() })
	s.Start()
	testkit.Eventually(t, "it decides again",
		func() bool { return l.ask(1, counter("k", fixed(1000))).Mode == store.Exact })
	if used := commandsOf(s); !used["exists"] {
		t.Errorf("the right to exists is not used: %v", used)
	}
}

// clusterRights: the same in a Cluster, also while a slot moves. Redis 8 is asked for
// shards, others for slots.
func clusterRights(t *testing.T, cl *cluster) {
	for _, s := range append(slices.Clone(cl.masters), cl.replica) {
		allow(s, "w:")
	}
	c := newTestStore(t, restricted(cl.masters[0].Addr()))
	l := newLoop(t, c)
	home := func(name string) *redistest.Server { return cl.masters[int(slotOf(name))*len(cl.masters)/slots] }
	used := func() map[string]bool {
		all := map[string]bool{}
		for _, s := range cl.masters {
			for command := range commandsOf(s) {
				all[command] = true
			}
		}
		return all
	}
	edit := func(key string, words ...string) { home(key).Do(words...) }
	exercise(t, c, l, edit, func() bool {
		return everythingBut(t, 0, used(), "exists", "select", "asking", "role", "cluster|shards")
	})
	moving := counter("moving", fixed(1000))
	name := string(appendName(nil, "w:", &moving))
	l.ask(1, moving)
	slot, from := fmt.Sprint(slotOf(name)), home(name)
	to := cl.masters[(slices.Index(cl.masters, from)+1)%len(cl.masters)]
	to.Do("cluster", "setslot", slot, "importing", from.Do("cluster", "myid"))
	from.Do("cluster", "setslot", slot, "migrating", to.Do("cluster", "myid"))
	from.Do("migrate", "127.0.0.1", to.Port, name, "0", "5000")
	if ans := l.ask(1, moving); ans.Mode != store.Exact || ans.Decision().Remaining != 998 {
		t.Errorf("while its slot moves: %+v", ans)
	}
	if !everythingBut(t, 0, used(), "exists", "select", "role", "cluster|shards") {
		t.Errorf("not all of the documented rights were used: %v", used())
	}
	for _, s := range []*redistest.Server{to, from, cl.masters[0]} {
		s.Do("cluster", "setslot", slot, "node", to.Do("cluster", "myid"))
	}
}

// TestSentinelRights: the same behind Sentinels, which have a user of their own.
func TestSentinelRights(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	allow(master, "w:")
	sentinel := redistest.StartSentinel(t, master)
	sentinel.Do(append([]string{"acl", "setuser", "weir"}, documentedRights(t, 1, "")...)...)
	cfg := restricted(sentinel.Addr())
	cfg.SentinelMaster, cfg.SentinelUsername, cfg.SentinelPassword = "weir", "weir", "secret"
	c := newTestStore(t, cfg)
	l := newLoop(t, c)
	edit := func(_ string, words ...string) { master.Do(words...) }
	exercise(t, c, l, edit, func() bool {
		return everythingBut(t, 0, commandsOf(master), "exists", "select", "asking", "cluster|slots", "cluster|shards")
	})
	testkit.Eventually(t, "the Sentinel has been pinged",
		func() bool { return strings.Contains(sentinel.Do("client", "list"), "cmd=ping user=weir") })
	commandsOf(sentinel) // Sentinels tell only what they refused
}
