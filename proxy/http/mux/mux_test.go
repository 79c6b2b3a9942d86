package mux_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/proxy/http/exchange"
	"weir/proxy/http/mux"
	"weir/proxy/http/session"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
)

// A world is a client, the connection of a proxy, and targets that answer when they are told to.
type world struct {
	t       *testing.T
	now     time.Time
	env     mux.Env
	conn    *mux.Conn
	client  *http2.Conn
	toProxy []byte // sent by the client and not read
	grants  int    // requests that the limit still admits
	dials   bool   // connections to targets come later

	open map[*mux.Stream]*target
	got  map[uint32]*response
	next []*target // in the order in which requests came
}

// A target is the other end of an exchange.
type target struct {
	m    *mux.Stream
	http session.Upstream
	sent []byte // the request
	left bool   // the exchange has released the connection
}

// A response is what the client has received on a stream.
type response struct {
	status   int
	body     bytes.Buffer
	trailers string
	end      string // how it has ended
}

func newWorld(t *testing.T, window int) *world {
	w := &world{t: t, now: time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC), grants: 1 << 20,
		open: make(map[*mux.Stream]*target), got: make(map[uint32]*response)}
	policy := decide.NewPolicy(mustFixed(t))
	ex := &exchange.Env{
		Settings: &exchange.Settings{BufferBytesMax: 64, BodyTimeout: time.Minute, TargetTimeout: time.Minute,
			StreamTimeout: time.Minute, Pseudonym: "weir", PreserveHost: true, BodyBytesMax: 1000},
		Policy: func() *decide.Policy { return policy },
		Ask: func(_ time.Time, _ *exchange.Exchange, _ *store.Ask, ans *store.Answer) bool {
			d := limit.Decision{Allowed: w.grants > 0, Limit: 10}
			*ans = store.Answer{Granted: min(1, w.grants), Decisions: []limit.Decision{d}}
			w.grants = max(0, w.grants-1)
			return true
		},
		Refused: func(time.Time, *decide.Refusal) []byte { return []byte("d-1") },
	}
	w.env = mux.Env{
		Exchange: ex,
		EndOf:    func(time.Time) time.Time { return time.Time{} },
		Settings: &mux.Settings{HeadTimeout: time.Minute, IdleTimeout: time.Minute, StallTimeout: 10 * time.Second,
			DrainGrace: time.Second, QueueMax: 1000},
	}
	w.connect("192.0.2.7", false, window)
	return w
}

// connect begins a connection of a client.
func (w *world) connect(remote string, secure bool, window int) {
	w.conn = mux.New(w.now, &w.env, netip.MustParseAddr(remote), secure, func(m *mux.Stream) {
		u := &target{m: m, http: session.NewUpstream(&http1.Limits{}, new(http1.Head))}
		w.open[m] = u
	})
	w.client = http2.New(http2.Client, &http2.Limits{Window: max(window, 65535)}, w.now)
}

