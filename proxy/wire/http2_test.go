package wire

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/test/testkit"
)

// http2Client is a client of HTTP/2 by prior knowledge.
func http2Client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// startHTTP2 runs a proxy that speaks HTTP/2 without TLS before a target.
func startHTTP2(t *testing.T, target http.HandlerFunc, env ...string) *rig {
	t.Helper()
	behind := httptest.NewServer(target)
	t.Cleanup(behind.Close)
	return startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, behind.URL, append(env, "HTTP2", "all")...)
}

func TestHTTP2Requests(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %s %d %s", q.Method, q.Host, q.RequestURI,
			q.Header.Get("Cookie"), len(body), q.Header.Get("X-Forwarded-For")))
		_, _ = w.Write(bytes.Repeat(body, 3))
	})
	client, url := http2Client(t), "http://"+r.Addr().String()
	for _, size := range []int{0, 10, 70_000, 1 << 20} {
		for _, method := range []string{"GET", "POST"} {
			var body io.Reader
			if method == "POST" {
				body = strings.NewReader(strings.Repeat("x", size))
			}
			q := testkit.Must(http.NewRequest(method, url+"/a?b=c", body))(t)
			q.Header.Set("Cookie", "k=v")
			a := testkit.Must(client.Do(q))(t)
			got, err := io.ReadAll(a.Body)
			if method == "GET" {
				size = 0
			}
			want := fmt.Sprintf("%s %s /a?b=c k=v %d 127.0.0.1", method, r.Addr(), size)
			if err != nil || a.ProtoMajor != 2 || a.Header.Get("X-Seen") != want || len(got) != 3*size {
				t.Errorf("%s of %d: %v, HTTP/%d, the target saw %q, want %q; %d bytes", method, size, err, a.ProtoMajor,
					a.Header.Get("X-Seen"), want, len(got))
			}
		}
	}
}

// Many streams of one connection are answered each with its own.
func TestHTTP2Streams(t *testing.T) {
	t.Parallel()
	r, client := startHTTP2(t, echoBody), http2Client(t)
	postAll(t, r, func() *http.Client { return client })
}

// echoBody answers with the body and the path of the request.
func echoBody(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body) // a server of HTTP/1.1 reads nothing more when it has begun to answer
	_, _ = w.Write(append(body, q.URL.Path...))
}

// postAll sends 200 requests with bodies at the same time to targets that answer by echoBody.
func postAll(t *testing.T, r *rig, client func() *http.Client) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			body := strings.Repeat("b", i*1000)
			a, err := client().Post(fmt.Sprintf("http://%s/%d", r.Addr(), i), "text/plain", strings.NewReader(body))
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			got, err := io.ReadAll(a.Body)
			if want := body + fmt.Sprintf("/%d", i); err != nil || string(got) != want {
				t.Errorf("request %d: %v, %d bytes, want %d", i, err, len(got), len(want))
			}
		})
	}
	all.Wait()
}

// A refused request hurts no other stream of its connection, also with a body that is not read.
func TestHTTP2Refusals(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) },
		"RATE_LIMIT_LIMIT", "2")
	client := http2Client(t)
	var got []int
	for range 4 {
		body := strings.NewReader(strings.Repeat("x", 1<<20))
		a := testkit.Must(client.Post("http://"+r.Addr().String()+"/", "text/plain", body))(t)
		_, _ = io.Copy(io.Discard, a.Body)
		got = append(got, a.StatusCode)
	}
	if fmt.Sprint(got) != "[200 200 429 429]" {
		t.Errorf("statuses %v, want [200 200 429 429]", got)
	}
}

// A rawClient sends and reads single frames.
type rawClient struct {
	t      *testing.T
	framer *xnet.Framer
	head   bytes.Buffer
	hpack  *hpack.Encoder
	next   uint32
}

// rawHTTP2 connects to the proxy, with an initial window for each stream.
func (r *rig) rawHTTP2(window uint32) *rawClient {
	r.t.Helper()
	return r.rawHTTP2On(r.dial(), window)
}

