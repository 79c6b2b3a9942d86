package drive

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"

	"weir/internal/test/testkit"
)

// An http2Target is a server of net/http that speaks HTTP/2 without TLS.
type http2Target struct {
	*httptest.Server
	accepted, requests, active, peak atomic.Int64
}

func newHTTP2Target(t *testing.T, handle http.HandlerFunc) *http2Target {
	s := &http2Target{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		s.requests.Add(1)
		n := s.active.Add(1)
		defer s.active.Add(-1)
		for peak := s.peak.Load(); n > peak && !s.peak.CompareAndSwap(peak, n); peak = s.peak.Load() {
		}
		handle(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.accepted.Add(1)
		}
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// loadHTTP2 is a test of the given rate on s.
func loadHTTP2(s *http2Target, rps, seconds float64) test {
	c := load(s.Listener.Addr().String(), rps, seconds)
	c.Protocol = "h2c"
	return c
}

func TestSteadyLoadOfHTTP2(t *testing.T) {
	for _, loops := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d loops", loops), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.loops = loops
			s := newHTTP2Target(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "OK") })
			s.Start()
			config := loadHTTP2(s, 1000, 0.25)
			config.Concurrency, config.Streams = 4, 5
			r := b.run(config)
			if r.Sent != 250 || r.Success != 250 || s.requests.Load() != 250 || s.accepted.Load() != 4 {
				t.Errorf("sent %d, answered %d, the server saw %d on %d connections, want 250 on 4", r.Sent, r.Success,
					s.requests.Load(), s.accepted.Load())
			}
			if r.Lag.Count != 250 || r.ServiceTime.Count != 250 || r.StatusCodes["200"] != 250 || r.Connections.Peak != 4 {
				t.Errorf("%d lags, %d service times, statuses %v, %d connections", r.Lag.Count, r.ServiceTime.Count,
					r.StatusCodes, r.Connections.Peak)
			}
		})
	}
}

func TestOutcomesOfHTTP2(t *testing.T) {
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	long := strings.Repeat("x", 200_000)
	for name, c := range map[string]struct {
		handle  http.HandlerFunc
		options map[string]any
		want    string // success, limited, shed
		reason  string
	}{
		"redirect": {handle: answer(302), want: "30 0 0"},
		"limited":  {handle: answer(429), want: "0 30 0"},
		"shed": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Weir-Reason", "gate")
			w.WriteHeader(503)
		}, want: "0 0 30"},
		"not found": {handle: answer(404), want: "0 0 0", reason: "http_4xx"},
		"reset": {handle: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want: "0 0 0", reason: "reset"},
		"silence": {handle: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			options: map[string]any{"timeout": 0.5}, want: "0 0 0", reason: "timeout"},
		"post": {handle: func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); string(body) != long || r.ContentLength != int64(len(long)) {
				w.WriteHeader(400)
			}
		}, options: map[string]any{"method": "POST", "body": long}, want: "30 0 0"},
		"post unread": {handle: answer(200), options: map[string]any{"method": "POST", "body": long}, want: "30 0 0"},
		"templates": {handle: func(w http.ResponseWriter, r *http.Request) {
			if n := r.Header.Get("X-N"); n == "" || r.URL.Query().Get("n") != n {
				w.WriteHeader(400)
			}
		}, options: map[string]any{"headers": map[string]string{"X-N": "{{counter}}"},
			"query": map[string]string{"n": "{{counter}}"}}, want: "30 0 0"},
		"a large answer": {handle: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, long) }, want: "30 0 0"},
		"a call": {handle: func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			status := "0"
			if r.Method != "POST" || r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("TE") != "trailers" ||
				len(body) < 8 || !strings.HasPrefix(string(body), "\x00\x00\x00\x00"+string(rune(len(body)-5))+"no ") {
				status = "3"
			}
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
			_, _ = w.Write(body)
		}, options: map[string]any{"grpc": true, "body": "no {{counter}}"}, want: "30 0 0"},
		"a refused call": {handle: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Grpc-Status", "8") },
			options: map[string]any{"grpc": true}, want: "0 30 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newBench(t), newHTTP2Target(t, c.handle)
			s.Start()
			config := loadHTTP2(s, 300, 0.1)
			config.Options = c.options
			r := b.run(config)
			if got := fmt.Sprint(r.Success, r.RateLimited, r.Shed); got != c.want || r.Sent != 30 {
				t.Errorf("%s of %d, want %s of 30; errors %v", got, r.Sent, c.want, r.ErrorsByReason)
			}
			if c.reason != "" && r.ErrorsByReason[c.reason] != 30 {
				t.Errorf("errors %v, want 30 of %s", r.ErrorsByReason, c.reason)
			}
		})
	}
}