func mustFixed(t *testing.T) limit.Limit {
	l, err := limit.NewFixed(10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// request sends a request, and returns its stream.
func (w *world) request(method, path, body string, end bool) uint32 {
	w.t.Helper()
	r := http2.Request{Method: []byte(method), Scheme: "http", Authority: []byte("x"), Path: []byte(path)}
	out, id, err := w.client.AppendRequest(nil, &r, end && body == "")
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		out, _ = w.client.AppendData(out, id, []byte(body), end)
	}
	w.got[id] = new(response)
	w.toProxy = append(w.toProxy, w.client.AppendControl(nil)...)
	w.toProxy = append(w.toProxy, out...)
	w.run()
	return id
}

// run has the proxy read what was sent to it, and the client what it gets.
func (w *world) run() {
	w.t.Helper()
	for {
		n, m := w.conn.HandleClient(w.now, w.toProxy)
		w.toProxy = w.toProxy[n:]
		if m == nil {
			break
		}
		w.apply(m)
	}
	frames, resumed := w.conn.Flush(w.now)
	w.read(frames)
	for _, m := range resumed {
		w.apply(m)
	}
	w.read(w.conn.Control())
	if out := w.client.AppendControl(nil); len(out) > 0 {
		w.toProxy = append(w.toProxy, out...)
		w.run()
	}
}

// apply carries out the effects of a stream.
func (w *world) apply(m *mux.Stream) {
	w.t.Helper()
	u := w.open[m]
	for more := true; more; {
		var fx session.Effects
		m.MoveEffects(w.now, &fx)
		w.read(fx.Client)
		u.sent = u.http.Append(u.sent, fx.Effects, "target")
		u.left = u.left || fx.Release != exchange.ReleaseNone || fx.Acquire == exchange.AcquireCancel
		if more = fx.Acquire == exchange.AcquireAny || fx.Stream || fx.Admit; more {
			switch {
			case fx.Stream:
				m.Exchange.HandleStream(w.now, true)
			case fx.Admit:
				m.Exchange.HandleAdmitted(w.now)
			case w.dials:
				w.next, more = append(w.next, u), false
			default:
				w.next = append(w.next, u)
				m.Exchange.HandleAcquired(w.now, false)
			}
		}
		if fx.Close != session.CloseNone {
			m.Recycle()
		}
	}
}

// read has the client read frames.
func (w *world) read(frames []byte) {
	w.t.Helper()
	var head http2.Head
	for in := bytes.Clone(frames); ; {
		ev, err := w.client.Next(w.now, in, &head)
		if err != nil {
			w.t.Fatalf("the client cannot read %q: %v", in, err)
		}
		in = in[ev.N:]
		r := w.got[ev.Stream]
		switch ev.Kind {
		case http2.NeedMore:
			if len(in) > 0 {
				w.t.Fatalf("part of a frame was sent: %q", in)
			}
			return
		case http2.HeadDone:
			r.status = head.Status
		case http2.Data:
			r.body.Write(ev.Data)
		case http2.Trailers:
			for i := range head.Fields {
				r.trailers += string(http1.AppendFieldLine(nil, &head.Fields[i]))
			}
		case http2.Reset:
			r.end = ev.Code.String()
		}
		if ev.EndStream {
			r.end = "complete"
		}
	}
}

// answers has a target send bytes.
func (w *world) answers(u *target, b string) {
	w.t.Helper()
	n := u.m.HandleUpstream(w.now, &u.http, []byte(b))
	w.apply(u.m)
	if n < len(b) && !u.m.Exchange.Holds() {
		w.t.Fatalf("of %q only %d bytes were taken", b, n)
	}
	w.run()
}

func (w *world) wants(id uint32, status int, body, end string) {
	w.t.Helper()
	if r := w.got[id]; r.status != status || r.body.String() != body || r.end != end {
		w.t.Errorf("stream %d: %d %q %s, want %d %q %s", id, r.status, r.body.String(), r.end, status, body, end)
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"

// Streams are answered in any order, each with its own response.
func TestStreams(t *testing.T) {
	w := newWorld(t, 0)
	first, second := w.request("GET", "/1", "", true), w.request("POST", "/2", "body", true)
	sent, head, body := string(w.next[1].sent), "POST /2 HTTP/1.1\r\nHost: x\r\n", "\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
	if !strings.HasPrefix(sent, head) || !strings.HasSuffix(sent, body) {
		t.Errorf("the target is sent %q, want %q, other fields and %q", sent, head, body)
	}
	w.answers(w.next[1], fmt.Sprintf(ok, 3, "two"))
	w.answers(w.next[0], fmt.Sprintf(ok, 3, "one"))
	w.wants(first, 200, "one", "complete")
	w.wants(second, 200, "two", "complete")
}

// A stream that was answered is used again, one that was reset is not: something may still come for it.
func TestRecycle(t *testing.T) {
	w := newWorld(t, 0)
	w.request("POST", "/1", "body", true)
	w.answers(w.next[0], fmt.Sprintf(ok, 3, "one"))
	again := w.request("GET", "/2", "", true)
	if w.next[1].m != w.next[0].m {
		t.Error("a stream that was answered is not used again")
	}
	w.toProxy = w.client.AppendReset(w.toProxy, again, http2.Cancel)
	w.run()
	short := w.request("GET", "/3", "", true)
	if w.next[2].m == w.next[1].m {
		t.Error("a stream that was reset is used again")
	}
	w.next[2].m.HandleShortage(w.now)
	w.apply(w.next[2].m)
	if w.got[short].status != 502 { // it was sent
		t.Errorf("status %d, want 502", w.got[short].status)
	}
	last := w.request("GET", "/4", "", true)
	if w.next[3].m == w.next[2].m {
		t.Error("a stream that was ended for lack of memory is used again")
	}
	w.answers(w.next[3], fmt.Sprintf(ok, 4, "four"))
	w.wants(last, 200, "four", "complete")
}

// A stream that is used again knows nothing of its former client.
func TestRecycleForAnother(t *testing.T) {
	w := newWorld(t, 0)
	w.request("GET", "/1", "", true)
	first := w.next[0].m
	w.answers(w.next[0], "HTTP/1.1 200 OK\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n")
	if !first.Exchange.Private {
		t.Error("the client's connection to the target is not private")
	}
	w.connect("192.0.2.8", true, 0)
	w.request("GET", "/2", "", true)
	if m := w.next[1].m; m != first || m.Exchange.Private {
		t.Errorf("the stream is used again: %t; private: %t", m == first, m.Exchange.Private)
	}
	if sent := string(w.next[1].sent); !strings.Contains(sent, "\r\nX-Forwarded-For: 192.0.2.8\r\nX-Forwarded-Proto: https\r\n") {
		t.Errorf("the target gets %q", sent)
	}
}

// A refused request gets its answer, and the rest of its body is not read.
func TestRefused(t *testing.T) {
	w := newWorld(t, 0)
	w.grants = 0
	id := w.request("POST", "/", "part", false)
	r := w.got[id]
	if r.status != 429 || r.end != "NO_ERROR" {
		t.Errorf("status %d, end %s, want 429 and NO_ERROR", r.status, r.end)
	}
}

// A stream that is reset, or whose target breaks off, says nothing to others.
func TestBroken(t *testing.T) {
	w := newWorld(t, 0)
	reset, cut := w.request("GET", "/1", "", true), w.request("GET", "/2", "", true)
	good := w.request("GET", "/3", "", true)
	w.toProxy = w.client.AppendReset(w.toProxy, reset, http2.Cancel)
	w.run()
	if !w.next[0].left {
		t.Error("the exchange of a stream that was reset keeps its target")
	}
	u := w.next[1]
	w.answers(u, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
	w.now = w.now.Add(time.Second)
	u.m.HandleUpstreamClosed(w.now, &u.http, nil)
	w.apply(u.m)
	w.answers(w.next[2], fmt.Sprintf(ok, 4, "good"))
	w.wants(cut, 200, "some", "INTERNAL_ERROR")
	w.wants(good, 200, "good", "complete")
}

// What the client makes no room for is kept, up to a bound, from which on the answer is not read; a client
// that makes none for too long loses the stream.
func TestStalls(t *testing.T) {
	w := newWorld(t, 0)
	id := w.request("GET", "/", "", true)
	u, piece := w.next[0], string(bytes.Repeat([]byte("x"), 1000))
	w.answers(u, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
	sent := 0
	for ; sent < 100 && !u.m.Exchange.Holds(); sent++ {
		w.answers(u, piece)
	}
	if got := w.got[id].body.Len(); got != 65535 || sent > 68 {
		t.Fatalf("the client got %d bytes of its window of 65535, and %d pieces were read", got, sent)
	}
	if at := u.m.Deadline(); at.After(w.now.Add(10 * time.Second)) {
		t.Fatalf("the stream has the deadline %v", at.Sub(w.now))
	}
	w.client.Consumed(id, 40000)
	w.run()
	if u.m.Exchange.Holds() {
		t.Error("the answer is not read although there is room")
	}
	for !u.m.Exchange.Holds() {
		w.answers(u, piece)
	}
	w.now = w.now.Add(10 * time.Second)
	u.m.HandleExpired(w.now)
	w.apply(u.m)
	if r := w.got[id]; r.end != "INTERNAL_ERROR" || !u.left {
		t.Errorf("end %s, released %t, after a stall", r.end, u.left)
	}
	if n := w.conn.Glitches()[http2.GlitchWindow]; n != 1 {
		t.Errorf("%d glitches of kind window, want 1", n)
	}
}

// A client is told some time after the connection has begun to drain, and until the end of the grace its requests are
// answered.
func TestDrainLater(t *testing.T) {
	w := newWorld(t, 0)
	start := w.now
	w.request("GET", "/", "", true)
	if frames := w.conn.HandleDrain(w.now, 300*time.Millisecond); len(frames) > 0 || w.conn.Announced() {
		t.Errorf("%d bytes at once, announced %t", len(frames), w.conn.Announced())
	}
	for _, test := range []struct {
		at               time.Duration
		announced, ended bool
	}{{300 * time.Millisecond, true, false}, {time.Second, true, true}} {
		w.now = start.Add(test.at)
		if at := w.conn.Deadline(); !at.Equal(w.now) {
			t.Errorf("the deadline is after %v, want %v", at.Sub(start), test.at)
		}
		if !w.conn.Announced() {
			w.request("GET", "/", "", true)
		}
		w.read(w.conn.HandleExpired(w.now))
		for _, u := range w.next {
			w.answers(u, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
		w.next = nil
		if w.conn.Announced() != test.announced || w.conn.Ended() != test.ended {
			t.Errorf("after %v: announced %t, ended %t, want %+v", test.at, w.conn.Announced(), w.conn.Ended(), test)
		}
	}
	for id, r := range w.got {
		if r.status != 200 {
			t.Errorf("stream %d: status %d, want 200", id, r.status)
		}
	}
}

// A connection that reaches its number of requests while it drains, before its client is told, ends when the others do.
func TestSpentWhileDraining(t *testing.T) {
	w := newWorld(t, 0)
	start := w.now
	w.env.Settings.RequestsMax = 1
	w.connect("192.0.2.7", false, 0)
	w.conn.HandleDrain(w.now, 500*time.Millisecond)
	w.now = start.Add(400 * time.Millisecond)
	w.request("GET", "/", "", true)
	if !w.conn.Spent() {
		t.Fatal("it has not reached its number of requests")
	}
	w.conn.HandleDrain(w.now, 0) // as package wire does
	if at := w.conn.Deadline().Sub(start); at != w.env.Settings.DrainGrace {
		t.Errorf("ends after %v, want %v", at, w.env.Settings.DrainGrace)
	}
}

// A client that does not send the rest of its requests in time is answered, and too many of these end the connection.
func TestBodiesLate(t *testing.T) {
	w := newWorld(t, 0)
	w.env.Settings.HTTP2.GlitchBurst = 2
	w.connect("192.0.2.7", false, 0)
	late := func() *response {
		id := w.request("POST", "/", "a", false)
		for m := range w.open {
			if m.Deadline().IsZero() { // it has ended
				continue
			}
			w.now = m.Deadline()
			m.HandleExpired(w.now)
			w.apply(m)
		}
		w.run()
		return w.got[id]
	}
	for range 2 {
		if r := late(); r.status != 408 {
			t.Errorf("status %d, want 408", r.status)
		}
	}
	w.env.Settings.HTTP2.GlitchRate = 0.001
	w.connect("192.0.2.7", false, 0)
	for i := range 3 {
		if late(); w.conn.Failed() != (i == 2) {
			t.Errorf("after %d the connection has failed: %t", i+1, w.conn.Failed())
		}
	}
	if n := w.conn.Glitches()[http2.GlitchSlowRequest]; n != 3 {
		t.Errorf("%d glitches of kind idle, want 3", n)
	}
}

// The end of a response is sent even if the connection accepts no more data for the moment.
func TestEndWhileFull(t *testing.T) {
	w := newWorld(t, 0)
	id := w.request("GET", "/", "", true)
	w.answers(w.next[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n")
	w.conn.HandleFull(true)
	w.answers(w.next[0], "0\r\n\r\n")
	w.wants(id, 200, "some", "complete")
}

// A response that ends before its request, after it had to wait for room, resets the stream without an
// error, and nothing of it is left.
func TestEndBeforeRequest(t *testing.T) {
	w := newWorld(t, 0)
	id := w.request("POST", "/", string(bytes.Repeat([]byte("u"), 100)), false)
	body := string(bytes.Repeat([]byte("x"), 70_000))
	w.answers(w.next[0], fmt.Sprintf(ok, len(body), body))
	w.client.Consumed(id, 65535)
	w.run()
	if r := w.got[id]; r.status != 200 || r.body.String() != body || r.end != "NO_ERROR" {
		t.Errorf("%d, %d bytes, end %s, want 200, %d, NO_ERROR", r.status, r.body.Len(), r.end, len(body))
	}
	for m := range w.conn.Streams {
		t.Errorf("stream %p is left", m)
	}
}

// A request of unknown length and its answer flow at the same time.
func TestBothWays(t *testing.T) {
	w := newWorld(t, 0)
	id := w.request("POST", "/", "a", false)
	u := w.next[0]
	sends := func(p string, end bool) {
		out, _ := w.client.AppendData(nil, id, []byte(p), end)
		w.toProxy = append(w.toProxy, out...)
		w.run()
	}
	if !strings.HasSuffix(string(u.sent), "\r\n\r\n1\r\na\r\n") {
		t.Fatalf("the target is sent %q", u.sent)
	}
	w.answers(u, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, p := range []string{"b", "c"} {
		w.answers(u, "1\r\n"+p+"\r\n")
		u.sent = nil
		if sends(p, false); string(u.sent) != "1\r\n"+p+"\r\n" {
			t.Errorf("the target is sent %q after %s", u.sent, p)
		}
	}
	u.sent = nil
	if sends("d", true); string(u.sent) != "1\r\nd\r\n0\r\n\r\n" {
		t.Errorf("the target is sent %q at the end", u.sent)
	}
	w.answers(u, "0\r\nA: b\r\n\r\n")
	w.wants(id, 200, "bc", "complete")
}

// A stream that is open in both directions ends when neither side has sent anything for too long.
func TestBothSilent(t *testing.T) {
	w := newWorld(t, 0)
	id := w.request("POST", "/", "", false)
	u, begun := w.next[0], w.now
	for i := range 8 {
		w.now = w.now.Add(50 * time.Second)
		if at := u.m.Deadline(); !at.After(w.now) {
			t.Fatalf("after %v the deadline has passed for %v", w.now.Sub(begun), w.now.Sub(at))
		}
		switch {
		case i == 1:
			w.answers(u, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		case i > 4:
			w.answers(u, "1\r\nx\r\n")
		default:
			out, _ := w.client.AppendData(nil, id, []byte("y"), false)
			w.toProxy = append(w.toProxy, out...)
			w.run()
		}
	}
	w.now = w.now.Add(time.Minute)
	if at := u.m.Deadline(); !at.Equal(w.now) {
		t.Errorf("the deadline is %v away", at.Sub(w.now))
	}
	u.m.HandleExpired(w.now)
	w.apply(u.m)
	w.wants(id, 200, "xxx", "INTERNAL_ERROR")
}

// A response that is cut short because the client of a call waits no longer is cancelled, as by a server of gRPC.
func TestCallCutLate(t *testing.T) {
	w := newWorld(t, 0)
	out, id, err := w.client.AppendRequest(nil, &http2.Request{Method: []byte("POST"), Scheme: "http", Path: []byte("/"),
		Authority: []byte("x"), Fields: []byte("Content-Type: application/grpc\r\nGrpc-Timeout: 1S\r\n")}, true)
	if err != nil {
		t.Fatal(err)
	}
	w.got[id], w.toProxy = new(response), append(w.client.AppendControl(nil), out...)
	w.run()
	u := w.next[0]
	w.answers(u, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n")
	w.now = w.now.Add(time.Second)
	u.m.Exchange.HandleUpstreamReset(w.now, false)
	w.apply(u.m)
	w.wants(id, 200, "xyz", "CANCEL")
}

// Trailers follow the body, also if it had to wait for room.
func TestTrailers(t *testing.T) {
	for _, size := range []int{0, 1000, 66_000} {
		w := newWorld(t, 0)
		id := w.request("GET", "/", "", true)
		body := strings.Repeat("x", size)
		w.answers(w.next[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for at := 0; at < size; at += 1000 {
			w.answers(w.next[0], fmt.Sprintf("3e8\r\n%s\r\n", body[at:at+1000]))
		}
		w.answers(w.next[0], "0\r\nGrpc-Status: 0\r\nHost: y\r\n\r\n")
		w.client.Consumed(id, 65535)
		w.run()
		w.wants(id, 200, body, "complete")
		if got := w.got[id].trailers; got != "grpc-status: 0\r\n" {
			t.Errorf("after %d bytes: trailers %q", size, got)
		}
	}
}

// Nothing is sent of a request that turns out to be too large when its connection comes.
func TestTooLargeWhileDialling(t *testing.T) {
	w := newWorld(t, 0)
	w.dials = true
	id := w.request("POST", "/", strings.Repeat("u", 100), false)
	out, _ := w.client.AppendData(nil, id, bytes.Repeat([]byte("v"), 1000), false)
	w.toProxy = append(w.toProxy, out...)
	w.run()
	u := w.next[0]
	u.m.Exchange.HandleAcquired(w.now, false)
	w.apply(u.m)
	w.run()
	if r := w.got[id]; r.status != 413 || r.end != "NO_ERROR" || len(u.sent) > 0 || !u.left {
		t.Errorf("status %d, end %s, want 413 and NO_ERROR; the target is sent %q, released %t", r.status, r.end,
			u.sent, u.left)
	}
}
