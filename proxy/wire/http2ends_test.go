package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
)

// A stream that was reset counts as open until the target has ended its work for it.
func TestHTTP2ResetStreamsCount(t *testing.T) {
	t.Parallel()
	at, release := make(chan string, 10), make(chan struct{})
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) {
		if at <- q.URL.Path; q.URL.Path != "/free" {
			<-release
		}
	}, "HTTP2_STREAMS_MAX", "2")
	c := r.rawHTTP2(65535)
	first := c.get("/1")
	testkit.Receive(t, at, "the first request")
	c.must(c.framer.WriteRSTStream(first, xnet.ErrCodeCancel))
	second := c.get("/2")
	testkit.Receive(t, at, "the second request")
	if status, _ := c.response(c.get("/3")); status != xnet.ErrCodeRefusedStream.String() {
		t.Errorf("beside a stream that is open and one that was reset: %s", status)
	}
	close(release)
	if status, _ := c.response(second); status != "200" {
		t.Errorf("the second request: %s", status)
	}
	r.until("the target has ended its work", func() bool { return r.samples()["ratelimiter_upstream_abandoned"] == 0 })
	c.get("/free")
	testkit.Receive(t, at, "a request in place of the first")
	if status, _ := c.response(c.get("/free")); status != "200" {
		t.Errorf("the last request: %s", status)
	}
}

// What a client has asked for is answered although it has ended its half of the connection, which then closes.
// A request of which a part is missing is not.
func TestHTTP2ClientEnds(t *testing.T) {
	t.Parallel()
	at, release := make(chan string, 10), make(chan struct{})
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		at <- q.URL.Path
		<-release
		_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
	})
	conn := r.dial()
	c := r.rawHTTP2On(conn, 65535)
	whole, part := c.get("/whole"), c.request("POST", "/part", false, "content-length", "10")
	testkit.Receive(t, at, "the request")
	c.must(conn.Conn.(*net.TCPConn).CloseWrite())
	if status, _ := c.response(part); status != xnet.ErrCodeInternal.String() {
		t.Errorf("a request that cannot be completed: %s", status)
	}
	close(release)
	if status, n := c.response(whole); status != "200" || n != 10_000 {
		t.Errorf("status %s with %d bytes", status, n)
	}
	if _, err := c.framer.ReadFrame(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
}

// A client that disconnects does not wait for its answers.
func TestHTTP2ClientCloses(t *testing.T) {
	t.Parallel()
	at, release := make(chan string, 10), make(chan struct{})
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) {
		at <- q.URL.Path
		<-release
	})
	defer close(release)
	conn := r.dial()
	r.rawHTTP2On(conn, 65535).get("/")
	testkit.Receive(t, at, "the request")
	_ = conn.Close()
	r.until("the client is missed", func() bool { return r.samples()["ratelimiter_http2_connections"] == 0 })
}

// Part of the preface must be followed by the rest within HEAD_TIMEOUT.
func TestHTTP2PartialPreface(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "HEAD_TIMEOUT", "50ms", "IDLE_TIMEOUT", "1h")
	for _, n := range []int{1, 10, len(xnet.ClientPreface) - 1} {
		c := r.dial()
		c.Send(xnet.ClientPreface[:n])
		if a, err := http.ReadResponse(c.In, nil); err != nil || a.StatusCode != 408 {
			t.Errorf("after %d bytes: %v, %v", n, a, err)
		}
	}
}

// The answer to HEAD has no body, also if the head cannot be read.
func TestHTTP2BadHead(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "HEAD_MAX_BYTES", "1024")
	c := r.rawHTTP2(65535)
	large := strings.Repeat("a", 6000)
	for _, test := range []struct {
		method, path string
		fields       []string
		status       string
	}{
		{"HEAD", "/", []string{"a", large}, "431"}, {"HEAD", "/%zz", nil, "400"},
		{"HEAD", "/", []string{"content-length", "x"}, "400"},
	} {
		if status, n := c.response(c.request(test.method, test.path, true, test.fields...)); status != test.status || n > 0 {
			t.Errorf("%s %s: %s with %d bytes", test.method, test.path, status, n)
		}
		if status, n := c.response(c.request("GET", test.path, true, test.fields...)); status != test.status || n == 0 {
			t.Errorf("GET %s: %s with %d bytes", test.path, status, n)
		}
	}
}

