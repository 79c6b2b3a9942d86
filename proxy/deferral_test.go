package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store/redis/redistest"
)

// A shop is a target that keeps what it gets, and when.
type shop struct {
	*httptest.Server
	mu     sync.Mutex
	orders []string // bodies
	at     []time.Time
	fields []http.Header
	status int                   // of its answers; 0: 201
	hold   func(r *http.Request) // called before it answers; nil: it answers at once
}

func newShop(t *testing.T) *shop {
	s := new(shop)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
	t.Cleanup(s.Close)
	return s
}

// got are the orders so far.
func (s *shop) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.orders)
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
		"RATE_LIMIT_LIMIT", "1000000",
		"GATE", "off"} // it sheds what waits for long, as much may on a busy machine
}

// A promise is the body of a 202.
type promise struct {
	ID, State, Durability, Scope string
	Position                     int
}

// order sends an order and returns its status, and the promise of a 202.
func (p *running) order(fields, body string) (status int, made promise) {
	p.t.Helper()
	status, text := p.call("POST /orders X-Shop=a "+fields, body)
	if status == http.StatusAccepted {
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
	}
	return status, made
}

// stored sends an order again and again until one is refused and stored.
func (p *running) stored(fields, body string) (made promise) {
	p.t.Helper()
	testkit.Eventually(p.t, body+" is stored", func() (ok bool) {
		var status int
		status, made = p.order(async+fields, body)
		return status == http.StatusAccepted
	})
	return made
}

// state is what became of a request.
func (p *running) state(id string) string {
	p.t.Helper()
	var told struct{ State string }
	status, text := p.call("GET /deferred/" + id + " X-Shop=a")
	if err := json.Unmarshal([]byte(text), &told); status != 200 || err != nil {
		p.t.Fatalf("answered %d %s", status, text)
	}
	return told.State
}

// becomes waits for a state.
func (p *running) becomes(id, state string) {
	p.t.Helper()
	testkit.Eventually(p.t, id+" is "+state, func() bool { return p.state(id) == state })
}

const async = "Prefer=respond-async "

