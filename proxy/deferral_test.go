package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/redis/redistest"
)

// A shop is a target that keeps what it gets, and when.
type shop struct {
	URL    string
	mu     sync.Mutex
	orders []string // bodies
	at     []time.Time
	fields []http.Header
	status int                   // of its answers; 0: 201
	hold   func(r *http.Request) // called before it answers; nil: it answers at once
}

func newShop(t *testing.T) *shop {
	s := new(shop)
	s.URL = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		hold := s.hold
		s.mu.Unlock()
		if hold != nil {
			hold(r)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.orders, s.at, s.fields = append(s.orders, string(body)), append(s.at, time.Now()),
			append(s.fields, r.Header.Clone())
		if s.status != 0 {
			w.WriteHeader(s.status)
			fmt.Fprintf(w, "not %s", body)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "got %s", body)
	})
	return s
}

// got are the orders so far.
func (s *shop) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.orders)
}

// late are the orders that were delivered.
func (s *shop) late() (orders []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, body := range s.orders {
		if s.fields[i].Get("X-Weir-Deferred") != "" {
			orders = append(orders, body)
		}
	}
	return orders
}

func (s *shop) answers(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// deferring is the environment of a proxy in front of a shop, with a limit for each X-Shop.
func deferring(t *testing.T, s *shop, limit, terms string) []string {
	folder := t.TempDir()
	rules := filepath.Join(folder, "rules.yaml")
	text := "rules:\n- {id: orders, match: {methods: [POST], path: /orders}, key: [\"header:X-Shop\"], limit: {" +
		limit + "}, defer: {" + terms + "}}\n"
	testkit.WriteFile(t, rules, text)
	return []string{"TARGET_URL", s.URL, "RULES_FILE", rules, "DEFER_URL", "file:" + filepath.Join(folder, "queue"),
		"RATE_LIMIT_LIMIT", "1000000", "GATE", "off"} // it sheds what waits for long, as much may on a busy machine
}

// A promise is the body of a 202.
type promise struct {
	ID, State, Durability, Scope string
	Position                     int
}

// order sends an order and returns its status, and the promise of a 202.
func (p *running) order(fields, body string) (status int, made promise) {
	p.T.Helper()
	status, text := p.Call("POST /orders?"+body+" X-Shop=a "+fields, body)
	if status == http.StatusAccepted {
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			p.T.Fatalf("%s: %v", text, err)
		}
	}
	return status, made
}

// stored sends an order again and again until one is refused and stored.
func (p *running) stored(fields, body string) (made promise) {
	p.T.Helper()
	testkit.Eventually(p.T, body+" is stored", func() (ok bool) {
		var status int
		status, made = p.order(async+fields, body)
		return status == http.StatusAccepted
	})
	return made
}

// state is what became of a request.
func (p *running) state(id string) string {
	p.T.Helper()
	var request struct{ State string }
	p.Decode("/deferred/"+id+" X-Shop=a", &request)
	return request.State
}

// becomes waits for a state.
func (p *running) becomes(id, state string) {
	p.T.Helper()
	testkit.Eventually(p.T, id+" is "+state, func() bool { return p.state(id) == state })
}

const async = "Prefer=respond-async "

// A sharedQueue is a store of a queue, and of limits if env says so.
type sharedQueue struct {
	env           []string
	durability    string
	kill, restart func()
}

func queueInRedis(t *testing.T) sharedQueue {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	return sharedQueue{append(inRedis(s), "DEFER_URL", "redis:"), "always", s.Kill, s.Start}
}

func queueInPostgres(t *testing.T) sharedQueue {
	s := postgrestest.Start(t, "fsync=on")
	env := []string{"DEFER_URL", s.URL("weir", "weir")}
	return sharedQueue{env, "fsync", func() { s.Signal(syscall.SIGKILL) }, s.Restart}
}

func queueAndLimitsInPostgres(t *testing.T) sharedQueue {
	q := queueInPostgres(t)
	q.env = append(inPostgres(q.env[1]), "DEFER_URL", "postgres:")
	return q
}

