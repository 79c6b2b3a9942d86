package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred/callback"
)

// holding is a shop that answers no delivery until release is called. Each one that arrives is
// told.
func holding(t *testing.T) (s *shop, arrived chan string, release func()) {
	s, arrived = newShop(t), make(chan string, 1000)
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = func(r *http.Request) {
		if r.Header.Get("X-Weir-Deferred") != "" {
			arrived <- r.Header.Get("Idempotency-Key")
			<-held
		}
	}
	return s, arrived, release
}

// A proxy that ends accepts no connections while it waits for a delivery that takes long.
func TestDrainBesideDeliveries(t *testing.T) {
	s, arrived, release := holding(t)
	env := append(deferring(t, s, "algorithm: fixed, limit: 1, window: 1", "reserve: 0"),
		"DRAIN_TIMEOUT", testkit.Timeout.String(), "DRAIN_GRACE", "10ms",
		"PORT", testkit.FreePort(t)) // where nobody else listens afterwards
	p := launch(t, env)
	made := p.stored("", "slow")
	testkit.Receive(t, arrived, "a delivery")
	p.Signal(syscall.SIGTERM)
	testkit.Eventually(t, "no connections are accepted", func() bool { return !p.Listens() })
	release()
	p.RequireExit(0)
	p = launch(t, env)
	if state := p.state(made.ID); state != "done" {
		t.Errorf("the delivery is %s", state)
	}
}

// A proxy gives the queue up to its successor though a target does not answer. What it was
// delivering is delivered again if it has an Idempotency-Key, and unknown otherwise.
func TestDeferralTakeoverOfSlowDeliveries(t *testing.T) {
	s, arrived, release := holding(t)
	env := append(takeover(t), deferring(t, s, "algorithm: fixed, limit: 1, window: 1", "reserve: 0, order: none")...)
	env = append(env, "DRAIN_TIMEOUT", "10m")
	old := launch(t, env)
	keyed, unkeyed := old.stored("Idempotency-Key=k", "keyed"), old.stored("", "unkeyed")
	for range 2 {
		testkit.Receive(t, arrived, "a delivery")
	}
	next := launch(t, env)
	next.Logged("INFO Deferred - Opened queue")
	if got := testkit.Receive(t, arrived, "the delivery by the successor"); got != "k" {
		t.Errorf("%q is delivered again", got)
	}
	release()
	next.becomes(keyed.ID, "done")
	next.becomes(unkeyed.ID, "unknown")
	old.RequireExit(0)
}

// buyers send orders and keep what became of them.
type buyers struct {
	*load
	mu       sync.Mutex
	accepted map[string]string // body by id
	refused  int               // 429
}

func buyAt(at testkit.Endpoint) *buyers {
	b := &buyers{accepted: make(map[string]string)}
	b.load = startLoad(at.T, func(n, i int) bool { return b.buys(at, fmt.Sprintf("order-%d.%d", n, i), n%2 == 0) })
	return b
}

