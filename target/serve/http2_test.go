package serve

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/target/model"
	"weir/target/session"
)

// http2 makes the client of the rig speak HTTP/2 with prior knowledge.
func (r *rig) http2() {
	transport := r.client.Transport.(*http.Transport)
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
}

// A framed is a client of HTTP/2 that sends and reads single frames.
type framed struct {
	*xnet.Framer
	t     *testing.T
	conn  *testkit.Conn
	block bytes.Buffer
	hpack *hpack.Encoder
	last  uint32 // stream
}

func (r *rig) framed() *framed {
	r.t.Helper()
	c := &framed{t: r.t, conn: r.dial()}
	c.conn.Send(xnet.ClientPreface)
	c.Framer = xnet.NewFramer(c.conn.Conn, c.conn.Conn)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.hpack = hpack.NewEncoder(&c.block)
	c.must(c.WriteSettings())
	return c
}

func (c *framed) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// open opens a stream with a request, by POST if it has a body.
func (c *framed) open(end bool, path string, fields ...string) uint32 {
	c.t.Helper()
	c.block.Reset()
	method := map[bool]string{true: "GET", false: "POST"}[end]
	fields = append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", "x"}, fields...)
	for i := 0; i < len(fields); i += 2 {
		c.must(c.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	c.last += 2
	id := c.last - 1
	c.must(c.WriteHeaders(xnet.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true,
		EndStream: end}))
	return id
}

// status reads up to the head of a response, which it returns.
func (c *framed) status(id uint32) string {
	c.t.Helper()
	return frameOf[*xnet.MetaHeadersFrame](c, id).PseudoValue("status")
}

// frameOf reads up to a frame of a kind on a stream.
func frameOf[F xnet.Frame](c *framed, id uint32) F {
	c.t.Helper()
	for {
		f, err := c.ReadFrame()
		c.must(err)
		if want, ok := f.(F); ok && f.Header().StreamID == id {
			return want
		}
	}
}

func TestHTTP2(t *testing.T) {
	r := start(t, model.Default())
	r.http2()
	for range 3 {
		r.want("GET", "/api/test", "", 200, "OK")
	}
	r.want("POST", "/api/test", strings.Repeat("x", 1<<20), 200, "OK")
	r.want("GET", "/nowhere", "", 404, "Not Found")
	r.want("HEAD", "/api/test", "", 200, "")
	if status, fields, text := r.do("POST", "/model", `{"workers":3}`); status != 200 ||
		!strings.Contains(text, `"workers":3`) || !strings.Contains(fields.Get("Content-Type"), "json") {
		t.Errorf("POST /model: %d %v %q", status, fields, text)
	}
	if status, _, _ := r.do("POST", "/model", strings.Repeat(" ", 1<<20+1)); status != 413 {
		t.Errorf("a body that is too large: %d", status)
	}
	samples := r.samples()
	for name, want := range map[string]float64{
		`http_server_requests_seconds_count{method="GET",uri="/api/test",status="200"}`:  3,
		`http_server_requests_seconds_count{method="POST",uri="/api/test",status="200"}`: 1,
		`http_server_requests_seconds_count{method="HEAD",uri="/api/test",status="200"}`: 1,
		`http_server_requests_seconds_count{method="POST",uri="own",status="413"}`:       1,
		`target_requests_by_protocol_total{protocol="h2c"}`:                              8,
		`target_requests_by_protocol_total{protocol="http1"}`:                            0,
	} {
		if samples[name] != want {
			t.Errorf("%s is %v, want %v", name, samples[name], want)
		}
	}
}

// Streams have workers and waiting places as requests of HTTP/1.1 have, beside which they run; what a client
// resets is given up.
func TestStreamsShareTheCapacity(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 2, QueueTimeout: forever})
	c := r.framed()
	busy := c.open(true, "/api/test")
	r.inside(1, 0)
	waiting := c.open(true, "/api/test")
	r.inside(1, 1)
	r.dial().Send(get)
	r.inside(1, 2)
	if status := c.status(c.open(true, "/api/test")); status != "503" {
		t.Errorf("beyond the queue: %s, want 503", status)
	}
	c.must(c.WriteRSTStream(waiting, xnet.ErrCodeCancel))
	r.inside(1, 1)
	waiting = c.open(true, "/api/test")
	r.inside(1, 2)
	r.change(t, func(m model.Config) model.Config { m.Workers, m.Delay = 0, 0; return m })
	if a, b := c.status(waiting), c.status(c.open(true, "/api/test")); a != "200" || b != "200" {
		t.Errorf("%s and %s when there are workers, want 200", a, b)
	}
	c.must(c.WriteRSTStream(busy, xnet.ErrCodeCancel))
	c.ping()
	r.onHTTP2(func(_ time.Time, c *http2Conn) {
		if n := len(c.session.Streams()); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// onHTTP2 calls f with every connection of HTTP/2, on its loop, and waits for that.
func (r *rig) onHTTP2(f func(now time.Time, c *http2Conn)) {
	r.onHandlers(func(now time.Time, h loop.Handler) {
		if c, ok := h.(*http2Conn); ok {
			f(now, c)
		}
	})
}

// The end of the connection ends what its streams have in the model.
func TestHTTP2ConnectionEnds(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever})
	c := r.framed()
	for range 4 {
		c.open(true, "/api/test")
	}
	r.inside(1, 3)
	c.conn.Close()
	r.until("nothing waits", func() bool { _, waiting := r.station.load(); return waiting == 0 })
}

