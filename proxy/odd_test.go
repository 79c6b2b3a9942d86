package main

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// oddRequests are requests that are unusual, or wrong in a way that fronts and applications accept.
func oddRequests() map[string]string {
	const host = "Host: a.example\r\n"
	get := func(target, fields string) string { return "GET " + target + " HTTP/1.1\r\n" + fields + "\r\n" }
	post := func(fields, body string) string { return "POST /odd HTTP/1.1\r\n" + host + fields + "\r\n" + body }
	return map[string]string{
		"a head of 21 KB":             get("/odd", host+strings.Repeat("X-A: "+strings.Repeat("a", 6900)+"\r\n", 3)),
		"a head of 60 KB":             get("/odd", host+strings.Repeat("X-A: "+strings.Repeat("a", 6900)+"\r\n", 9)),
		"a head of 100 KB":            get("/odd", host+strings.Repeat("X-A: "+strings.Repeat("a", 6900)+"\r\n", 15)),
		"a cookie of 7 KB":            get("/odd", host+"Cookie: a="+strings.Repeat("a", 7000)+"\r\n"),
		"a target of 7 KB":            get("/odd?"+strings.Repeat("a", 7000), host),
		"90 fields":                   get("/odd", host+manyFields(90)),
		"120 fields":                  get("/odd", host+manyFields(120)),
		"600 fields":                  get("/odd", host+manyFields(600)),
		"the same field 90 times":     get("/odd", host+strings.Repeat("X-A: a\r\n", 90)),
		"an IPv6 host":                get("/odd", "Host: [::1]:80\r\n"),
		"an IPv6 host without port":   get("/odd", "Host: [::1]\r\n"),
		"a host with an empty port":   get("/odd", "Host: a.example:\r\n"),
		"a host with a dot":           get("/odd", "Host: a.example.\r\n"),
		"a host with an empty label":  get("/odd", "Host: a..example\r\n"),
		"a host with odd characters":  get("/odd", "Host: a%b,c\r\n"),
		"an empty host":               get("/odd", "Host:\r\n"),
		"HTTP/1.0 without host":       "GET /odd HTTP/1.0\r\n\r\n",
		"HTTP/1.0 with host":          "GET /odd HTTP/1.0\r\n" + host + "\r\n",
		"UTF-8 in the path":           get("/odd/\u00e9", host),
		"UTF-8 in the query":          get("/odd?q=\u00e9\u4e16", host),
		"Latin-1 in the path":         get("/odd/\xe9", host),
		"odd characters":              get("/odd/<>\"{}|\\^`?a=[]{}|", host),
		"a fragment":                  get("/odd#a", host),
		"a wrong escape":              get("/odd?a=%zz", host),
		"a wrong escape in the path":  get("/odd/%zz", host),
		"an escape of a byte":         get("/odd/%ff%00", host),
		"two slashes":                 get("//odd//a", host),
		"dots":                        get("/a/../odd/./", host),
		"an absolute target":          get("http://a.example/odd", host),
		"an absolute target, no path": get("http://a.example", host),
		"an asterisk":                 "OPTIONS * HTTP/1.1\r\n" + host + "\r\n",
		"an unknown method":           "PROPFIND /odd HTTP/1.1\r\n" + host + "\r\n",
		"an odd method":               "X-A!b /odd HTTP/1.1\r\n" + host + "\r\n",
		"a method in lower case":      "get /odd HTTP/1.1\r\n" + host + "\r\n",
		"HEAD":                        "HEAD /odd HTTP/1.1\r\n" + host + "\r\n",
		"PUT without body":            "PUT /odd HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n",
		"a body":                      post("Content-Length: 5\r\n", "12345"),
		"a chunked body":              post("Transfer-Encoding: chunked\r\n", "5\r\n12345\r\n0\r\n\r\n"),
		"an expected body":            post("Expect: 100-continue\r\nContent-Length: 5\r\n", "12345"),
		"an empty field":              get("/odd", host+"X-A:\r\n"),
		"UTF-8 in a field":            get("/odd", host+"X-A: \u00e9\r\n"),
		"Latin-1 in a field":          get("/odd", host+"X-A: \xe9\r\n"),
		"an underscore":               get("/odd", host+"X_A: a\r\n"),
		"an upgrade": get("/odd",
			host+"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+
				"dGhlIHNhbXBsZSBub25jZQ==\r\n"),
		"an upgrade to HTTP/2": get("/odd",
			host+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"),
		"trailers":               get("/odd", host+"Connection: TE\r\nTE: trailers\r\n"),
		"many options":           get("/odd", host+"Connection: keep-alive"+strings.Repeat(", a", 40)+"\r\n"),
		"credentials":            get("/odd", host+"Authorization: Basic \u00e9\r\n"),
		"an odd X-Forwarded-For": get("/odd", host+"X-Forwarded-For: unknown, , [::1\r\n"),
		"fields of a front": get("/odd",
			host+"Forwarded: for=unknown\r\nVia: 1.0 a\r\nX-Real-IP: a\r\nMax-Forwards: 0\r\n"),
		"an unknown expectation": get("/odd", host+"Expect: a\r\n"),
	}
}

// manyFields are n fields of different names.
func manyFields(n int) (fields string) {
	for i := range n {
		fields += fmt.Sprintf("X-Field-%d: a\r\n", i)
	}
	return fields
}

// oddStatus is the status of an answer to the bytes of a request; 0 if the connection is closed instead.
func oddStatus(at testkit.Endpoint, request string) int {
	if res, _, _ := at.Raw(request); res != nil {
		return res.StatusCode
	}
	return 0
}

// A request that the application answers behind a front is answered likewise if the front asks first.
func TestOddRequests(t *testing.T) {
	for _, f := range []front{nginx(), haproxy(), caddy()} {
		t.Run(f.folder, func(t *testing.T) {
			a := startAsker(t, f)
			silent := f.silent().start(t, "127.0.0.1:1", a.app)
			for name, request := range oddRequests() {
				got, want := oddStatus(a.Endpoint, request), oddStatus(silent, request)
				refused := name == "a fragment" && got == 400 || // some applications read it as part of the path
					name == "90 fields" && f.folder == "haproxy" && got == 431
				if got != want && !refused {
					t.Errorf("%s: %d, without Weir %d", name, got, want)
				}
			}
		})
	}
}

// HAProxy describes all fields of a request, or refuses it: a client does not choose which are left out.
func TestHAProxyBoundsFields(t *testing.T) {
	a := startAsker(t, haproxy())
	for fields, want := range map[string]int{manyFields(80): 200, manyFields(80) + "X-Field-0: b\r\n": 200,
		manyFields(81): 431} {
		if got := oddStatus(a.Endpoint, "GET /odd HTTP/1.1\r\nHost: a.example\r\n"+fields+"\r\n"); got != want {
			t.Errorf("%d fields: %d, want %d", strings.Count(fields, "\n"), got, want)
		}
	}
}

// With DECISION_UNDESCRIBED=refuse, what cannot be described is refused behind each front, and refused
// requests stay refused however large their fields are.
func TestUndescribedIsRefused(t *testing.T) {
	large, many := oddRequests()["a head of 100 KB"], oddRequests()["600 fields"]
	for _, f := range []front{nginx(), caddy()} {
		t.Run(f.folder, func(t *testing.T) {
			a := startAsker(t, f, "DECISION_UNDESCRIBED", "refuse")
			for _, request := range []string{large, many} {
				if status := oddStatus(a.Endpoint, request); status != 431 && status != 400 {
					t.Errorf("%.40q: %d", request, status)
				}
			}
			if n := a.proxy.Metrics()["ratelimiter_check_undescribed_total"]; n < 1 {
				t.Errorf("%v requests could not be described", n)
			}
			a.proxy.Logged("WARN DecisionService - Requests cannot be described outcome=refused count=1 ")
			a.gets("POST /only Host=a.example X-Key=1", 200)
			a.refusesLarge()
		})
	}
}
