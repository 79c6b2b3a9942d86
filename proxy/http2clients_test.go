package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// http2At returns a client that uses HTTP/2 without TLS.
func http2At(t *testing.T, addr string) *testkit.Client {
	c := testkit.NewClient(t, "http://"+addr)
	tr := c.Transport.(*http.Transport)
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	return c
}

// Clients of HTTP/2 notice nothing when a proxy is taken over: what is in progress is answered by the old one, which
// then ends, and what follows by the new one.
func TestHTTP2Takeover(t *testing.T) {
	at, release := make(chan bool, 1), make(chan bool)
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			at <- true
			<-release
		}
		_, _ = w.Write([]byte(r.URL.Path))
	})
	env := append(takeover(t), "TARGET_URL", target, "HTTP2", "all", "GATE", "off", "RATE_LIMIT_LIMIT", "1000000000",
		"DRAIN_GRACE", "100ms", "DRAIN_TIMEOUT", testkit.Timeout.String(), "TARGET_TIMEOUT", testkit.Timeout.String())
	old := launch(t, env)
	c, held := http2At(t, old.Addr), make(chan string, 1)
	go func() {
		res, err := c.Get("http://" + old.Addr + "/held")
		if err != nil {
			held <- err.Error()
			return
		}
		held <- res.Status
	}()
	testkit.Receive(t, at, "the request")
	calls := startLoad(t, func(int, int) bool {
		status, _, body := c.Do("GET", "/x", "")
		return status == 200 && body == "/x"
	})
	calls.more(200)
	next := launch(t, env)
	old.Logged("INFO Proxy - Draining")
	testkit.Eventually(t, "the successor answers", func() bool {
		_, text := next.Call("GET /actuator/prometheus")
		return testkit.Samples(t, text)[`ratelimiter_requests_by_protocol_total{protocol="h2c"}`] > 0
	})
	calls.more(200)
	calls.stop()
	close(release)
	if got := testkit.Receive(t, held, "the answer"); got != "200 OK" {
		t.Errorf("what was in progress is answered %s", got)
	}
	old.RequireExit(0)
}

// What a limit refuses of clients of HTTP/2 is delivered later too, once for each Idempotency-Key.
func TestHTTP2Deferral(t *testing.T) {
	s := newShop(t)
	p := launch(t, append(deferring(t, s, "algorithm: fixed, limit: 1, window: 1", "reserve: 0"), "HTTP2", "all"))
	c := http2At(t, p.Addr)
	var made promise
	order := func(key string) int {
		status, _, text := c.Do("POST", "/orders", key, "X-Shop", "a", "Prefer", "respond-async", "Idempotency-Key", key)
		if status == 202 {
			if err := json.Unmarshal([]byte(text), &made); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		return status
	}
	key := ""
	testkit.Eventually(t, "an order is stored", func() bool {
		key += "k"
		return order(key) == 202
	})
	first := made.ID
	if status := order(key); status != 202 || made.ID != first {
		t.Errorf("the same order is answered %d with %s, want %s", status, made.ID, first)
	}
	testkit.Eventually(t, "it is delivered", func() bool {
		_, _, text := c.Do("GET", "/deferred/"+first, "", "X-Shop", "a")
		return strings.Contains(text, `"done"`)
	})
	if status, _, text := c.Do("GET", "/deferred/"+first+"/result", "", "X-Shop", "a"); status != 201 ||
		text != "got "+key {
		t.Errorf("the result is %d %q", status, text)
	}
	if late := s.late(); len(late) != 1 || late[0] != key {
		t.Errorf("delivered %q", late)
	}
}