// Clients that lose patience with many requests are no attack: their connections stay, as experiments with an
// overloaded service need them.
func TestManyResets(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 1, QueueTimeout: forever})
	c := r.framed()
	c.open(true, "/api/test")
	r.inside(1, 0)
	for range 500 {
		c.must(c.WriteRSTStream(c.open(true, "/api/test"), xnet.ErrCodeCancel))
	}
	if status := c.status(c.open(true, "/nowhere")); status != "404" {
		t.Errorf("then a request is answered %s", status)
	}
}

// A response waits until the client makes room for it.
func TestResponseWaitsForRoom(t *testing.T) {
	r := start(t, model.Default())
	c := r.framed()
	c.must(c.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 1}))
	id := c.open(true, "/api/test")
	if status, data := c.status(id), frameOf[*xnet.DataFrame](c, id); status != "200" || string(data.Data()) != "O" {
		t.Errorf("%s, %q", status, data.Data())
	}
	c.must(c.WriteWindowUpdate(id, 1))
	if data := frameOf[*xnet.DataFrame](c, id); string(data.Data()) != "K" || !data.StreamEnded() {
		t.Errorf("then %v", data)
	}
}

// So does the refusal of a request whose body is too large. What follows of it is not read, even if that is its end.
func TestRefusalWaitsForRoom(t *testing.T) {
	r := start(t, model.Default())
	c := r.framed()
	c.must(c.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 0}))
	id := c.open(false, "/model")
	c.upload(id, 1<<20)
	c.must(c.WriteData(id, true, []byte("x")))
	if status := c.status(id); status != "413" {
		t.Errorf("a body that is too large: %s", status)
	}
	c.must(c.WriteWindowUpdate(id, 100))
	if f := frameOf[*xnet.DataFrame](c, id); string(f.Data()) != http1.ReasonPhrase(413) || !f.StreamEnded() {
		t.Errorf("then %v", f)
	}
}

// upload sends n bytes of the body of a request, as the target makes room for them.
func (c *framed) upload(id uint32, n int) {
	c.t.Helper()
	for room := 65535; n > 0; {
		for room == 0 {
			room += int(frameOf[*xnet.WindowUpdateFrame](c, id).Increment)
		}
		piece := min(n, room, 16<<10)
		c.must(c.WriteData(id, false, make([]byte, piece)))
		n, room = n-piece, room-piece
	}
}

// A panic ends its connection, and leaves nothing for the other ones of the loop.
func TestPanicOfHTTP2(t *testing.T) {
	for name, open := range map[string]func(sh *session.LoopState) *session.Stream{
		"reading":   func(sh *session.LoopState) *session.Stream { sh.Out = append(sh.Out, "unsent"...); panic("of a test") },
		"answering": func(*session.LoopState) *session.Stream { return &session.Stream{} }, // without an owner
	} {
		t.Run(name, func(t *testing.T) {
			r := startWith(t, Config{Model: model.Default(), Loops: 1, DrainTimeout: testkit.Timeout, Seed: 1})
			broken := r.framed()
			broken.ping()
			r.onHTTP2(func(now time.Time, c *http2Conn) {
				sh := &c.shard.shared
				c.session = session.NewHTTP2(now, sh, func() *session.Stream { return open(sh) })
			})
			other := r.framed()
			other.ping()
			broken.conn.Send(xnet.ClientPreface)
			broken.must(broken.WriteSettings())
			broken.open(true, "/api/test")
			broken.ended()
			id := other.open(true, "/api/test")
			if f, err := other.ReadFrame(); err != nil || f.Header().Type != xnet.FrameHeaders || f.Header().StreamID != id {
				t.Errorf("another connection receives %v, %v", f, err)
			}
		})
	}
}