// No more requests are in progress than there are streams, by the plan or by the target; others wait, which is
// their lag, and are sent as soon as one ends.
func TestStreamsAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ plan, target, want int }{
		"plan": {3, 100, 6}, "target": {100, 4, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			b, s := newBench(t), newHTTP2Target(t, func(http.ResponseWriter, *http.Request) { <-release })
			s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: c.target}
			s.Start()
			config := loadHTTP2(s, 200, 0.2)
			config.Concurrency, config.Streams = 2, c.plan
			run := b.start(config)
			testkit.Eventually(t, "all streams are in use", func() bool { return s.active.Load() == int64(c.want) })
			testkit.Eventually(t, "the schedule has ended", func() bool { return run.Status().Phase == "finishing" })
			close(release)
			r := b.finish(run)
			if s.peak.Load() > int64(c.want) || r.Success != 40 || r.BusyLag.Count < 30 {
				t.Errorf("%d requests in progress, want %d; %d succeeded, %d waited, errors %v", s.peak.Load(), c.want,
					r.Success, r.BusyLag.Count, r.ErrorsByReason)
			}
		})
	}
}

// Connections that the target ends by GOAWAY are replaced, and no request is lost.
func TestGoAway(t *testing.T) {
	t.Parallel()
	var nth atomic.Int64
	b, s := newBench(t), newHTTP2Target(t, func(w http.ResponseWriter, r *http.Request) {
		if nth.Add(1)%25 == 0 {
			w.Header().Set("Connection", "close") // GOAWAY
		}
	})
	s.Start()
	config := loadHTTP2(s, 1000, 0.5)
	config.Concurrency, config.Streams, config.Options = 2, 4, map[string]any{"method": "POST"}
	r := b.run(config)
	if r.Errors != 0 || r.Success != 500 || s.accepted.Load() < 5 || r.Connections.Peak > 2 {
		t.Errorf("%d of 500 succeeded over %d connections, at most %d, errors %v", r.Success, s.accepted.Load(),
			r.Connections.Peak, r.ErrorsByReason)
	}
}

// A connection that accepts no more requests, after GOAWAY or because the target has gone without a sign, gives its
// place to another one at once, though requests on it are in progress.
func TestConnectionsInUseAreReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		first   http.HandlerFunc // on the first connection, until a request comes on another
		timeout float64
		lost    bool
	}{
		"GOAWAY": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.(http.Flusher).Flush()
		}, 60, false},
		"silent": {func(http.ResponseWriter, *http.Request) {}, 0.3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first atomic.Value
			second := make(chan struct{})
			release := sync.OnceFunc(func() { close(second) })
			b, s := newBench(t), newHTTP2Target(t, func(w http.ResponseWriter, r *http.Request) {
				if first.CompareAndSwap(nil, r.RemoteAddr); first.Load() != r.RemoteAddr {
					release()
					return
				}
				c.first(w, r)
				<-second
			})
			s.Start()
			config := loadHTTP2(s, 50, 1)
			config.Concurrency, config.Streams, config.Options = 1, 100, map[string]any{"timeout": c.timeout}
			r := b.run(config)
			if s.accepted.Load() != 2 || r.Connections.Peak != 1 || (r.Success < 50) != c.lost || r.Success < 10 {
				t.Errorf("%d of 50 succeeded over %d connections, errors %v", r.Success, s.accepted.Load(), r.ErrorsByReason)
			}
		})
	}
}

