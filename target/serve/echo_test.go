package serve

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"

	"weir/internal/test/testkit"
	"weir/target/model"
)

// message is a message of gRPC with its head.
func message(text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text)))) + text
}

// call makes a gRPC call with net/http, and returns the head of its response.
func (r *rig) call(method string, body io.Reader) *http.Response {
	r.t.Helper()
	q := testkit.Must(http.NewRequest("POST", r.url("/weir.Echo/"+method), body))(r.t)
	q.Header.Set("Content-Type", "application/grpc+proto")
	q.Header.Set("Te", "trailers")
	a := testkit.Must(r.client.Client.Do(q))(r.t)
	r.t.Cleanup(func() { a.Body.Close() })
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/grpc" {
		r.t.Errorf("the response is %d %v", a.StatusCode, a.Header)
	}
	return a
}

// ends reads the rest of a response, which it returns with grpc-status.
func ends(t *testing.T, a *http.Response) (body, status string) {
	t.Helper()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text), a.Header.Get("Grpc-Status") + a.Trailer.Get("Grpc-Status")
}

func TestEcho(t *testing.T) {
	r := start(t, model.Default())
	r.http2()
	long := message(strings.Repeat("x", 1<<20))
	for _, c := range []struct{ name, method, sent, back, status string }{
		{"unary", "Unary", message("hello"), message("hello"), "0"},
		{"an empty message", "Unary", message(""), message(""), "0"},
		{"the longest message", "Unary", long, long, "0"},
		{"longer", "Unary", message(strings.Repeat("x", 1<<20+1)), "", "8"},
		{"no message", "Unary", "", "", "13"},
		{"two messages for one", "Unary", message("a") + message("b"), "", "13"},
		{"compressed", "Unary", "\x01\x00\x00\x00\x01x", "", "12"},
		{"part of a message", "Unary", message("hello")[:7], "", "13"},
		{"part of a head", "Stream", "\x00\x00", "", "13"},
		{"an empty stream", "Stream", "", "", "0"},
		{"a stream", "Stream", message("a") + message("") + long, message("a") + message("") + long, "0"},
		{"then part of a message", "Stream", message("a") + "\x00", message("a"), "13"},
	} {
		// Without a length the request may be answered before its end.
		back, status := ends(t, r.call(c.method, io.MultiReader(strings.NewReader(c.sent))))
		if back != c.back || status != c.status {
			t.Errorf("%s: %d bytes come back and status %q, want %d and %s", c.name, len(back), status, len(c.back), c.status)
		}
	}
	if status, _, _ := r.do("POST", "/weir.Echo/Unary", message("a")); status != 415 {
		t.Errorf("without the type of gRPC: %d, want 415", status)
	}
	samples := r.samples()
	for name, want := range map[string]float64{
		`method="POST",uri="/weir.Echo/Unary",status="200"`:  3,
		`method="POST",uri="/weir.Echo/Unary",status="400"`:  5,
		`method="POST",uri="/weir.Echo/Stream",status="200"`: 4,
		`method="POST",uri="/weir.Echo/Stream",status="400"`: 2,
	} {
		if got := samples["http_server_requests_seconds_count{"+name+"}"]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A message of a stream comes back before the next one is sent.
func TestEchoStreams(t *testing.T) {
	r := start(t, model.Default())
	r.http2()
	in, out := io.Pipe()
	heads := make(chan *http.Response, 1)
	go func() { heads <- r.call("Stream", in) }()
	testkit.Must(out.Write([]byte(message("first"))))(t)
	a := testkit.Receive(t, heads, "the head of the response")
	for _, text := range []string{"first", "second", strings.Repeat("third", 50_000)} {
		if text != "first" {
			testkit.Must(out.Write([]byte(message(text))))(t)
		}
		back := make([]byte, len(message(text)))
		if _, err := io.ReadFull(a.Body, back); err != nil || string(back) != message(text) {
			t.Fatalf("%d bytes come back, %v", len(back), err)
		}
	}
	out.Close()
	if rest, status := ends(t, a); rest != "" || status != "0" {
		t.Errorf("then %q, status %q", rest, status)
	}
}

// Each message is a request to the service, and its failure is one of the call.
func TestEchoHasCapacity(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 1, QueueTimeout: forever})
	c := r.framed()
	open := func(method string) uint32 {
		return c.open(false, "/weir.Echo/"+method, "content-type", "application/grpc")
	}
	send := func(id uint32, end bool, text string) { c.must(c.WriteData(id, end, []byte(message(text)))) }

	stream := open("Stream")
	send(stream, false, "a")
	r.inside(1, 0)
	send(stream, false, "b") // waits for its turn
	unary := open("Unary")
	send(unary, true, "c")
	r.inside(1, 1)
	refused := open("Unary")
	send(refused, true, "d")
	head := frameOf[*xnet.MetaHeadersFrame](c, refused)
	if status := valueOf(head, "grpc-status"); !head.StreamEnded() || status != "14" {
		t.Errorf("beyond the queue: %v", head)
	}
	r.change(t, func(m model.Config) model.Config { m.Workers, m.Delay = 0, 0; return m })
	if data := frameOf[*xnet.DataFrame](c, unary).Data(); string(data) != message("c") {
		t.Errorf("%q comes back", data)
	}
	if status := valueOf(frameOf[*xnet.MetaHeadersFrame](c, unary), "grpc-status"); status != "0" {
		t.Errorf("status %q", status)
	}

	r.change(t, func(m model.Config) model.Config { m.ErrorRate = 1; return m })
	id := open("Unary")
	send(id, true, "e")
	if status := valueOf(frameOf[*xnet.MetaHeadersFrame](c, id), "grpc-status"); status != "13" {
		t.Errorf("an error is status %q, want 13", status)
	}
	// The call that has begun to answer ends by trailers, and the rest of its request is not wanted.
	r.change(t, func(m model.Config) model.Config { m.ErrorRate = 0; return m })
	id = open("Stream")
	send(id, false, "f")
	frameOf[*xnet.DataFrame](c, id)
	r.change(t, func(m model.Config) model.Config { m.ErrorRate = 1; return m })
	send(id, false, "g")
	if status := valueOf(frameOf[*xnet.MetaHeadersFrame](c, id), "grpc-status"); status != "13" {
		t.Errorf("a later error is status %q, want 13", status)
	}
	if f := frameOf[*xnet.RSTStreamFrame](c, id); f.ErrCode != xnet.ErrCodeNo {
		t.Errorf("it ends by %v", f)
	}
}