// The clients of many connections are told one after the other that those drain, and have time to go.
func TestHTTP2DrainSpread(t *testing.T) {
	t.Parallel()
	const conns, grace = 50, 200 * time.Millisecond
	r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "EVENT_LOOPS", "1", "DRAIN_GRACE", grace.String())
	for range conns {
		c := r.rawHTTP2(65535)
		c.response(c.get("/"))
	}
	told := make(chan []time.Duration, 1)
	s := r.loops[0]
	s.loop.Post(func(now time.Time) {
		s.drain(now)
		var list []time.Duration
		s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
			if h, ok := h.(*http2Conn); ok {
				list = append(list, h.m.Deadline().Sub(now))
			}
		})
		slices.Sort(list)
		told <- list
	})
	list := testkit.Receive(t, told, "the deadlines")
	if len(list) != conns {
		t.Fatalf("%d connections, want %d", len(list), conns)
	}
	for i, at := range list {
		if low, high := time.Duration(i-3)*grace/2/conns, time.Duration(i+4)*grace/2/conns; at < low || at > high {
			t.Errorf("number %d is told after %v, want about %v", i, at, time.Duration(i)*grace/2/conns)
		}
	}
}

// Clients that make no room for a response, send no body, or do not read, are counted.
func TestHTTP2Stalls(t *testing.T) {
	t.Parallel() // for the time of the timeouts
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		_, _ = w.Write(make([]byte, 1<<20))
	}, "WRITE_TIMEOUT", "300ms", "BODY_TIMEOUT", "300ms")
	c := r.rawHTTP2(0)
	if status, _ := c.response(c.get("/")); status != "INTERNAL_ERROR" {
		t.Errorf("without room for the response: %s, want INTERNAL_ERROR", status)
	}
	c = r.rawHTTP2(65535)
	if status, _ := c.response(c.request("POST", "/", false, "content-length", "5")); status != "408" {
		t.Errorf("without a body: status %s, want 408", status)
	}
	r.metrics(`http2_glitches_total{kind="window"}=1 http2_glitches_total{kind="idle"}=1`)
	c = r.rawHTTP2(1<<31 - 1)
	c.must(c.framer.WriteWindowUpdate(0, 1<<30))
	for range 50 {
		c.get("/")
	}
	r.until("the connection is closed", func() bool {
		return r.samples()[`ratelimiter_http2_closed_total{reason="stall"}`] == 1
	})
}

// A target that authenticates a connection cannot do so for a stream: the client is told to use HTTP/1.1, and other
// streams go on. Credentials for each request pass.
func TestHTTP2RequiresHTTP1(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		if scheme := q.URL.Query().Get("scheme"); scheme != "" {
			w.Header().Set("WWW-Authenticate", scheme)
			w.WriteHeader(401)
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
		}
	})
	client := http2Client(t)
	for _, test := range []struct{ scheme, want string }{
		{"NTLM", "HTTP_1_1_REQUIRED"}, {"", "200"}, {"Basic%20realm=x,Negotiate", "HTTP_1_1_REQUIRED"},
		{"Basic%20realm=x", "401"}, {"", "200"},
	} {
		a, err := client.Get("http://" + r.Addr().String() + "/?scheme=" + test.scheme)
		got := fmt.Sprint(err)
		if err == nil {
			_, _ = io.Copy(io.Discard, a.Body)
			got = strconv.Itoa(a.StatusCode)
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("a challenge %q: %s, want %s", test.scheme, got, test.want)
		}
	}
	c := r.dial()
	c.Send("GET /?scheme=NTLM HTTP/1.1\r\nHost: x\r\n\r\n")
	if a := testkit.Must(http.ReadResponse(c.In, nil))(t); a.StatusCode != 401 {
		t.Errorf("by HTTP/1.1: %d, want 401", a.StatusCode)
	}
}

// A response that the stream cannot carry does not keep the target's connection, however long the target takes for the
// rest.
func TestHTTP2RefusedResponse(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", 2000))
		if q.URL.Path == "/login" {
			w.Header().Set("WWW-Authenticate", "NTLM")
			w.WriteHeader(401)
		}
		_, _ = io.WriteString(w, "the beginning")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	}, "STREAM_TIMEOUT", "10m", "TARGET_TIMEOUT", "10m")
	c := r.rawHTTP2(65535)
	c.must(c.framer.WriteSettings(xnet.Setting{ID: xnet.SettingMaxHeaderListSize, Val: 1000}))
	for _, path := range []string{"/", "/login"} {
		if status, _ := c.response(c.get(path)); strings.HasPrefix(status, "2") {
			t.Errorf("%s: %s, want a reset", path, status)
		}
	}
	r.until("no connection to the target is in use", func() bool {
		return r.samples()[`ratelimiter_upstream_connections{state="busy"}`] == 0
	})
}