// rawHTTP2On is rawHTTP2 on a connection.
func (r *rig) rawHTTP2On(conn *testkit.Conn, window uint32) *rawClient {
	r.t.Helper()
	conn.Send(xnet.ClientPreface)
	c := &rawClient{t: r.t, framer: xnet.NewFramer(conn.Conn, conn.Conn), next: 1}
	c.hpack = hpack.NewEncoder(&c.head)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.must(c.framer.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: window}))
	return c
}

func (c *rawClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// open opens a stream with a request with these fields besides the usual ones, and returns its identifier.
func (c *rawClient) open(method, path string, end bool, fields ...string) (id uint32, err error) {
	c.head.Reset()
	fields = append([]string{":method", method, ":scheme", "http", ":authority", "x", ":path", path}, fields...)
	for i := 0; i < len(fields); i += 2 {
		_ = c.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a buffer takes everything
	}
	id = c.next
	c.next += 2
	return id, c.framer.WriteHeaders(xnet.HeadersFrameParam{StreamID: id, BlockFragment: c.head.Bytes(), EndStream: end,
		EndHeaders: true})
}

// request is open on a connection that does not end.
func (c *rawClient) request(method, path string, end bool, fields ...string) uint32 {
	c.t.Helper()
	id, err := c.open(method, path, end, fields...)
	c.must(err)
	return id
}

// get requests a path.
func (c *rawClient) get(path string) uint32 {
	c.t.Helper()
	return c.request("GET", path, true)
}

// response reads frames until a stream ends, and returns its status and how many bytes of its body came. What
// other streams get is dropped.
func (c *rawClient) response(id uint32) (status string, n int) {
	c.t.Helper()
	for {
		f, err := c.framer.ReadFrame()
		c.must(err)
		if f.Header().StreamID != id {
			continue
		}
		switch f := f.(type) {
		case *xnet.MetaHeadersFrame:
			status = f.PseudoValue("status")
		case *xnet.DataFrame:
			n += len(f.Data())
		case *xnet.RSTStreamFrame:
			return f.ErrCode.String(), n
		}
		if f.Header().Flags.Has(xnet.FlagDataEndStream) {
			return status, n
		}
	}
}

// The answers to requests that come together are sent together, unless they wait for a target.
func TestHTTP2RefusalsTogether(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "RATE_LIMIT_LIMIT", "1")
	conn := r.dial()
	c := r.rawHTTP2On(conn, 65535)
	if status, _ := c.response(c.get("/")); status != "200" {
		t.Errorf("the first request: %s", status)
	}
	var out bytes.Buffer
	c.framer = xnet.NewFramer(&out, nil)
	for range 20 {
		c.get("/")
	}
	conn.Send(out.String())
	got := make([]byte, 64<<10)
	got = got[:testkit.Must(conn.Conn.Read(got))(t)]
	answers, in := 0, xnet.NewFramer(nil, bytes.NewReader(got))
	for f, err := in.ReadFrame(); err == nil; f, err = in.ReadFrame() {
		if f.Header().Flags.Has(xnet.FlagDataEndStream) {
			answers++
		}
	}
	if answers != 20 {
		t.Errorf("%d of 20 answers came at once", answers)
	}
}

// A client that makes no room for a response holds up neither other streams of its connection nor more than a
// part of the target's answer.
func TestHTTP2Window(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, size))
		}
	})
	c := r.rawHTTP2(1000)
	large := c.get("/large")
	if status, n := c.response(c.get("/small")); status != "200" || n != 0 {
		t.Errorf("beside a stream without room: status %s, %d bytes", status, n)
	}
	c.must(c.framer.WriteWindowUpdate(0, size))
	c.must(c.framer.WriteWindowUpdate(large, size))
	if _, n := c.response(large); n < size-1000 || n > size {
		t.Errorf("%d bytes of %d came when there was room", n, size)
	}
}