// A lateListener accepts its second connection when that may be.
type lateListener struct {
	net.Listener
	accepted int
	second   chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if l.accepted++; l.accepted == 2 {
		<-l.second
	}
	return c, err
}

// Requests that wait for a connection wait for a dial, not for a busy one, as many as it has streams.
func TestDialLagOfHTTP2(t *testing.T) {
	t.Parallel()
	var first atomic.Bool
	b, s := newBench(t), newHTTP2Target(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(false, true) {
			w.Header().Set("Connection", "close") // GOAWAY
		}
	})
	late := &lateListener{Listener: s.Listener, second: make(chan struct{})}
	s.Listener = late
	s.Start()
	config := loadHTTP2(s, 100, 0.2)
	config.Concurrency, config.Streams = 1, 10
	run := b.start(config)
	testkit.Eventually(t, "the schedule has ended", func() bool { return run.Status().Phase == "finishing" })
	close(late.second)
	r := b.finish(run)
	if r.Success != 20 || r.DialLag.Count != 10 || r.BusyLag.Count < 5 || r.BusyLag.Count > 9 {
		t.Errorf("%d of 20 succeeded, %d waited for a dial, %d for a busy connection, errors %v", r.Success, r.DialLag.Count,
			r.BusyLag.Count, r.ErrorsByReason)
	}
}

// A target that closes idle connections costs no request.
func TestIdleHTTP2ConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newHTTP2Target(t, func(http.ResponseWriter, *http.Request) {})
	s.Config.IdleTimeout = idleLong + 200*time.Millisecond
	s.Start()
	config := loadHTTP2(s, 0.5, 60)
	config.Concurrency = 3
	run := b.start(config)
	testkit.Eventually(t, "all but the one in use twice", func() bool { return s.accepted.Load() >= 2*3-1 })
	testkit.Eventually(t, "as many as asked for", func() bool { return run.Status().Connections == 3 })
	run.Stop()
	if r := b.finish(run); r.Errors != 0 || r.Success != r.Sent {
		t.Errorf("%d of %d succeeded, errors %v", r.Success, r.Sent, r.ErrorsByReason)
	}
}

// Nor does one that closes all connections on which there was no request for long, when the first one comes.
func TestHTTP2ClosedBeforeFirstUse(t *testing.T) {
	const connections = 2 * sentMax
	var nth atomic.Int64
	b, s := against(t, func(c *served) {
		answers := nth.Add(1) > connections
		_, _ = io.ReadFull(c, make([]byte, len(xnet.ClientPreface)))
		f := xnet.NewFramer(c, c)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			switch {
			case err != nil:
				return
			case frame.Header().Type != xnet.FrameHeaders:
			case !answers:
				return
			default:
				_ = f.WriteHeaders(xnet.HeadersFrameParam{StreamID: frame.Header().StreamID, EndStream: true, EndHeaders: true,
					BlockFragment: []byte{0x88}}) // :status 200
			}
		}
	})
	idle := 2 * idleLong.Seconds()
	config := load(s.addr, 100, idle+0.3)
	config.Protocol, config.Concurrency = "h2c", connections
	config.Profile = map[string]any{"type": "steps", "params": map[string]any{"steps": []map[string]any{
		{"rps": 0, "duration": idle}, {"rps": 100, "duration": 0.3}}}}
	if r := b.run(config); r.Errors != 0 || r.Success != 30 || r.Retried == 0 {
		t.Errorf("%d of 30 succeeded, %d were sent again, errors %v", r.Success, r.Retried, r.ErrorsByReason)
	}
}