// buys sends an order and reports whether it was accepted. One that is not answered is neither
// accepted nor refused.
func (b *buyers) buys(at testkit.Endpoint, body string, keyed bool) (accepted bool) {
	request := "POST /orders X-Shop=a " + async
	if keyed {
		request += "Idempotency-Key=" + body
	}
	res, text, err := at.Try(request, body)
	if res == nil {
		time.Sleep(time.Millisecond) // nobody listens
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch res.StatusCode {
	case http.StatusCreated:
	case http.StatusTooManyRequests:
		b.refused++
	case http.StatusAccepted:
		var made promise
		if err == nil && json.Unmarshal([]byte(text), &made) == nil {
			b.accepted[made.ID] = body
			return true
		}
	default:
		at.T.Errorf("answered %d %s", res.StatusCode, text)
	}
	return false
}

// Orders are accepted while proxies take over from each other, and some of them are killed in the
// middle of it: the predecessor as soon as its successor is there, or the successor once it has
// the queue. Nothing that was accepted is lost, and nothing without Idempotency-Key is sent twice.
func TestDeferralTakeoverKilled(t *testing.T) {
	s := newShop(t)
	env := append(takeover(t),
		deferring(t, s, "algorithm: token, capacity: 1, fillRate: 300", "reserve: 0, order: none, perKey: 100000")...)
	env = append(env, "DEFER_RATE", "100", "DEFER_MAX", "1000000", "DRAIN_GRACE", "10ms", "DRAIN_TIMEOUT", "1s")
	p := launch(t, env)
	load := buyAt(p.Endpoint)
	for round := range 6 {
		load.more(20)
		next := launch(t, env)
		switch round % 3 {
		case 0:
			p.Kill()
		case 1:
			next.Logged("INFO Deferred - Opened queue")
			next.Kill()
			p.Status()
			next = launch(t, env)
		default:
			p.RequireExit(0)
		}
		p = next
		p.Logged("INFO Deferred - Opened queue")
	}
	load.more(20)
	load.stop()
	t.Logf("%d orders accepted, %d refused", len(load.accepted), load.refused)
	for id, body := range load.accepted {
		keyed := strings.HasPrefix(body, "order-0.") || strings.HasPrefix(body, "order-2.")
		state := ""
		testkit.Eventually(t, body+" is delivered",
			func() bool { state = p.state(id); return state == "done" || state == "unknown" })
		if keyed && state != "done" {
			t.Errorf("%s is %s", body, state)
		}
		n := 0
		for _, got := range s.got() {
			if got == body {
				n++
			}
		}
		if n == 0 && state == "done" || n > 1 && !keyed {
			t.Errorf("%s, %s, was delivered %d times", body, state, n)
		}
	}
}

// A client that names a URL receives the outcome of its request there, signed, even if the proxy
// crashes before. A request with a URL that is not allowed is refused before anything is stored.
func TestDeferralCallback(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secret := testkit.Must(callback.ParseSecret(key))(t)
	told := make(chan string, 10) // id and state
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	receiver := serveTLS(t, pair, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var s struct{ ID, State string }
		at, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
		if err != nil || json.Unmarshal(body, &s) != nil ||
			r.Header.Get("webhook-signature") != secret.Sign(r.Header.Get("webhook-id"), time.Unix(at, 0), body) {
			t.Errorf("the receiver got %v %s", r.Header, body)
		}
		told <- s.ID + " " + s.State
	})
	addr := strings.TrimPrefix(receiver, "https://")
	trusted, _ := testkit.WritePair(t, pair)

	s := newShop(t)
	env := append(deferring(t, s, "algorithm: fixed, limit: 1, window: 1", "reserve: 0, callback: true"),
		"DEFER_CALLBACK_HOSTS", addr, "DEFER_CALLBACK_SECRET", key, "SSL_CERT_FILE", trusted)
	p := launch(t, env)
	wish := func(url string) string { return `Prefer=weir-callback="` + url + `" ` }
	made := p.stored(wish(receiver+"/paid?a=1,2"), "told")
	if got := testkit.Receive(t, told, "a callback"); got != made.ID+" done" {
		t.Errorf("the receiver was told %q, want %s", got, made.ID)
	}
	p.Await("GET /deferred/"+made.ID+" X-Shop=a", 200,
		`"callback":{"url":"`+receiver+`/paid?a=1,2","state":"done","attempts":1,"status":200}`)
	p.Require("GET /config/deferred?state=done&rule=deferred%20callbacks", 200, receiver)

	p.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)
	for _, url := range []string{"https://169.254.169.254/", "https://localhost/", "http://" + addr,
		"https://user@" + addr, "https://[::1]/", "x"} {
		testkit.Eventually(t, url+" is refused", func() bool {
			status, text := p.Call("POST /orders X-Shop=a "+async+wish(url), "not told")
			if status == 202 {
				t.Fatalf("%s is accepted", url)
			}
			return status == 400 && strings.Contains(text, "; allowed are https URLs of the hosts") &&
				!strings.Contains(text, receiver)
		})
	}
	kept := p.stored(wish(receiver), "told-later")
	p.Kill()
	p = launch(t, env)
	p.Require("POST /config/deferred", 200, "", `{"rule":"orders","paused":false}`)
	if got := testkit.Receive(t, told, "a callback"); got != kept.ID+" done" {
		t.Errorf("the receiver was told %q, want %s", got, kept.ID)
	}
}
