package wire

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"

	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// asked sends requests, each by a client of its own, and returns those, in the order of the target's
// requests, and these.
func (r *rig) asked(s *rawTarget, n int, method string) (clients []*testkit.Conn, requests []*rawRequest) {
	r.t.Helper()
	for i := range n {
		c := r.dial()
		c.Send(fmt.Sprintf("%s /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", method, i))
		clients, requests = append(clients, c), append(requests, s.request())
		if got := requests[i].path; got != fmt.Sprintf("/%d", i) {
			r.t.Fatalf("request %d has path %s", i, got)
		}
	}
	return clients, requests
}

// one makes a proxy use one loop.
func one(c *Config) { c.Loop.Loops = 1 }

// A target that closes its connection says which requests it has not processed: they are sent once more on
// another connection, whatever their method, and the others are answered there.
func TestTargetGoAway(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, one, s.url(), "RATE_LIMIT_LIMIT", "4")
	clients, q := r.asked(s, 3, "POST")
	q[0].of.write(func(f *xnet.Framer) error { return f.WriteGoAway(q[0].id, xnet.ErrCodeNo, nil) })
	again := []*rawRequest{s.request(), s.request()}
	for _, a := range again {
		if a.of == q[0].of || a.path != "/1" && a.path != "/2" {
			t.Errorf("%s is sent again, on the connection that closes: %t", a.path, a.of == q[0].of)
		}
		a.answer("200", a.path, true)
	}
	q[0].answer("200", "/0", true)
	for i, c := range clients {
		if _, body := c.Status(200); body != fmt.Sprintf("/%d", i) {
			t.Errorf("client %d got %q", i, body)
		}
	}
	s.sees("end") // the connection has no streams left
	c := r.dial()
	c.Send(get)
	s.request().answer("200", "", true)
	c.Status(200)
	c.Ask(get, 429) // nothing was charged twice
}

// A request that is refused is sent three times more, not four times.
func TestTargetRefusesStreams(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, one, s.url())
	clients, q := r.asked(s, 2, "POST")
	q[1].reset(xnet.ErrCodeRefusedStream)
	again := s.request()
	again.answer("201", "", true)
	q[0].reset(xnet.ErrCodeRefusedStream)
	for range 3 {
		s.request().reset(xnet.ErrCodeRefusedStream)
	}
	clients[1].Status(201)
	if _, body := clients[0].Status(503); !strings.Contains(body, "without processing") {
		t.Errorf("refused four times: %s", body)
	}
	r.until("none is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
}

// A stream that is reset in another way may have been processed.
func TestTargetResets(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, one, s.url())
	clients, q := r.asked(s, 3, "GET")
	q[0].reset(xnet.ErrCodeInternal)
	clients[0].Status(502)
	q[1].answer("200", "a part", false)
	q[1].reset(xnet.ErrCodeCancel)
	q[2].answer("200", "all", true)
	q[2].reset(xnet.ErrCodeNo)
	if _, body := clients[2].Status(200); body != "all" {
		t.Errorf("beside streams that were reset: %q", body)
	}
}

// A target that allows fewer streams gets fewer: further requests get another connection.
func TestTargetStreamsMax(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t, xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 2})
	r := startWith(t, one, s.url())
	clients, q := r.asked(s, 4, "GET")
	if q[0].of != q[1].of || q[2].of != q[3].of || q[0].of == q[2].of {
		t.Error("of four requests not two are on each of two connections")
	}
	q[0].of.write(func(f *xnet.Framer) error {
		return f.WriteSettings(xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 1})
	})
	q[0].answer("200", "", true)
	clients[0].Status(200)
	clients[0].Send(get)
	fifth := s.request()
	if fifth.of == q[0].of || fifth.of == q[2].of {
		t.Error("a request is sent on a connection that has as many as the target allows")
	}
	for _, p := range append(q[1:], fifth) {
		p.answer("200", "", true)
	}
	for _, c := range clients {
		c.Status(200)
	}
	want := map[string]float64{"ratelimiter_upstream_http2_connections": 3, "ratelimiter_upstream_http2_streams": 0}
	r.until("the streams are given back", func() bool {
		got := r.samples()
		for name, n := range want {
			if got[name] != n {
				return false
			}
		}
		return true
	})
}