// Two proxies share a queue in Redis: what one has stored the other delivers, in order, and both
// tell of it. While Redis is unavailable the answer is 429.
func TestDeferralInRedis(t *testing.T) {
	s, server := newShop(t), redistest.Start(t, "--appendonly", "yes")
	env := append(append(deferring(t, s, "algorithm: token, capacity: 1, fillRate: 20", "for: 600, reserve: 0"),
		inRedis(server)...),
		"DEFER_URL", "redis:", "STORE_FAILURE_MODE", "local")
	a, b := launch(t, env), launch(t, env)
	var made []promise
	var want []string
	for i := range 20 {
		body := fmt.Sprint("order", i)
		m := []*running{a, b}[i%2].stored("", body)
		if made, want = append(made, m), append(want, body); m.Durability != "everysec" {
			t.Errorf("promised %+v", m)
		}
	}
	for i, m := range made {
		[]*running{b, a}[i%2].becomes(m.ID, "done")
	}
	s.mu.Lock()
	var late []string
	for i, body := range s.orders {
		if s.fields[i].Get("X-Weir-Deferred") != "" {
			late = append(late, body)
		}
	}
	s.mu.Unlock()
	if !slices.Equal(late, want) {
		t.Errorf("delivered %q, want %q", late, want)
	}
	server.Kill()
	testkit.Eventually(t, "a refused order is not stored", func() bool {
		status, _ := a.order(async, "unstored")
		if status >= 500 {
			t.Fatalf("answered %d", status)
		}
		return status == http.StatusTooManyRequests
	})
	server.Start()
	a.becomes(a.stored("", "again").ID, "done")
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
	var late []string
	for _, body := range s.got() {
		if slices.Contains(want, body) {
			late = append(late, body)
		}
	}
	if !slices.Equal(late, want) {
		t.Errorf("delivered %q, want %q", late, want)
	}
	p.gets("GET /deferred/"+made[0].ID+"/result X-Shop=a", 201, "got "+want[0])
	if n, rejected := p.counted("orders", "deferred"), p.counted("orders", "rejected"); n != fmt.Sprint(len(made)) ||
		rejected != "0" {
		t.Errorf("counted %s as deferred and %s as rejected, want %d and none", n, rejected, len(made))
	}
	p.gets("GET /deferred/"+made[0].ID+" X-Shop=b", 404, "no such request")
	p.gets("DELETE /deferred/"+made[0].ID+" X-Shop=a", 409, "")
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
	p.gets("GET /deferred/"+made.ID+"/result X-Shop=a", 200, "not keyed")
	p.Logged("WARN Deferred - Gave up rule=orders id=" + made.ID)

	s.answers(0)
	p.gets("POST /config/deferred/"+made.ID, 200, `{"changed":1}`, `{"action":"retry"}`)
	p.becomes(made.ID, "done")
	p.gets("POST /config/deferred/"+made.ID, 409, "", `{"action":"retry"}`)
	p.gets("GET /config/deferred?state=done", 200, made.ID)
	p.gets("GET /config/deferred?state=gone", 400, "must be one of waiting, delivering")
	p.gets("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)

	kept := p.stored("", "unkeyed")
	p.gets("DELETE /deferred/"+kept.ID+" X-Shop=a", 204, "")
	p.gets("GET /deferred/"+kept.ID+" X-Shop=a", 200, `"cancelled"`)
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
	_ = p.Process.Signal(syscall.SIGKILL)
	p.Status()
	p = launch(t, env)
	p.Logged("INFO Deferred - Opened queue")
	for _, id := range ids {
		p.becomes(id, "done")
	}
}

// keeps has n orders stored and the rule paused, so that none is delivered.
func (p *running) keeps(n int) (ids []string) {
	p.t.Helper()
	p.gets("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)
	for i := range n {
		ids = append(ids, p.stored(fmt.Sprintf("Idempotency-Key=k%d", i), fmt.Sprint("kept", i)).ID)
	}
	return ids
}

// goesOn has what is stored delivered.
func (p *running) goesOn(ids []string) {
	p.t.Helper()
	p.gets("POST /config/deferred", 200, "", `{"rule":"orders","paused":false}`)
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
	_ = p.Process.Signal(syscall.SIGTERM)
	p.stops(0)

	p = launch(t, append(env, "REDIS_HOST", "127.0.0.1", "REDIS_PORT", testkit.FreePort(t), "STORE_FAILURE_MODE", "open"))
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
	_ = p.Process.Signal(syscall.SIGTERM)
	p.stops(0)

	before := len(s.got())
	p = launch(t, append(slices.Clone(env), "REDIS_HOST", "127.0.0.1", "REDIS_PORT", testkit.FreePort(t),
		"STORE_FAILURE_MODE", "closed"))
	p.gets("POST /config/deferred", 200, "", `{"rule":"orders","paused":false}`)
	testkit.Eventually(t, "a delivery is refused", func() bool {
		_, text := p.call("GET /metrics")
		return strings.Contains(text, `ratelimiter_deferred_deliveries_total{rule="orders",outcome="refused"}`)
	})
	_ = p.Process.Signal(syscall.SIGTERM)
	p.stops(0)
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
	env := append(deferring(t, s, "algorithm: token, capacity: 1, fillRate: 5", "reserve: 0"), "TAKEOVER", "true",
		"PORT", testkit.FreePort(t))
	old := launch(t, env)
	ids := old.keeps(5)
	next := launch(t, env)
	old.Logged("INFO Proxy - Stopped")
	next.Logged("INFO Deferred - Opened queue waiting=5")
	testkit.Eventually(t, "the queue can be read",
		func() bool { status, _ := next.call("GET /config/deferred"); return status == 200 })
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
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(p *running, method, path, shop string) (int, string) {
		t.Helper()
		r, _ := http.NewRequest(method, "http://"+p.addr+path, nil)
		r.Header.Set("X-Shop", shop)
		res := testkit.Must(client.Do(r))(t)
		defer res.Body.Close()
		return res.StatusCode, res.Header.Get("Location")
	}
	made := b.stored("", "order")
	for _, path := range []string{"/later/" + made.ID, "/later/" + made.ID + "?x=%20", "/later/" + made.ID + "/result"} {
		for _, method := range []string{"GET", "DELETE"} {
			if method == "DELETE" && strings.HasSuffix(path, "/result") {
				continue
			}
			if status, to := ask(a, method, path, "a"); status != 307 || to != "http://127.0.0.1:"+ports[1]+path {
				t.Errorf("%s %s is answered %d %s", method, path, status, to)
			}
		}
	}
	testkit.Eventually(t, "it is done",
		func() bool { status, _ := ask(b, "GET", "/later/"+made.ID+"/result", "a"); return status == 201 })
	for _, f := range []struct {
		p        *running
		id, shop string
	}{{b, made.ID, "b"}, {a, "x", "a"}, {b, "00000000000000000000000000", "a"}} {
		if status, to := ask(f.p, "GET", "/later/"+f.id, f.shop); status != 404 || to != "" {
			t.Errorf("%s by %s is answered %d %s", f.id, f.shop, status, to)
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
	id := ""
	testkit.Eventually(t, "an order is stored", func() bool {
		status, made := p.order(async, "order")
		id = made.ID
		return status == 202
	})
	ask := func(addr, path string) (res *http.Response, body string) {
		r, _ := http.NewRequest("GET", "http://"+addr+"/deferred/"+id+path, nil)
		r.Header.Set("X-Shop", "a")
		res = testkit.Must(http.DefaultClient.Do(r))(t)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Errorf("at %s: %q, %v", addr, text, err)
		}
		return res, string(text)
	}
	for _, addr := range []string{p.addr, "127.0.0.1:" + admin} {
		testkit.Eventually(t, "it is done", func() bool { _, text := ask(addr, ""); return strings.Contains(text, `"done"`) })
		if _, text := ask(addr, ""); !strings.Contains(text, `"bytes":9,"truncated":true`) {
			t.Errorf("at %s: %s", addr, text)
		}
	}
	res, text := ask(p.addr, "/result")
	h := res.Header
	if res.StatusCode != 201 || text != "got or" || h.Get("X-Weir-Truncated") != "9" ||
		h.Get("Cache-Control") != "no-store" ||
		h.Get("Content-Type") != "text/plain; charset=utf-8" ||
		h.Get("Content-Security-Policy") != "sandbox; frame-ancestors 'none'" ||
		h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("at the data port: %d %v %q", res.StatusCode, h, text)
	}
	if res, text = ask("127.0.0.1:"+admin, "/result"); res.StatusCode != 421 ||
		!strings.Contains(text, "the port for clients") || strings.Contains(text, "got") {
		t.Errorf("at the port for operators: %d %q", res.StatusCode, text)
	}
}

// Without a queue there are no rules with defer.
func TestDeferralOff(t *testing.T) {
	env := deferring(t, newShop(t), "algorithm: fixed, limit: 1, window: 1", "")
	at := slices.Index(env, "DEFER_URL")
	cmd := program(t, slices.Delete(env, at, at+2))
	if out, errs := testkit.Ends(t, cmd, 2); !strings.Contains(out+errs, "rules[0].defer: DEFER_URL is not set") {
		t.Errorf("it says %s%s", out, errs)
	}
}

// What cannot be stored is refused, with the reason in answer, log and count.
func TestDeferralBounds(t *testing.T) {
	s := newShop(t)
	// one entry is accepted per second, and the line has room for one
	p := launch(t, append(deferring(t, s, "algorithm: fixed, limit: 1, window: 3600", "perKey: 1"), "DEFER_RATE", "1"))
	p.gets("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)
	p.stored("", "first")
	for _, f := range []struct{ answer, log string }{
		{`"deferred":"too many requests are being stored"`,
			"WARN Deferred - DEFER_RATE is reached, refusing rule=orders rate=1 "},
		{`"deferred":"queue is full"`, "WARN Deferred - Queue is full, refusing rule=orders bound=line waiting=1 "},
	} {
		testkit.Eventually(t, f.answer, func() bool {
			status, text := p.call("POST /orders X-Shop=a "+async, "more")
			return status == 429 && strings.Contains(text, f.answer)
		})
		p.Logged(f.log)
	}
	p.Logged("WARN RateLimiter - Requests rejected: limit exceeded rule=orders")
	if n := p.counted("orders", "deferred"); n != "1" {
		t.Errorf("%s are counted as deferred, want 1", n)
	}
}