// A client that makes no room for what comes back gets no credit for more.
func TestEchoIsBounded(t *testing.T) {
	r := start(t, model.Default())
	c := r.framed()
	id := c.open(false, "/weir.Echo/Stream", "content-type", "application/grpc")
	text := message(strings.Repeat("x", 1000))
	const window = 65535
	credit, sent, back := window, 0, 0
	for credit >= len(text) {
		for ; credit >= len(text); credit -= len(text) {
			c.must(c.WriteData(id, false, []byte(text)))
			sent += len(text)
		}
		for pong := false; !pong; {
			if back == min(sent, window) { // what is answered now was sent after that
				c.must(c.WritePing(false, [8]byte{}))
			}
			switch f := testkit.Must(c.ReadFrame())(t).(type) {
			case *xnet.DataFrame:
				back += len(f.Data())
			case *xnet.WindowUpdateFrame:
				if f.StreamID == id {
					credit += int(f.Increment)
				}
			case *xnet.PingFrame:
				pong = back == min(sent, window)
			}
		}
	}
	if back != window || sent < back || sent > 3*window {
		t.Errorf("%d bytes were sent, of which %d came back", sent, back)
	}
	c.must(c.WriteWindowUpdate(0, 3*window))
	c.must(c.WriteWindowUpdate(id, 3*window))
	c.must(c.WriteData(id, true, nil))
	for back < sent {
		back += len(frameOf[*xnet.DataFrame](c, id).Data())
	}
	if status := valueOf(frameOf[*xnet.MetaHeadersFrame](c, id), "grpc-status"); status != "0" {
		t.Errorf("status %q", status)
	}
}

// valueOf returns a field of a head.
func valueOf(f *xnet.MetaHeadersFrame, name string) (value string) {
	for _, field := range f.Fields {
		if field.Name == name {
			value = field.Value
		}
	}
	return value
}
