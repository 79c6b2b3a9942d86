package admin

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
	"weir/proxy/store/simredis"
)

// becomes waits until that is in force.
func (r *ruleRig) becomes(want string) {
	r.t.Helper()
	for end := time.Now().Add(testkit.Timeout); tellRules(r.Active()) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited %v: in force is %s, want %s", testkit.Timeout, tellRules(r.Active()), want)
		}
	}
}

// Changes of files are applied. An invalid file is reported once, with its position, and changes
// nothing.
func TestRulesFollowFiles(t *testing.T) {
	prep := &ruleRig{asker: asker{t: t}, dir: t.TempDir()}
	prep.write("rules.yaml", oneRule("a", 7))
	prep.write("clients.json", acmeOnly)
	r := mustStartRules(t, prep.dir, RuleFiles{Rules: "rules.yaml", Clients: "clients.json"}, new(simredis.DocumentStore))
	r.write("rules.yaml", oneRule("a", 8)) // between the start and the watch
	r.Share(t.Context(), nil, time.Second)
	r.becomes("a=8 clients v2 file clients=1")

	r.write("tmp", oneRule("b", 9))
	if err := os.Rename(r.path("tmp"), r.path("rules.yaml")); err != nil {
		t.Fatal(err)
	}
	r.becomes("b=9 clients v3 file clients=1")

	r.write("tmp", "rules:\n  - id: b\n    key: [nonsense]\n    limit: {algorithm: off}\n")
	if err := os.Rename(r.path("tmp"), r.path("rules.yaml")); err != nil {
		t.Fatal(err)
	}
	var told string // the line about the rules before may come late: it is logged after they take effect
	testkit.Eventually(t, "the fault is told", func() bool {
		for _, line := range r.log.Taken() {
			if strings.HasPrefix(line, "ERROR") {
				told = line
			}
		}
		return told != ""
	})
	if !strings.HasPrefix(told, "ERROR ConfigController - File ignored, the previous rules stay in force "+
		"setting=RULES_FILE file="+r.path("rules.yaml")+" reason=line 3: rules[0].key[0]: must be one of") {
		t.Errorf("logged %s", told)
	}
	r.write("tmp", `{}`)
	if err := os.Rename(r.path("tmp"), r.path("clients.json")); err != nil {
		t.Fatal(err)
	}
	r.write("tmp", oneRule("c", 9))
	if err := os.Rename(r.path("tmp"), r.path("rules.yaml")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "both files are in force", func() bool {
		a := r.Active()
		return a.Set.Rule(0).ID == "c" && a.Clients == 0
	})
}

// connect makes a client of a server.
func connect(t *testing.T, s *redistest.Server) *lane.Store {
	t.Helper()
	c := testkit.Must(redis.New(redis.Config{Addrs: []string{s.Addr()},
		Config: lane.Config{Timeout: 2 * time.Second, Log: new(testkit.LogRecords).Logger("RedisClient")}}))(t)
	t.Cleanup(c.Close)
	testkit.Eventually(t, "the client is connected", func() bool { return c.Mode() == store.Exact })
	return c
}

// Proxies with one Redis have the same rules, whichever proxy receives them, and also after Redis
// has lost them.
func TestRulesFollowRedis(t *testing.T) {
	server := redistest.Start(t)
	var rigs []*ruleRig
	var clients []*lane.Store
	for range 2 {
		c := connect(t, server)
		r := mustStartRules(t, t.TempDir(), RuleFiles{}, c)
		r.Share(t.Context(), c, 10*time.Millisecond)
		rigs, clients = append(rigs, r), append(clients, c)
	}
	all := func(want string) {
		t.Helper()
		for _, r := range rigs {
			r.becomes(want)
		}
	}
	put := func(r *ruleRig, id, version string, status int) {
		t.Helper()
		if w := r.do("PUT", "/config/rules", oneRule(id, 7), "If-Match", version); w.Code != status {
			t.Fatalf("PUT of %s upon %s: %d %s, want %d", id, version, w.Code, w.Body, status)
		}
	}
	put(rigs[0], "a", "0", 200)
	all("a=7 v1 api stored")
	put(rigs[1], "b<", "1", 200)
	all("b<=7 v2 api stored")
	put(rigs[0], "c", "1", 409)
	all("b<=7 v2 api stored")

	server.Kill()
	testkit.Eventually(t, "the clients notice", func() bool {
		return clients[0].Mode() != store.Exact &&
			clients[1].Mode() != store.Exact
	})
	put(rigs[0], "d", "2", 200)
	rigs[0].inForce("d=7 v3 api")
	if w := rigs[0].do("POST", "/reload", ""); w.Code != 503 {
		t.Errorf("reload without Redis: %d %s, want 503", w.Code, w.Body)
	}
	server.Start()
	testkit.Eventually(t, "all have what was put while Redis was away", func() bool {
		for _, r := range rigs {
			if a := r.Active(); !a.Stored || a.Set.Rule(0).ID != "d" {
				return false
			}
		}
		return true
	})
	if a, b := rigs[0].Active(), rigs[1].Active(); a.Version != b.Version {
		t.Errorf("the versions are %d and %d", a.Version, b.Version)
	}
}

