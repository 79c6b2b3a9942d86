package wire

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"

	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// A head that is too large for the target is refused also if the rest of the request has arrived meanwhile.
func TestTargetHeadTooLargeOfUpload(t *testing.T) {
	t.Parallel()
	greets := make(chan struct{})
	s := newLateTarget(t, greets, xnet.Setting{ID: xnet.SettingMaxHeaderListSize, Val: 2000})
	r := startWith(t, func(c *Config) { one(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all")
	c := r.rawHTTP2(65535)
	id := c.request("POST", "/", false, "x", strings.Repeat("x", 3000))
	r.until("the request waits for the target", func() bool {
		return r.samples()[`ratelimiter_upstream_connections{state="connecting"}`] == 1
	})
	c.must(c.framer.WriteData(id, true, []byte("body")))
	c.must(c.framer.WritePing(false, [8]byte{}))
	for {
		f, err := c.framer.ReadFrame()
		c.must(err)
		if f, ok := f.(*xnet.PingFrame); ok && f.IsAck() {
			break
		}
	}
	close(greets)
	if status, _ := c.response(id); status != "431" {
		t.Errorf("status %s", status)
	}
	r.until("none is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
}

// A target that accepts no streams from the start cannot be reached. It is not connected to again and again.
func TestTargetWithoutStreams(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(f *xnet.Framer) error{
		"none allowed": func(f *xnet.Framer) error {
			return f.WriteSettings(xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 0})
		},
		"going away": func(f *xnet.Framer) error {
			if err := f.WriteSettings(); err != nil {
				return err
			}
			return f.WriteGoAway(0, xnet.ErrCodeNo, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int64
			addr := testkit.Serve(t, func(c net.Conn) {
				conns.Add(1)
				go func() {
					defer c.Close()
					var frames strings.Builder
					_ = write(xnet.NewFramer(&frames, nil)) // a buffer takes everything
					_, _ = io.WriteString(c, frames.String())
					_, _ = io.Copy(io.Discard, c) // until the proxy closes
				}()
			})
			r := startWith(t, one, "h2c://"+addr)
			r.dial().Ask(get, 502)
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections were made for one request", n)
			}
		})
	}
}

// A stream that the target refuses keeps its place at the gate for the request when it is sent once more.
func TestTargetRefusesStreamsBehindGate(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(2)(c) }, s.url())
	clients, q := r.asked(s, 2, "POST")
	waits := r.dial()
	waits.Send(request("/waits"))
	r.waiting(3)
	q[0].reset(xnet.ErrCodeRefusedStream)
	again := s.request()
	if again.path != "/0" {
		t.Fatalf("%s is sent beyond the limit of the gate, or in place of the request that was refused", again.path)
	}
	again.answer("200", "", true)
	clients[0].Status(200)
	last := s.request()
	last.answer("200", last.path, true)
	if _, body := waits.Status(200); body != "/waits" {
		t.Errorf("the waiter got %q", body)
	}
	q[1].answer("200", "", true)
	clients[1].Status(200)
}

// An upload whose last piece waits for a place ends with its connection, and does not get the place of a
// request that ends with it too.
func TestTargetDiesBehindGate(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(1)(c) }, s.url(), "BODY_BUFFER_BYTES", "1024")
	clients, q := r.asked(s, 1, "POST")
	up := r.dial()
	up.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000))
	s.request()
	r.waiting(3)
	testkit.Reset(q[0].of.Conn)
	clients[0].Status(502)
	up.Status(502)
	if log := r.log.String(); strings.Contains(log, "bug:") {
		t.Error(log)
	}
	next := r.dial()
	next.Send(get)
	s.request().answer("200", "", true)
	next.Status(200)
	r.until("none is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
}

// A request that was lost with a connection may have been processed, also if the target refuses it afterwards.
func TestTargetDiesThenRefuses(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, one, s.url())
	c := r.dial()
	c.Send(get)
	s.request().answer("200", "", true)
	c.Status(200)
	c.Send(get)
	testkit.Reset(s.request().of.Conn)
	s.request().reset(xnet.ErrCodeRefusedStream)
	c.Status(502)
}

// An upgrade is possible if the target, by ALPN, turns out to use HTTP/1.1.
func TestTargetUpgradeALPN(t *testing.T) {
	t.Parallel()
	for http2, want := range map[bool]int{true: 501, false: 101} {
		upgrade := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(101)
		}
		r := startWith(t, func(c *Config) {
			one(c)
			c.Targets = []*roster.Target{secureTarget(t, upgrade, http2)}
		}, "http://x")
		for range 2 {
			c := r.dial()
			c.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
			if a, err := http.ReadResponse(c.In, nil); err != nil || a.StatusCode != want {
				t.Errorf("HTTP/2 %t: %v, %v, want %d", http2, a, err, want)
			}
			c.Close()
		}
		r.until("none is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
	}
}

// A request that waits for another connection gets a stream of the first one when the target allows more.
func TestTargetAllowsMoreStreams(t *testing.T) {
	t.Parallel()
	greets := make(chan struct{}, 1)
	greets <- struct{}{}
	s := newLateTarget(t, greets, xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 1})
	r := startWith(t, one, s.url())
	clients, q := r.asked(s, 1, "GET")
	waits := r.dial()
	waits.Send(request("/waits"))
	r.waiting(2)
	q[0].of.write(func(f *xnet.Framer) error {
		return f.WriteSettings(xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 2})
	})
	s.request().answer("200", "", true)
	waits.Status(200)
	q[0].answer("200", "", true)
	clients[0].Status(200)
	close(greets)
}

// A connection that is made for a target that has left the list meanwhile ends after its requests.
func TestTargetLeavesDuringConnect(t *testing.T) {
	t.Parallel()
	greets := make(chan struct{})
	s, other := newLateTarget(t, greets), newRawTarget(t)
	r := startWith(t, one, s.url())
	c := r.dial()
	c.Send(get)
	r.waiting(1)
	r.Targets.Set([]*roster.Target{{URL: other.url(), Addr: other.addr, Host: other.addr, HTTP2: true}})
	r.until("the target has left", func() bool {
		left := gather(r.loops, func(s *loopServer, _ time.Time) bool {
			return s.targets.Targets()[0].Value.spec.Addr == other.addr
		})
		return len(left) == 1 && left[0]
	})
	close(greets)
	s.request().answer("200", "", true)
	c.Status(200)
	s.sees("end")
}

// What follows the last answer of a connection that the target closes is not read.
func TestTargetSendsMoreAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, one, s.url())
	clients, q := r.asked(s, 1, "GET")
	var b bytes.Buffer
	f := xnet.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	answer := xnet.HeadersFrameParam{StreamID: q[0].id, BlockFragment: []byte("\x88"), EndHeaders: true, EndStream: true}
	for _, err := range []error{f.WriteGoAway(q[0].id, xnet.ErrCodeNo, nil), f.WriteHeaders(answer),
		f.WriteData(0, true, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _ = q[0].of.Write(b.Bytes()) // in one piece; the proxy may have closed the connection
	clients[0].Status(200)
	s.sees("end")
	for _, fault := range gather(r.loops, func(s *loopServer, _ time.Time) *error {
		return s.targets.Targets()[0].Value.garbled.Load()
	}) {
		if fault != nil {
			t.Errorf("an error after the end of a connection is reported: %v", *fault)
		}
	}
}