// A client that makes no room for many responses holds little memory: of each response a piece in the stream, and
// what had arrived before reading from the target was paused.
func TestHTTP2NoRoom(t *testing.T) {
	t.Parallel()
	const streams, size, each = 128, 4 << 20, 192 << 10
	r := startHTTP2(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
	c := r.rawHTTP2(0)
	var last uint32
	for range streams {
		last = c.get("/")
	}
	r.until("all are paused", func() bool { return r.group.Stats().Paused.Load() == streams })
	if n := r.Server.held().Total(); n > streams*each {
		t.Errorf("%d KiB are held for %d responses, want at most %d for each", n>>10, streams, each>>10)
	}
	c.must(c.framer.WriteWindowUpdate(0, size))
	c.must(c.framer.WriteWindowUpdate(last, size))
	if _, n := c.response(last); n != size {
		t.Errorf("%d bytes of %d came when there was room", n, size)
	}
}

// A stream that is reset ends only its own exchange, and its request stays charged.
func TestHTTP2Reset(t *testing.T) {
	t.Parallel()
	at, release := make(chan string, 10), make(chan struct{})
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) {
		at <- q.URL.Path
		<-release
	}, "RATE_LIMIT_LIMIT", "3")
	c := r.rawHTTP2(65535)
	first, second := c.get("/1"), c.get("/2")
	testkit.Receive(t, at, "the first request")
	testkit.Receive(t, at, "the second request")
	c.must(c.framer.WriteRSTStream(first, xnet.ErrCodeCancel))
	close(release)
	if status, _ := c.response(second); status != "200" {
		t.Errorf("beside a stream that was reset: %s", status)
	}
	if status, _ := c.response(c.get("/3")); status != "200" {
		t.Errorf("the third request: %s", status)
	}
	if status, _ := c.response(c.get("/4")); status != "429" {
		t.Errorf("the request after three, of which one was reset: %s, want 429", status)
	}
}

// A client that opens streams only to reset them loses its connection, and the target gets few of its
// requests (CVE-2023-44487).
func TestHTTP2RapidReset(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) {
		got.Add(1)
		<-q.Context().Done()
	})
	c := r.rawHTTP2(65535)
	go func() {
		for range 2000 {
			id, err := c.open("GET", "/", true)
			if err != nil || c.framer.WriteRSTStream(id, xnet.ErrCodeCancel) != nil {
				return
			}
		}
	}()
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			t.Fatalf("the connection ends without GOAWAY: %v", err)
		}
		if g, ok := f.(*xnet.GoAwayFrame); ok {
			if g.ErrCode != xnet.ErrCodeEnhanceYourCalm {
				t.Errorf("GOAWAY with %v, want ENHANCE_YOUR_CALM", g.ErrCode)
			}
			break
		}
	}
	if n := got.Load(); n > 200 {
		t.Errorf("the target got %d requests", n)
	}
}

// The target does not get requests that were reset, by the client or because of it, when they were read.
func TestHTTP2ResetAtOnce(t *testing.T) {
	t.Parallel()
	at := make(chan string, 100)
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) { at <- q.URL.Path }, "RATE_LIMIT_LIMIT", "22")
	conn := r.dial()
	c := r.rawHTTP2On(conn, 65535)
	var out bytes.Buffer
	decoder := c.framer.ReadMetaHeaders
	c.framer = xnet.NewFramer(&out, conn.Conn)
	c.framer.ReadMetaHeaders = decoder
	for range 2 { // the second time a connection to the target is idle
		out.Reset()
		for range 5 {
			c.must(c.framer.WriteRSTStream(c.get("/reset"), xnet.ErrCodeCancel))
			c.must(c.framer.WriteRawFrame(xnet.FrameWindowUpdate, 0, c.get("/overflow"), []byte("\x7f\xff\xff\xff")))
		}
		last := c.get("/")
		conn.Send(out.String())
		if status, _ := c.response(last); status != "200" {
			t.Errorf("beside streams that were reset: %s", status)
		}
		if path := testkit.Receive(t, at, "a request"); path != "/" || len(at) > 0 {
			t.Errorf("the target got %s and %d more requests", path, len(at))
		}
	}
	c = r.rawHTTP2(65535)
	if status, _ := c.response(c.get("/")); status != "429" {
		t.Errorf("%s: requests that were reset are not charged", status)
	}
}