// Two proxies share a queue: what one has stored the other delivers, in order and once, and both tell of it,
// also when one is killed. While the store is unavailable, what would be stored is refused as without
// a queue; nothing that was accepted is lost.
func TestDeferralShared(t *testing.T) {
	const lost = "ERROR Deferred - Queue cannot be written, refusing instead reason="
	const back = "INFO Deferred - Queue writes again"
	starts := map[string]func(*testing.T) sharedQueue{"Redis": queueInRedis, "PostgreSQL": queueInPostgres,
		"PostgreSQL with limits": queueAndLimitsInPostgres}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			s, queue := newShop(t), start(t)
			env := append(deferring(t, s, "algorithm: token, capacity: 1, fillRate: 20", "for: 600, reserve: 0"), queue.env...)
			env = append(env, "STORE_FAILURE_MODE", "local")
			a, b := launch(t, env), launch(t, env)
			a.Logged("INFO Deferred - Opened queue waiting=0 dead=0 durability=" + queue.durability)
			var ids, want []string
			for i := range 20 {
				want = append(want, fmt.Sprint("order", i))
				made := []*running{a, b}[i%2].stored("", want[i])
				if ids = append(ids, made.ID); made.Durability != queue.durability || made.Scope != "shared" {
					t.Errorf("promised %+v", made)
				}
			}
			for i, id := range ids {
				[]*running{b, a}[i%2].becomes(id, "done")
			}
			ids = a.keeps(3)
			for _, id := range ids {
				b.becomes(id, "waiting")
			}
			a.Kill()
			b.goesOn(ids)
			b.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)
			ids = []string{b.stored("", "kept3").ID, b.stored("", "kept4").ID}
			queue.kill()
			testkit.Eventually(t, "an order is refused", func() bool {
				status, _ := b.order(async, "refused")
				if status != http.StatusCreated && status != http.StatusTooManyRequests {
					t.Errorf("answered %d", status)
				}
				return status == http.StatusTooManyRequests
			})
			b.Logged(lost)
			queue.restart()
			b.Logged(back)
			b.goesOn(append(ids, b.stored("", "afterwards").ID))
			if got := s.late(); !slices.Equal(got, append(want, "kept0", "kept1", "kept2", "kept3", "kept4", "afterwards")) {
				t.Errorf("delivered %q", got)
			}
			if n, m := len(b.Log.Lines(lost)), len(b.Log.Lines(back)); n != 1 || m != 1 {
				t.Errorf("logged %d times that writing fails and %d times that it works", n, m)
			}
		})
	}
}

// What a limit refuses is delivered later: in order, once, with what the target gave for an
// answer, and only those learn of it whose it is.
func TestDeferral(t *testing.T) {
	const n, rate = 40, 20
	s := newShop(t)
	p := launch(t, deferring(t, s, fmt.Sprintf("algorithm: token, capacity: 1, fillRate: %d", rate),
		"for: 600, reserve: 0"))
	began := time.Now()
	var made []promise
	var want []string
	for i := range n {
		body := fmt.Sprint("order", i)
		if status, m := p.order(async, body); status == 202 {
			made, want = append(made, m), append(want, body)
		} else if status != 201 {
			t.Fatalf("answered %d", status)
		}
	}
	if len(made) == 0 {
		t.Fatal("nothing was refused")
	}
	for _, m := range made {
		p.becomes(m.ID, "done")
	}
	if took := time.Since(began); len(s.got()) != n || took < (n-1)*time.Second/rate {
		t.Errorf("%d live and deferred orders in %v, want %d at %d per second", len(s.got()), took, n, rate)
	}
	if late := s.late(); !slices.Equal(late, want) {
		t.Errorf("delivered %q, want %q", late, want)
	}
	p.Require("GET /deferred/"+made[0].ID+"/result X-Shop=a", 201, "got "+want[0])
	if n, rejected := p.counted("orders", "deferred"), p.counted("orders", "rejected"); n != len(made) || rejected != 0 {
		t.Errorf("counted %d as deferred and %d as rejected, want %d and none", n, rejected, len(made))
	}
	p.Require("GET /deferred/"+made[0].ID+" X-Shop=b", 404, "no such request")
	p.Require("DELETE /deferred/"+made[0].ID+" X-Shop=a", 409, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range s.fields {
		if slices.Contains(want, s.orders[i]) &&
			(!strings.HasPrefix(h.Get("X-Weir-Deferred"), made[slices.Index(want, s.orders[i])].ID+";attempt=1;accepted=") ||
				!strings.HasPrefix(h.Get("Idempotency-Key"), "weir-")) {
			t.Errorf("%s was delivered with %v", s.orders[i], h)
		}
	}
}

// A request with an Idempotency-Key is stored once, and sent again after an answer that is
// not final; one without is not.
func TestDeferralRetries(t *testing.T) {
	s := newShop(t)
	p := launch(t, deferring(t, s, "algorithm: fixed, limit: 1, window: 1",
		"reserve: 0, attempts: 3, backoff: {first: 0.01, max: 0.01}"))
	s.answers(503)
	made := p.stored("Idempotency-Key=k", "keyed")
	if made.State != "waiting" || made.Durability != "fsync" || made.Scope != "proxy" {
		t.Errorf("promised %+v", made)
	}
	if status, again := p.order(async+"Idempotency-Key=k", "keyed"); status != 201 &&
		(status != 202 || again.ID != made.ID) && status != 503 {
		t.Errorf("the same request: %d %+v, want %s", status, again, made.ID)
	}
	p.becomes(made.ID, "failed")
	p.Require("GET /deferred/"+made.ID+"/result X-Shop=a", 200, "not keyed")
	p.Logged("WARN Deferred - Gave up rule=orders id=" + made.ID)

	s.answers(0)
	p.Require("POST /config/deferred/"+made.ID, 200, `{"changed":1}`, `{"action":"retry"}`)
	p.becomes(made.ID, "done")
	p.Require("POST /config/deferred/"+made.ID, 409, "", `{"action":"retry"}`)
	p.Require("GET /config/deferred?state=done", 200, made.ID)
	p.Require("GET /config/deferred?state=gone", 400, "must be one of waiting, delivering")
	p.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)

	kept := p.stored("", "unkeyed")
	p.Require("DELETE /deferred/"+kept.ID+" X-Shop=a", 204, "")
	p.Require("GET /deferred/"+kept.ID+" X-Shop=a", 200, `"cancelled"`)
}

