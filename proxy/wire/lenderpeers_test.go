package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// Requests of many clients share connections to a target, and each gets its own answer.
func TestTargetHTTP2Streams(t *testing.T) {
	t.Parallel()
	var conns sync.Map
	addr := h2cTarget(t, func(w http.ResponseWriter, q *http.Request) {
		conns.Store(q.RemoteAddr, true)
		echoBody(w, q)
	})
	r := start(t, "h2c://"+addr, "TARGET_STREAMS_MAX", "10")
	postAll(t, r, func() *http.Client { return &http.Client{Transport: new(http.Transport)} })
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n == 0 || n > 40 {
		t.Errorf("%d connections", n)
	}
}

// secureTarget runs a target with TLS that speaks HTTP/2 or only HTTP/1.1, and returns what a proxy knows of
// it.
func secureTarget(t *testing.T, h http.HandlerFunc, http2 bool) *roster.Target {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	secure := testkit.Trust(pair, "127.0.0.1")
	secure.NextProtos = []string{"h2", "http/1.1"}
	addr := s.Listener.Addr().String()
	return &roster.Target{URL: "https://" + addr, Addr: addr, Host: addr, Secure: secure, HTTP2: true}
}

// ALPN decides about the version. The log says once that a target does not speak HTTP/2.
func TestTargetALPN(t *testing.T) {
	t.Parallel() // looks once a second
	for http2, proto := range map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			r := startWith(t, func(c *Config) { c.Targets = []*roster.Target{secureTarget(t, echo, http2)} }, "http://x")
			wait := r.together(50, func(_ int, c *testkit.Conn) {
				for range 20 {
					c.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
					a, body := c.Answer("POST")
					if a.StatusCode != 200 || a.Header.Get("X-Proto") != proto || body != "bodybodybody" {
						t.Errorf("%d by %s: %q", a.StatusCode, a.Header.Get("X-Proto"), body)
					}
				}
			})
			wait()
			if http2 {
				return
			}
			const line = "Target does not speak h2, using HTTP/1.1"
			r.until("the log says so", func() bool { return strings.Contains(r.log.String(), line) })
			r.dial().Ask(get, 200)
			if n := strings.Count(r.log.String(), line); n != 1 {
				t.Errorf("the log says so %d times", n)
			}
		})
	}
}

// agreement are requests whose answers do not depend on the version to the target.
var agreement = []string{
	"GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Some: Thing\r\nCookie: a=b; c=d\r\nTE: trailers\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n", "HEAD /length HTTP/1.1\r\nHost: x\r\n\r\n", "GET /length HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /early HTTP/1.1\r\nHost: x\r\n\r\n", "GET /none HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /same HTTP/1.1\r\nHost: x\r\n\r\n", "GET /failed HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n", "GET /cut HTTP/1.1\r\nHost: x\r\n\r\n",
	"DELETE / HTTP/1.1\r\nHost: x:80\r\nConnection: x-own\r\nX-Own: 1\r\nKeep-Alive: 5\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
	"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 300_000),
}

// variety answers in different ways.
func variety(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	h := w.Header()
	h.Set("Date", "Mon, 19 Jan 2026 16:30:00 GMT")
	h["X-Twice"] = []string{"a", "b, c"}
	h.Set("X-Seen", fmt.Sprintf("%s %s %s %d %v", q.Method, q.URL, q.Host, q.ContentLength, q.Header))
	switch q.URL.Path {
	case "/early":
		h.Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/same":
		w.WriteHeader(http.StatusNotModified)
	case "/failed":
		w.WriteHeader(http.StatusInternalServerError)
	case "/cut":
		_, _ = w.Write(make([]byte, 600_000))
		panic(http.ErrAbortHandler)
	case "/pieces":
		for range 5 {
			_, _ = w.Write([]byte("piece"))
			_ = http.NewResponseController(w).Flush()
		}
	case "/length":
		h.Set("Content-Length", "600000")
		_, _ = w.Write(make([]byte, 600_000))
	}
	_, _ = w.Write(body)
}