// Nor does it get requests whose connection fails when they are read.
func TestHTTP2FailsAtOnce(t *testing.T) {
	t.Parallel()
	at := make(chan string, 100)
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) { at <- q.URL.Path }, "EVENT_LOOPS", "1")
	good := r.rawHTTP2(65535)
	pass := func() {
		t.Helper()
		if status, _ := good.response(good.get("/")); status != "200" {
			t.Fatalf("a good request: %s", status)
		}
		if path := testkit.Receive(t, at, "a request"); path != "/" {
			t.Errorf("the target got %s", path)
		}
	}
	pass() // a connection to the target is idle
	conn := r.dial()
	c := r.rawHTTP2On(conn, 65535)
	var out bytes.Buffer
	c.framer = xnet.NewFramer(&out, conn.Conn)
	c.get("/lost")
	c.must(c.framer.WriteRawFrame(xnet.FrameData, 0, 0, []byte("of no stream")))
	conn.Send(out.String())
	_, _ = io.Copy(io.Discard, conn.Conn) // until it is closed
	pass()
}

// A client that sends many requests at once delays those of others by few of them. When it has ended its half, the
// rest is answered all the same.
func TestHTTP2TakesTurns(t *testing.T) {
	t.Parallel()
	const many = 60
	target := newRawTarget(t)
	r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, target.url(), "HTTP2", "all", "EVENT_LOOPS", "1",
		"GATE", "off")
	conn, other := r.dial(), r.dialFrom("127.0.0.2")
	c := r.rawHTTP2On(conn, 65535)
	first := c.get("/first") // then all connections are open
	target.request().answer("200", "", true)
	c.response(first)
	other.Send(get)
	target.request().answer("200", "", true)
	testkit.Must(http.ReadResponse(other.In, nil))(t)

	blocked, release := make(chan bool), make(chan bool)
	r.loops[0].loop.Post(func(time.Time) {
		close(blocked)
		<-release
	})
	<-blocked
	for range many {
		c.get("/many")
	}
	c.must(conn.Conn.(*net.TCPConn).CloseWrite())
	other.Send(get)
	close(release)
	at := -1
	for i := range many + 1 {
		q := target.request()
		if q.path != "/many" {
			at = i
		}
		q.answer("200", "", true)
	}
	if at < 0 || at > many/3 {
		t.Errorf("the request of the other client is number %d of %d", at, many)
	}
	for id := first + 2; id <= first+2*many; id += 2 {
		if status, _ := c.response(id); status != "200" {
			t.Errorf("stream %d: %s", id, status)
		}
	}
}

// A connection to a target that got only the beginning of a call is not used again.
func TestCallEndsHalfSent(t *testing.T) {
	t.Parallel()
	for _, timeout := range []string{"", "50m"} {
		arrived, rest := make(chan bool, 1), make(chan string, 1)
		r := serveWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, func(c *targetConn) {
			for !strings.Contains(string(c.unread), "hello") {
				if !c.more() {
					return
				}
			}
			had := len(c.unread)
			arrived <- true
			for c.more() {
			}
			rest <- string(c.unread[had:])
		})
		c := r.rawHTTP2(65535)
		fields := []string{"content-type", "application/grpc", "te", "trailers"}
		if timeout != "" {
			fields = append(fields, "grpc-timeout", timeout)
		}
		id, err := c.open("POST", "/a.B/C", false, fields...)
		c.must(err)
		c.must(c.framer.WriteData(id, false, []byte("hello")))
		testkit.Receive(t, arrived, "the call")
		if timeout == "" {
			c.must(c.framer.WriteRSTStream(id, xnet.ErrCodeCancel))
		}
		if more := testkit.Receive(t, rest, "the end of the connection"); more != "" {
			t.Errorf("timeout %q: the target got %q", timeout, more)
		}
	}
}