// What was accepted is there after a crash, and is delivered then.
func TestDeferralSurvives(t *testing.T) {
	s := newShop(t)
	env := deferring(t, s, "algorithm: fixed, limit: 1, window: 2", "reserve: 0")
	p := launch(t, env)
	var ids []string
	for i := range 5 {
		ids = append(ids, p.stored(fmt.Sprintf("Idempotency-Key=k%d", i), fmt.Sprint("order", i)).ID)
	}
	p.Kill()
	p = launch(t, env)
	p.Logged("INFO Deferred - Opened queue")
	for _, id := range ids {
		p.becomes(id, "done")
	}
}

// keeps has n orders stored and the rule paused, so that none is delivered.
func (p *running) keeps(n int) (ids []string) {
	p.T.Helper()
	p.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)
	for i := range n {
		ids = append(ids, p.stored(fmt.Sprintf("Idempotency-Key=k%d", i), fmt.Sprint("kept", i)).ID)
	}
	return ids
}

// goesOn has what is stored delivered.
func (p *running) goesOn(ids []string) {
	p.T.Helper()
	p.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":false}`)
	for _, id := range ids {
		p.becomes(id, "done")
	}
}

// While the store lets everything pass, what is stored still goes at the rule's pace.
func TestDeferralWhileOpen(t *testing.T) {
	const n, rate = 12, 6
	s := newShop(t)
	env := deferring(t, s, fmt.Sprintf("algorithm: token, capacity: 1, fillRate: %d", rate), "reserve: 0")
	p := launch(t, env)
	ids := p.keeps(n)
	p.Terminate()

	p = launch(t, append(env, "REDIS_HOST", testkit.FreeAddr(t), "STORE_FAILURE_MODE", "open"))
	p.Logged("entering fail-open mode")
	before, began := len(s.got()), time.Now()
	p.goesOn(ids)
	took := time.Since(began)
	if got := len(s.got()) - before; got != n || took < (n-1)*time.Second/rate {
		t.Errorf("%d orders were delivered in %v, want %d at %d per second", got, took, n, rate)
	}
}

// While the store refuses everything, what is stored rests, and is delivered afterwards.
func TestDeferralWhileClosed(t *testing.T) {
	s := newShop(t)
	env := deferring(t, s, "algorithm: token, capacity: 1, fillRate: 100", "reserve: 0")
	p := launch(t, env)
	ids := p.keeps(2)
	p.Terminate()

	before := len(s.got())
	p = launch(t, append(slices.Clone(env), "REDIS_HOST", testkit.FreeAddr(t), "STORE_FAILURE_MODE", "closed"))
	p.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":false}`)
	p.Await("GET /metrics", 200, `ratelimiter_deferred_deliveries_total{rule="orders",outcome="refused"}`)
	p.Terminate()
	if got := s.got()[before:]; len(got) > 0 {
		t.Errorf("delivered %q without a decision", got)
	}

	p = launch(t, env)
	for _, id := range ids {
		p.becomes(id, "done")
	}
}

// A successor has the queue when its predecessor has given it up, and delivers what is in it.
func TestDeferralTakeover(t *testing.T) {
	s := newShop(t)
	env := append(takeover(t), deferring(t, s, "algorithm: token, capacity: 1, fillRate: 5", "reserve: 0")...)
	old := launch(t, env)
	ids := old.keeps(5)
	next := launch(t, env)
	old.Logged("INFO Proxy - Stopped")
	next.Logged("INFO Deferred - Opened queue waiting=5")
	next.Await("GET /config/deferred", 200, "")
	before := len(s.got())
	next.goesOn(ids)
	if got := s.got()[before:]; !slices.Equal(got, []string{"kept0", "kept1", "kept2", "kept3", "kept4"}) {
		t.Errorf("delivered %q", got)
	}
}