// A target dies with many requests in progress. Each is answered, those that may be repeated are sent once
// more.
func TestTargetDies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method string
		status int
		again  bool
	}{{"GET", 200, true}, {"POST", 502, false}} {
		s := newRawTarget(t)
		r := startWith(t, one, s.url())
		first := r.dial() // so that the connection has served a request
		first.Send(get)
		s.request().answer("200", "", true)
		first.Status(200)
		clients, q := r.asked(s, 50, c.method)
		testkit.Reset(q[0].of.Conn)
		for range q {
			if c.again {
				s.request().answer("200", "", true)
			}
		}
		for _, client := range clients {
			client.Status(c.status)
		}
		if n := len(s.requests); n > 0 {
			t.Errorf("%s: %d requests more", c.method, n)
		}
	}
}

// A target that has gone silent is asked whether it is still there.
func TestTargetSilent(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) {
		one(c)
		c.TargetHTTP2.SilenceTimeout = 200 * time.Millisecond
	}, s.url())
	clients, _ := r.asked(s, 2, "POST")
	s.sees("ping")
	for _, c := range clients {
		c.Status(502)
	}
	s.sees("end")
}

// A client that disconnects costs no connection: its stream is cancelled. Without a gate there is no place to keep.
func TestTargetStreamCancelled(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, one, s.url(), "GATE", "off")
	clients, q := r.asked(s, 2, "GET")
	clients[0].Reset()
	s.sees(fmt.Sprintf("reset %d CANCEL", q[0].id))
	q[1].answer("200", "", true)
	clients[1].Status(200)
	clients[1].Send(get)
	if s.request().of != q[1].of {
		t.Error("the connection is not used again")
	}
	r.until("one is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 1 })
}

// A stream that was cancelled keeps the place of its request at the gate, or clients could give the target any amount
// of work by requests that they reset: for twice as long as such requests take, or, while that is not known, until
// the answer would be overdue.
func TestTargetStreamCancelledKeepsPlace(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"text/plain", "application/grpc"} { // of which all is sent, or a message
		s := newRawTarget(t)
		r := startWith(t, func(c *Config) { one(c); gated(1)(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all")
		c := r.rawHTTP2(65535)
		first := c.request("POST", "/1", kind == "text/plain", "content-type", kind)
		q := s.request()
		c.must(c.framer.WriteRSTStream(first, xnet.ErrCodeCancel))
		s.sees(fmt.Sprintf("reset %d CANCEL", q.id))
		c.get("/2")
		r.waiting(2)
		r.metrics("upstream_abandoned=1 upstream_http2_streams=0 gate_in_flight%s=1", r.Targets.Labels(r.Targets.All()[0]))
	}
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(1)(c) }, s.url(), "TARGET_TIMEOUT", "1h")
	c := r.dial()
	for range 100 {
		c.Send(get)
		s.request().answer("200", "", true)
		c.Status(200)
	}
	c.Send(get)
	s.request()
	c.Reset()
	r.until("no place is taken", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
}

// That is so too if it becomes known after the request was cancelled.
func TestTargetStreamCancelledFirst(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(2)(c) }, s.url(), "TARGET_TIMEOUT", "1h")
	c := r.dial()
	c.Send(get)
	s.request()
	c.Reset()
	c = r.dial()
	for range 100 {
		c.Send(get)
		s.request().answer("200", "", true)
		c.Status(200)
	}
	r.until("no place is taken", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
}