// A connection that drains announces it, and completes what is in progress.
func TestHTTP2Drain(t *testing.T) {
	t.Parallel()
	at, release := make(chan string, 1), make(chan struct{})
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) {
		at <- q.URL.Path
		<-release
	})
	answered := make(chan int, 1)
	client := http2Client(t)
	go func() {
		a, err := client.Get("http://" + r.Addr().String() + "/last")
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		answered <- a.StatusCode
	}()
	testkit.Receive(t, at, "the request")
	drained := make(chan int, 1)
	go func() { drained <- r.Drain(t.Context()) }()
	r.until("nothing more is accepted", func() bool {
		conn, err := net.Dial("tcp", r.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(release)
	if status := testkit.Receive(t, answered, "the answer"); status != 200 {
		t.Errorf("status %d of a request in progress", status)
	}
	if cut := testkit.Receive(t, drained, "the end"); cut != 0 {
		t.Errorf("%d connections were cut", cut)
	}
}

// Over TLS the protocol is chosen by ALPN, and without it a client gets HTTP/1.1.
func TestHTTP2OverTLS(t *testing.T) {
	t.Parallel()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, q.Header.Get("X-Forwarded-Proto"))
	}))
	t.Cleanup(behind.Close)
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	t.Cleanup(certified.Close)
	for _, offered := range [][]string{{"h2", "http/1.1"}, {"http/1.1"}} {
		secure := certified.TLS.Clone()
		secure.NextProtos = offered
		r := startWith(t, func(c *Config) { c.Secure = secure }, behind.URL, "HTTP2", "tls")
		for _, wanted := range []bool{true, false} {
			tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
			tr.Protocols.SetHTTP1(true)
			tr.Protocols.SetHTTP2(wanted)
			a, err := (&http.Client{Transport: tr}).Get("https://" + r.Addr().String() + "/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(a.Body)
			tr.CloseIdleConnections()
			want := 1
			if wanted && len(offered) == 2 {
				want = 2
			}
			if a.ProtoMajor != want || string(body) != "https" {
				t.Errorf("offered %v, client wants HTTP/2 %t: HTTP/%d, %q", offered, wanted, a.ProtoMajor, body)
			}
		}
	}
}

// ends reads frames until the connection ends, and returns the codes of GOAWAY.
func (c *rawClient) ends() (codes []string) {
	c.t.Helper()
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return codes
		}
		if g, ok := f.(*xnet.GoAwayFrame); ok {
			codes = append(codes, g.ErrCode.String())
		}
	}
}

// The client is credited for a body that waits until its request's turn in a queue comes.
func TestHTTP2UploadWaits(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		n, _ := io.Copy(io.Discard, q.Body)
		_, _ = fmt.Fprint(w, n)
	}, "RATE_LIMIT_ALGORITHM", "leaky", "RATE_LIMIT_CAPACITY", "10", "RATE_LIMIT_FILL_RATE", "4")
	client, answers := http2Client(t), make(chan string, 3)
	for range 3 {
		go func() {
			body := strings.NewReader(strings.Repeat("x", 300_000))
			a, err := client.Post("http://"+r.Addr().String()+"/", "text/plain", body)
			if err != nil {
				answers <- err.Error()
				return
			}
			got, _ := io.ReadAll(a.Body)
			answers <- string(got)
		}()
	}
	for range 3 {
		if got := testkit.Receive(t, answers, "the answer to an upload"); got != "300000" {
			t.Errorf("the target got %s bytes", got)
		}
	}
}

// A connection without requests is closed after IDLE_TIMEOUT, also if its last answer came later than
// anything from the client.
func TestHTTP2IdleTimeout(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "IDLE_TIMEOUT", "200ms")
	c := r.rawHTTP2(65535)
	if status, _ := c.response(c.get("/")); status != "200" {
		t.Errorf("status %s", status)
	}
	if got := fmt.Sprint(c.ends()); got != "[NO_ERROR]" {
		t.Errorf("GOAWAY with %s, want [NO_ERROR]", got)
	}
}