// A target that does not speak HTTP/2, or accepts no stream, cannot be connected to.
func TestNoHTTP2(t *testing.T) {
	for name, c := range map[string]struct {
		each   func(c *served)
		reason string
		says   string
	}{
		"HTTP/1.1": {answerAll(ok), "connect_failed", "start HTTP/2: the target does not speak HTTP/2"},
		"goes away": {func(c *served) {
			var out bytes.Buffer
			f := xnet.NewFramer(&out, nil)
			_ = f.WriteSettings()
			_ = f.WriteGoAway(0, xnet.ErrCodeNo, nil)
			_, _ = c.Write(out.Bytes())
			_, _ = io.Copy(io.Discard, c)
		}, "connect_failed", "start HTTP/2: the connection ended with the target's first frames"},
		"closes": {func(*served) {}, "connect_failed", "start HTTP/2: "},
		"silent": {func(c *served) { _, _ = io.Copy(io.Discard, c) }, "connect_timeout", "Request errors: connect timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := against(t, c.each)
			config := load(s.addr, 100, 0.2)
			config.Protocol, config.Options = "h2c", map[string]any{"timeout": 1}
			r := b.run(config)
			if r.Sent != 0 || r.Unconnected != 20 || r.ErrorsByReason[c.reason] != 20 {
				t.Errorf("%d were sent, errors %v", r.Sent, r.ErrorsByReason)
			}
			testkit.Contains(t, b.log.String(), c.says)
		})
	}
}

// A target that sends what must be answered, and does not read the answers, is given up. Otherwise they would fill the
// memory.
func TestFloodOfHTTP2(t *testing.T) {
	const bytesMax = 64 << 20
	var flood bytes.Buffer
	frames := xnet.NewFramer(&flood, nil)
	for range 4096 {
		_ = frames.WritePing(false, [8]byte{})
		_ = frames.WriteRawFrame(0xfa, 0, 0, make([]byte, 8)) // so that the answers to one read are not too many
	}
	var whole atomic.Int64
	b, s := against(t, func(c *served) {
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_ = xnet.NewFramer(c, nil).WriteSettings()
		for n := 0; n < bytesMax; n += flood.Len() {
			if _, err := c.Write(flood.Bytes()); err != nil {
				return
			}
		}
		whole.Add(1)
	})
	config := load(s.addr, 10, 0.2)
	config.Protocol, config.Concurrency = "h2c", 1
	if r := b.run(config); whole.Load() > 0 || r.Errors != 2 {
		t.Errorf("%d of %d floods are read to their end; errors %v", whole.Load(), s.accepted.Load(), r.ErrorsByReason)
	}
}

// A request with more fields than the target accepts is not sent.
func TestHeadIsTooLarge(t *testing.T) {
	b, s := against(t, func(c *served) {
		_ = xnet.NewFramer(c, nil).WriteSettings(xnet.Setting{ID: xnet.SettingMaxHeaderListSize, Val: 100})
		_, _ = io.Copy(io.Discard, c)
	})
	config := load(s.addr, 100, 0.2)
	config.Protocol, config.Concurrency = "h2c", 1
	if r := b.run(config); r.Sent != 0 || r.Unconnected != 20 || r.ErrorsByReason["head_too_large"] != 20 ||
		r.ServiceTime.Count != 0 || s.accepted.Load() != 1 {
		t.Errorf("%d were sent, %d not, errors %v", r.Sent, r.Unconnected, r.ErrorsByReason)
	}
}

// Over TLS the protocol is agreed on by ALPN.
func TestHTTP2OverTLS(t *testing.T) {
	for name, c := range map[string]struct {
		http2   bool
		success uint64
		reason  string
	}{
		"agreed": {true, 50, ""}, "not offered": {false, 0, "tls_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newBench(t), newHTTP2Target(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })
			s.EnableHTTP2 = c.http2
			s.Config.Protocols = nil
			s.StartTLS()
			b.caFile = filepath.Join(t.TempDir(), "ca.pem")
			testkit.WriteFile(t, b.caFile,
				string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
			config := loadHTTP2(s, 500, 0.1)
			config.Protocol, config.URL = "h2", "https"+strings.TrimPrefix(config.URL, "http")
			r := b.run(config)
			if r.Success != c.success || c.reason != "" && r.ErrorsByReason[c.reason] != 50 {
				t.Errorf("%d succeeded, errors %v\n%s", r.Success, r.ErrorsByReason, b.log.String())
			}
		})
	}
}