// The client gets the same answer whatever the version to the target, which only Via names, and the target
// the same request but for Connection.
func TestTargetVersionsAgree(t *testing.T) {
	t.Parallel()
	addr := h2cTarget(t, variety)
	const fields = "RATE_LIMIT_HEADERS" // those have the time
	older, newer := start(t, "http://"+addr, fields, "off"), start(t, "h2c://"+addr, fields, "off")
	for _, request := range agreement {
		a, b := older.exchange(request), newer.exchange(request)
		a = strings.ReplaceAll(a, "Via:[1.1 weir] X-Seen", "Via:[2.0 weir] X-Seen")
		if a = strings.ReplaceAll(a, "Connection:[TE] ", ""); a != b { // RFC 9110 section 10.1.4
			t.Errorf("%.100q: the client gets\n%.2000s\nby HTTP/1.1, and\n%.2000s\nby HTTP/2", request, a, b)
		}
	}
}

// exchange returns what a client gets for a request.
func (r *rig) exchange(request string) string {
	c := r.dial()
	c.Send(request)
	var got strings.Builder
	for {
		method, _, _ := strings.Cut(request, " ")
		a, err := http.ReadResponse(c.In, &http.Request{Method: method})
		if err != nil {
			return got.String() + err.Error()
		}
		body, err := io.ReadAll(a.Body)
		if err != nil { // how much of it comes is a matter of chance
			body = nil
		}
		fmt.Fprintf(&got, "%s %s %v %v %d %q %v\n", a.Proto, a.Status, a.Header, a.TransferEncoding, a.ContentLength,
			body, err)
		if a.StatusCode >= 200 {
			return got.String()
		}
	}
}

// A client that reads nothing of a large answer delays no other answer, and holds only a part of its own.
func TestTargetHTTP2SlowClient(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	var written atomic.Int64
	addr := h2cTarget(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/large" {
			_, _ = w.Write(make([]byte, 1<<20))
			return
		}
		for range size / 1024 {
			n, err := w.Write(make([]byte, 1024))
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	})
	r := startWith(t, one, "h2c://"+addr)
	slow := r.dial()
	slow.Send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
	r.until("the answer has begun", func() bool { return written.Load() > 0 })
	other := r.dial()
	for range 20 {
		other.Send(get)
		if a, body := other.Answer("GET"); a.StatusCode != 200 || len(body) != 1<<20 {
			t.Fatalf("beside a client that reads nothing: %d, %d bytes", a.StatusCode, len(body))
		}
	}
	if n := written.Load(); n >= size/2 {
		t.Errorf("%d bytes of an answer that is not read have left the target", n)
	}
	if a, body := slow.Answer("GET"); a.StatusCode != 200 || len(body) != size {
		t.Errorf("the large answer: %d, %d bytes of %d", a.StatusCode, len(body), size)
	}
}

// Health checks use the target's protocol.
func TestTargetHTTP2Checks(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	var protos sync.Map
	addr := h2cTarget(t, func(w http.ResponseWriter, q *http.Request) {
		protos.Store(q.Proto, true)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r := start(t, "h2c://"+addr, "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "20ms")
	for _, is := range []string{"up", "down", "up"} {
		down.Store(is == "down")
		r.until("the check says "+is, func() bool { return r.Targets.Status()[0].Check == is })
	}
	if _, other := protos.Load("HTTP/1.1"); other {
		t.Error("a check was made by HTTP/1.1")
	}
}

// A target that shuts down orderly loses no request, and the other one is used.
func TestTargetHTTP2ShutsDown(t *testing.T) {
	t.Parallel()
	var servers []*http.Server
	var urls []string
	for range 2 {
		addr := h2cTarget(t, echo, func(s *http.Server) { servers = append(servers, s) })
		urls = append(urls, "h2c://"+addr)
	}
	r := start(t, strings.Join(urls, ","))
	done, end := r.load(16, func(_ int, c *testkit.Conn) bool {
		c.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
		a, body := c.Answer("POST")
		if a.StatusCode != 200 || body != "bodybodybody" {
			t.Errorf("%d %q", a.StatusCode, body)
		}
		return a.StatusCode == 200
	})
	r.until("there is load", func() bool { return done.Load() > 500 })
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	if err := servers[0].Shutdown(ctx); err != nil {
		t.Error(err)
	}
	before := done.Load()
	r.until("the other target is used", func() bool { return done.Load() > before+500 })
	end()
}