// A client has HEAD_TIMEOUT for the preface, however much of it has been received.
func TestHTTP2SlowPreface(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "HEAD_TIMEOUT", "200ms")
	for _, part := range []string{"P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"} {
		c := r.dial()
		c.Send(part)
		c.Status(408)
		c.Closed()
	}
	c := r.dial()
	c.Send("P")
	r.until("part of the preface is read", func() bool { return r.samples()["ratelimiter_client_connections"] > 0 })
	c.Send("RI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	r.until("it is a connection of HTTP/2", func() bool { return r.samples()["ratelimiter_http2_connections"] == 1 })
}

// A connection ends with its last request when it has had as many as it may.
func TestHTTP2MaxRequests(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "CONNECTION_MAX_REQUESTS", "2", "DRAIN_GRACE", "50ms")
	c := r.rawHTTP2(65535)
	for range 2 {
		if status, _ := c.response(c.get("/")); status != "200" {
			t.Errorf("status %s", status)
		}
	}
	// the first GOAWAY came before the last response
	if got := fmt.Sprint(c.ends()); got != "[NO_ERROR]" {
		t.Errorf("the last GOAWAY is %s, want [NO_ERROR]", got)
	}
}

// How connections are closed is counted, and the log says so of those that are closed for abuse.
func TestHTTP2Closed(t *testing.T) {
	t.Parallel() // the log is written once a second
	r := startHTTP2(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/reset" {
			<-q.Context().Done()
		}
	}, "HTTP2_GLITCHES_BURST", "3", "HTTP2_GLITCHES_RATE", "0.001", "HTTP2_REQUESTS_MAX", "1")
	for reason, send := range map[string]func(c *rawClient){
		"calm": func(c *rawClient) {
			for range 4 { // beyond HTTP2_REQUESTS_MAX requests are accepted for a while
				id, _ := c.open("GET", "/reset", true)
				_ = c.framer.WriteRSTStream(id, xnet.ErrCodeCancel)
			}
		},
		"protocol":    func(c *rawClient) { c.must(c.framer.WriteRSTStream(7, xnet.ErrCodeCancel)) },
		"flow":        func(c *rawClient) { c.must(c.framer.WriteWindowUpdate(0, 1<<31-1)) },
		"frame_size":  func(c *rawClient) { c.must(c.framer.WriteRawFrame(xnet.FramePing, 0, 0, []byte("a"))) },
		"compression": func(c *rawClient) { c.must(c.framer.WriteRawFrame(xnet.FrameHeaders, 5, 1, []byte{0x80})) },
		"goaway":      func(c *rawClient) { c.get("/") },
	} {
		c := r.rawHTTP2(65535)
		send(c)
		r.until("it is counted: "+reason, func() bool {
			return r.samples()[`ratelimiter_http2_closed_total{reason="`+reason+`"}`] == 1
		})
	}
	ends := r.dial()
	r.rawHTTP2On(ends, 65535)
	_ = ends.Conn.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, ends.Conn)
	r.metrics(`http2_glitches_total{kind="reset"}=4 http2_closed_total{reason="goaway"}=1`)
	r.until("it is logged", func() bool {
		return strings.Contains(r.log.String(), `Connections of HTTP/2 closed for abuse`)
	})
	if log := r.log.String(); !strings.Contains(log, "glitches: reset") || !strings.Contains(log, "client=127.0.0.1") {
		t.Error(log)
	}
}

// A client that is refused because it begins with HTTP/2 is counted, and the log names the setting.
func TestHTTP2Refused(t *testing.T) {
	t.Parallel() // the log is written once a second
	r := start(t, newTarget(t, echoes).url())
	c := r.dial()
	c.Send(xnet.ClientPreface)
	c.Status(505)
	r.metrics("http2_refused_total=1")
	r.until("it is logged", func() bool { return strings.Contains(r.log.String(), "HTTP2=all accepts that") })
	r.play("GET / -> 200")
}