// Of two writers that replace the same version in Redis, one succeeds first.
func TestRulesWritersOfRedis(t *testing.T) {
	server := redistest.Start(t)
	var rigs []*ruleRig
	for range 2 {
		c := connect(t, server)
		r := mustStartRules(t, t.TempDir(), RuleFiles{}, c)
		r.Share(t.Context(), c, 10*time.Millisecond)
		rigs = append(rigs, r)
	}
	const each = 10
	done := make(chan error)
	for i, r := range rigs {
		go func() {
			for k := 0; k < each; {
				a := r.Active()
				_, err := r.Put(epoch, []byte(fmt.Sprintf("rules:\n- {id: by-%d-%d, limit: {algorithm: off}}\n", i, k)), a.Version)
				switch {
				case err == nil:
					k++
				case err == ErrConflict:
					time.Sleep(time.Millisecond) // until the other's is known
				default:
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range rigs {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "both know the last", func() bool {
		a, b := rigs[0].Active(), rigs[1].Active()
		return a.Version == 2*each && b.Version == 2*each && a.Set.Rule(0).ID == b.Set.Rule(0).ID
	})
}

// While a set is made of rules, which may take a second, the store's watcher goes
// on with other documents.
func TestRulesHoldUpNoWatcher(t *testing.T) {
	server := redistest.Start(t)
	c, other := connect(t, server), connect(t, server)
	r := mustStartRules(t, t.TempDir(), RuleFiles{}, c)
	r.Share(t.Context(), c, time.Hour)
	seen := make(chan store.Document, 100)
	c.Watch("other", func(doc store.Document) { seen <- doc })

	r.mu.Lock() // as while a set is made
	made := sync.OnceFunc(r.mu.Unlock)
	t.Cleanup(made) // before the client is closed, which waits for the watcher
	if _, err := mustStartRules(t, t.TempDir(), RuleFiles{}, other).Put(epoch, []byte(oneRule("a", 7)), -1); err != nil {
		t.Fatal(err)
	}
	for version := range int64(3) {
		if _, _, err := other.CompareAndSet("other", version, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		for end := time.After(testkit.Timeout); ; {
			select {
			case doc := <-seen:
				if doc.Version <= version {
					continue
				}
			case <-end:
				t.Fatal("the watcher waits for the rules")
			}
			break
		}
	}
	made()
	r.becomes("a=7 v1 api stored")
}

// Only one request at a time changes rules; the others are answered 503.
func TestRulesChangeOneByOne(t *testing.T) {
	r := mustStartRules(t, t.TempDir(), RuleFiles{}, new(simredis.DocumentStore))
	for _, test := range []struct {
		method, path, body string
		status             int // while another one is under way
	}{
		{"PUT", "/config/rules", oneRule("a", 7), 503},
		{"POST", "/reload", "", 503},
		{"GET", "/config/rules", "", 200},
	} {
		r.changing.Lock()
		w := r.do(test.method, test.path, test.body)
		r.changing.Unlock()
		if w.Code != test.status || w.Code == 503 && w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s %s beside another change: %d %s, want %d", test.method, test.path, w.Code, w.Body, test.status)
		}
		if w := r.do(test.method, test.path, test.body); w.Code != 200 {
			t.Errorf("%s %s: %d %s, want 200", test.method, test.path, w.Code, w.Body)
		}
	}
}

// Stored rules are in force even if their templates are missing, which is logged; rules with
// missing templates that are sent to this proxy are refused.
func TestStoredRulesWithoutTemplate(t *testing.T) {
	const rules = `{"rules":[{"id":"a","limit":{"algorithm":"fixed","limit":5,"window":1},"refusal":{"template":"partner"}}]}`
	docs, log := new(simredis.DocumentStore), new(testkit.LogRecords)
	if _, ok, err := docs.CompareAndSet(RulesName, 0,
		[]byte(`{"updatedAt":"2026-01-19T16:40:00Z","document":`+rules+`}`)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	options := ruleOptions(t)
	options.HasTemplate = func(string) bool { return false }
	r := testkit.Must(NewRules(epoch, RuleFiles{Options: options}, docs, log.Logger))(t)
	said := strings.Join(log.Taken(), "\n")
	if got := tellRules(r.Active()); got != "a=5 v1 api stored" ||
		!strings.Contains(said, `rules[0].refusal.template: there is no template "partner"`) {
		t.Errorf("in force: %s, logged %s", got, said)
	}
	if _, err := r.Put(epoch, []byte(rules), -1); err == nil {
		t.Error("they can be put")
	}
}