// A target that does not speak HTTP/2 cannot be reached.
func TestTargetNotHTTP2(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(c net.Conn){
		"HTTP/1.1": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 100))
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"))
		},
		"closes": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testkit.Serve(t, func(c net.Conn) { defer c.Close(); serve(c) })
			r := startWith(t, one, "h2c://"+addr)
			r.dial().Ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 502)
			if name == "HTTP/1.1" {
				r.until("the log says why", func() bool { return strings.Contains(r.log.String(), "does not speak HTTP/2") })
			}
		})
	}
	t.Run("says nothing", func(t *testing.T) {
		t.Parallel()
		addr := testkit.Serve(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); <-t.Context().Done() })
		r := startWith(t, func(c *Config) { c.Session.ConnectTimeout = 100 * time.Millisecond }, "h2c://"+addr)
		r.dial().Ask(get, 504)
	})
}

// What HTTP/2 cannot carry is refused, and other requests of the client are not affected.
func TestTargetHTTP2Cannot(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t, xnet.Setting{ID: xnet.SettingMaxHeaderListSize, Val: 2000})
	r := startWith(t, one, s.url())
	c := r.dial()
	c.Ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 501)
	c = r.dial()
	c.Ask("GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 3000)+"\r\n\r\n", 431)
	c = r.dial()
	c.Send(get)
	s.request().answer("200", "", true)
	c.Status(200)
	r.until("none is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
}

// A target that reads nothing of an upload holds up neither other requests nor the client for ever.
func TestTargetStalls(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) {
		one(c)
		c.TargetHTTP2.StallTimeout, c.TargetHTTP2.SilenceTimeout = 500*time.Millisecond, 2*time.Second
	}, s.url())
	const size = 8 << 20
	conn, other := r.dial(), r.dial()
	go func() {
		_, err := fmt.Fprintf(conn.Conn, "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size,
			strings.Repeat("x", size))
		if err != nil && !errors.Is(err, net.ErrClosed) {
			t.Log(err) // the proxy answers before all was sent
		}
	}()
	up := s.request()
	other.Send(get)
	s.request().answer("200", "", true)
	other.Status(200)
	s.sees(fmt.Sprintf("reset %d CANCEL", up.id))
	res, err := http.ReadResponse(conn.In, nil)
	if err != nil || res.StatusCode != 502 {
		t.Errorf("the upload: %+v, %v", res, err)
	}
}

// Connections that are idle, old or of a target that has left the list end without harm to requests.
func TestTargetConnectionsEnd(t *testing.T) {
	t.Parallel()
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		s := newRawTarget(t)
		r := startWith(t, one, s.url(), "TARGET_IDLE_TIMEOUT", "50ms")
		clients, q := r.asked(s, 1, "GET")
		for range 2 {
			q[0].answer("200", "", true)
			clients[0].Status(200)
			s.sees("end")
			clients[0].Send(get)
			q[0] = s.request()
		}
	})
	t.Run("old", func(t *testing.T) {
		t.Parallel()
		addr := h2cTarget(t, echo)
		r := start(t, "h2c://"+addr, "TARGET_CONNECTION_MAX_AGE", "50ms")
		_, end := r.load(8, func(_ int, c *testkit.Conn) bool {
			c.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
			a, body := c.Answer("POST")
			if a.StatusCode != 200 || body != "bodybodybody" {
				t.Errorf("%d %q", a.StatusCode, body)
			}
			return a.StatusCode == 200
		})
		r.until("connections became old", func() bool {
			return r.samples()["ratelimiter_upstream_connections_aged_total"] >= 4
		})
		end()
	})
	t.Run("of a target that has left", func(t *testing.T) {
		t.Parallel()
		s, other := newRawTarget(t), newRawTarget(t)
		r := startWith(t, one, s.url())
		clients, q := r.asked(s, 2, "GET")
		r.Targets.Set([]*roster.Target{{URL: other.url(), Addr: other.addr, Host: other.addr, HTTP2: true}})
		for i, c := range clients {
			q[i].answer("200", "", true)
			c.Status(200)
		}
		s.sees("end")
		clients[0].Send(get)
		other.request().answer("200", "", true)
		clients[0].Status(200)
	})
}
