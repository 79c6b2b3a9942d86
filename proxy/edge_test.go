package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit"
)

// The targets are changed by POST while requests come: none is lost. Their
// endpoints need ADMIN_TOKEN, and the log does not tell it.
func TestTargetsAreReplaced(t *testing.T) {
	const token = "open-sesame"
	name := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }
	}
	one, two := httptest.NewServer(name("one")), httptest.NewServer(name("two"))
	defer one.Close()
	defer two.Close()
	p := launch(t, []string{"TARGET_URL", one.URL, "RATE_LIMIT_LIMIT", "1000000", "RATE_LIMIT_WINDOW", "3600", "ADMIN_TOKEN", token, "GATE", "off"})
	if first := p.Logged("INFO Proxy - Started version="); strings.Contains(first, token) {
		t.Errorf("the log tells the token: %s", first)
	}
	change := func(body, fields string, want int) string {
		status, text := exchange(t, p.addr, fmt.Sprintf("POST /config/targets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", fields, len(body), body))
		if status != want {
			t.Errorf("POST %s with %q: %d %s, want %d", body, fields, status, text, want)
		}
		return text
	}
	const allowed = "Authorization: Bearer " + token + "\r\n"
	both, second := fmt.Sprintf(`{"targets":[%q,%q]}`, one.URL, two.URL), fmt.Sprintf(`{"targets":[%q]}`, two.URL)
	change(both, "", 403)
	change(both, "Authorization: Bearer open\r\n", 403)
	if text := change(`{"targets":["http://a:1","ftp://b"]}`, allowed, 400); !strings.Contains(text, `"path":"targets[1]"`) {
		t.Errorf("told %s", text)
	}
	if text := change(fmt.Sprintf(`{"targets":[%q,%q]}`, one.URL, one.URL), allowed, 400); !strings.Contains(text, "is listed twice") {
		t.Errorf("told %s", text)
	}
	if status, text := exchange(t, p.addr, "GET /config/targets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+allowed+"\r\n"); status != 200 || strings.Contains(text, two.URL) || !strings.Contains(text, `"url":"`+one.URL) {
		t.Errorf("GET /config/targets: %d %s", status, text)
	}
	var asked atomic.Int64
	var load sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		load.Go(func() {
			for !over.Load() {
				if status, body := ask(t, p.addr, "/x"); status != 200 {
					t.Errorf("answered %d %s", status, body)
					return
				}
				asked.Add(1)
			}
		})
	}
	for i := range 40 {
		change([]string{both, second}[i%2], allowed, 200)
		for since := asked.Load(); asked.Load() < since+8 && !t.Failed(); time.Sleep(time.Millisecond) {
		}
	}
	over.Store(true)
	load.Wait()
	if _, body := ask(t, p.addr, "/x"); body != "two" {
		t.Errorf("after the last change %q answers", body)
	}
}

// With ADMIN_PORT the own endpoints are there and nowhere else, and their paths
// are the target's at the data port.
func TestAdminPort(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "target", r.URL.Path) }))
	defer target.Close()
	port := testkit.FreePort(t)
	p := launch(t, []string{"TARGET_URL", target.URL, "ADMIN_PORT", port})
	for _, path := range []string{"/metrics", "/config/limits", "/config/targets", "/actuator/health", "/reload"} {
		if _, body := ask(t, p.addr, path); body != "target"+path {
			t.Errorf("%s at the data port: %.200s", path, body)
		}
	}
	for path, part := range map[string]string{"/metrics": "\nratelimiter_client_connections ", "/config/limits": `"source":"default"`,
		"/config/targets": `"status":"up"`, "/actuator/health": `"status":"UP"`} {
		if status, body := ask(t, "127.0.0.1:"+port, path); status != 200 || !strings.Contains(body, part) {
			t.Errorf("%s at the admin port: %d %.200s, want something with %q", path, status, body, part)
		}
	}
	if status, body := ask(t, "127.0.0.1:"+port, "/x"); status != 404 {
		t.Errorf("/x at the admin port: %d %s", status, body)
	}
}

// exchange sends a request that closes its connection.
func exchange(t *testing.T, addr, request string) (int, string) {
	t.Helper()
	c := testkit.Dial(t, addr)
	defer c.Close()
	return exchangeOn(c, request)
}

// exchangeOn sends a request over c, which has served before or not.
func exchangeOn(c *testkit.Conn, request string) (int, string) {
	c.T.Helper()
	c.Send(request)
	res, body := c.Answer("GET")
	return res.StatusCode, body
}