// ended reads until the target closes the connection.
func (c *framed) ended() {
	c.t.Helper()
	for {
		if _, err := c.ReadFrame(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.t.Fatal(err)
		}
	}
}

// ping waits until the target has answered all that was sent.
func (c *framed) ping() {
	c.t.Helper()
	c.must(c.WritePing(false, [8]byte{}))
	frameOf[*xnet.PingFrame](c, 0)
}

func TestHTTP2Deadlines(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 1, QueueTimeout: forever})
	left := func(c *http2Conn, now time.Time) time.Duration { return c.net.Deadline().Sub(now) }
	expire := func(after time.Duration) {
		r.onHTTP2(func(now time.Time, c *http2Conn) { c.Expired(now.Add(after)) })
	}
	between := func(low, high time.Duration) func() bool {
		return func() (is bool) {
			r.onHTTP2(func(now time.Time, c *http2Conn) { is = left(c, now) > low && left(c, now) <= high })
			return is
		}
	}
	idle := r.framed()
	r.until("idle", between(60*time.Second, 75*time.Second))
	expire(75 * time.Second)
	if f := frameOf[*xnet.GoAwayFrame](idle, 0); f.ErrCode != xnet.ErrCodeNo {
		t.Errorf("an idle connection ends by %v", f)
	}
	idle.ended()
	idle.conn.Close()
	r.until("closed", func() bool { return r.group.Stats().Open.Load() == 0 })

	partial := r.framed()
	partial.conn.Send("\x00\x00\x08")
	r.until("within a frame", between(0, 10*time.Second))
	expire(10 * time.Second)
	if f := frameOf[*xnet.GoAwayFrame](partial, 0); f.ErrCode != xnet.ErrCodeEnhanceYourCalm {
		t.Errorf("a slow frame ends the connection by %v", f)
	}
	partial.ended()
	partial.conn.Close()
	r.until("closed", func() bool { return r.group.Stats().Open.Load() == 0 })

	asked := r.framed()
	asked.open(true, "/api/test")
	r.inside(1, 0)
	expire(time.Hour)
	r.change(t, func(m model.Config) model.Config { m.Workers, m.Delay = 0, 0; return m })
	if status := asked.status(asked.open(true, "/api/test")); status != "200" {
		t.Errorf("after a long answer: %s", status)
	}
}

// The preface may come in pieces, and what only begins like it is HTTP/1.1.
func TestPrefaceIsTold(t *testing.T) {
	r := start(t, model.Default())
	c := r.dial()
	for _, b := range []byte(xnet.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00") {
		c.Send(string(b))
	}
	if f, err := xnet.NewFramer(nil, c.Conn).ReadFrame(); err != nil || f.Header().Type != xnet.FrameSettings {
		t.Errorf("%v, %v", f, err)
	}
	w := r.dial()
	w.Send("PRI /api/test HTTP/1.1\r\nHost: x\r\n\r\n")
	w.Status(200)
}

func TestDrainOfHTTP2(t *testing.T) {
	r := startDrainable(t, Config{Loops: 2, Seed: 1, DrainTimeout: forever,
		Model: model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever}})
	idle, c := r.framed(), r.framed()
	running := c.open(true, "/api/test")
	r.inside(1, 0)
	waiting := c.open(true, "/api/test")
	r.inside(1, 1)
	done := r.drain()
	frameOf[*xnet.GoAwayFrame](idle, 0)
	idle.ended()
	idle.conn.Close()
	if last := frameOf[*xnet.GoAwayFrame](c, 0).LastStreamID; last != waiting {
		t.Errorf("streams up to %d are answered, want %d", last, waiting)
	}
	c.must(c.WriteRSTStream(running, xnet.ErrCodeCancel))
	r.change(t, func(m model.Config) model.Config { m.Workers, m.Delay = 0, 0; return m })
	if status := c.status(waiting); status != "200" {
		t.Errorf("the last answer is %s", status)
	}
	c.ended()
	c.conn.Close()
	r.ended(done)
}

// libnghttp2 agrees.
func TestH2load(t *testing.T) {
	r := start(t, model.Default())
	out, err := exec.CommandContext(t.Context(), testkit.FindOrSkip(t, "h2load"), "-c", "4", "-m", "100", "-n", "4000",
		r.url("/api/test")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "status codes: 4000 2xx") {
		t.Errorf("h2load: %v\n%s", err, out)
	}
}