// Each of two proxies with queues of their own redirects clients that ask for a request of the other.
func TestDeferralAdvertise(t *testing.T) {
	s := newShop(t)
	ports := []string{testkit.FreePort(t), testkit.FreePort(t)}
	var proxies []*running
	for i, port := range ports {
		urls := []string{"http://127.0.0.1:" + port, "http://127.0.0.1:" + ports[1-i]}
		proxies = append(proxies, launch(t, append(deferring(t, s, "algorithm: fixed, limit: 1, window: 1", "reserve: 0"),
			"PORT", port, "DEFER_PATH", "/later/", "DEFER_ADVERTISE", strings.Join(urls, ","))))
	}
	a, b := proxies[0], proxies[1]
	path := "/later/" + b.stored("", "order").ID
	for _, request := range []string{"GET " + path, "DELETE " + path, "GET " + path + "?x=%20",
		"DELETE " + path + "?x=%20", "GET " + path + "/result"} {
		res, _ := a.Do(request + " X-Shop=a")
		_, target, _ := strings.Cut(request, " ")
		if to := res.Header.Get("Location"); res.StatusCode != 307 || to != "http://"+b.Addr+target {
			t.Errorf("%s is answered %d %s", request, res.StatusCode, to)
		}
	}
	b.Await("GET "+path+"/result X-Shop=a", 201, "")
	for _, f := range []struct {
		p       *running
		request string
	}{{b, path + " X-Shop=b"}, {a, "/later/x X-Shop=a"}, {b, "/later/00000000000000000000000000 X-Shop=a"}} {
		if res, _ := f.p.Do("GET " + f.request); res.StatusCode != 404 || res.Header.Get("Location") != "" {
			t.Errorf("%s is answered %d %v", f.request, res.StatusCode, res.Header)
		}
	}
}

// Of a large answer the beginning is kept: status and result say so. The state is shown at both
// ports, what the target has answered only to clients: on the operators' origin it could act for
// them.
func TestDeferralTruncated(t *testing.T) {
	s, admin := newShop(t), testkit.FreePort(t)
	p := launch(t, append(deferring(t, s, "algorithm: fixed, limit: 1, window: 1", "reserve: 0, result: {bytes: 6}"),
		"ADMIN_PORT", admin))
	path := "/deferred/" + p.stored("", "order").ID
	for _, at := range []testkit.Endpoint{p.Endpoint, p.At(admin)} {
		at.Await("GET "+path+" X-Shop=a", 200, `"done"`)
		at.Require("GET "+path+" X-Shop=a", 200, `"bytes":9,"truncated":true`)
	}
	res, text := p.Do("GET " + path + "/result X-Shop=a")
	h := res.Header
	if res.StatusCode != 201 || text != "got or" || h.Get("X-Weir-Truncated") != "9" ||
		h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "text/plain; charset=utf-8" ||
		h.Get("Content-Security-Policy") != "sandbox; frame-ancestors 'none'" ||
		h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("at the data port: %d %v %q", res.StatusCode, h, text)
	}
	text = p.At(admin).Require("GET "+path+"/result X-Shop=a", 421, "the port for clients")
	if strings.Contains(text, "got") {
		t.Errorf("at the port for operators: %q", text)
	}
}

// Without a queue there are no rules with defer.
func TestDeferralOff(t *testing.T) {
	env := deferring(t, newShop(t), "algorithm: fixed, limit: 1, window: 1", "")
	at := slices.Index(env, "DEFER_URL")
	cannotStart(t, slices.Delete(env, at, at+2), 2, "rules[0].defer: DEFER_URL is not set")
}

// What cannot be stored is refused, with the reason in answer, log and count.
func TestDeferralBounds(t *testing.T) {
	s := newShop(t)
	// one entry is accepted per second, and the line has room for one
	p := launch(t, append(deferring(t, s, "algorithm: fixed, limit: 1, window: 3600", "perKey: 1"), "DEFER_RATE", "1"))
	p.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)
	p.stored("", "first")
	for _, f := range []struct{ answer, log string }{
		{`"deferred":"too many requests are being stored"`,
			"WARN Deferred - DEFER_RATE is reached, refusing rule=orders rate=1 "},
		{`"deferred":"queue is full"`, "WARN Deferred - Queue is full, refusing rule=orders bound=line waiting=1 "},
	} {
		p.Await("POST /orders X-Shop=a "+async, 429, f.answer, "more")
		p.Logged(f.log)
	}
	p.Logged("WARN RateLimiter - Requests rejected: limit exceeded rule=orders")
	if n := p.counted("orders", "deferred"); n != 1 {
		t.Errorf("%d are counted as deferred, want 1", n)
	}
}
