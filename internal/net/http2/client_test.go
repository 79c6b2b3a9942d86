package http2_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"

	"weir/internal/net/http2"
)

// newClient returns a client that has sent n requests, the first with HEAD, the others with POST and a body that has
// not ended.
func newClient(n int) *http2.Conn {
	var l http2.Limits
	l.Head.HeadBytes, l.Head.Fields = 512, 8
	c := http2.New(http2.Client, &l, epoch)
	for i := range n {
		r := http2.Request{Method: []byte("POST"), Scheme: "http", Authority: []byte("a"), Path: []byte("/")}
		if i == 0 {
			r.Method = []byte("HEAD")
		}
		_, _, _ = c.AppendRequest(nil, &r, i == 0)
	}
	return c
}

func TestClientFaults(t *testing.T) {
	for _, r := range []row{
		{"PUSH_PROMISE", func(w *wire) { w.raw(xnet.FramePushPromise, 4, 1, "\x00\x00\x00\x02") }, "http2: PROTOCOL_ERROR"},
		{"ENABLE_PUSH", func(w *wire) { _ = w.WriteSettings(xnet.Setting{ID: xnet.SettingEnablePush, Val: 1}) },
			"http2: PROTOCOL_ERROR"},
		{"MAX_FRAME_SIZE 0", func(w *wire) { _ = w.WriteSettings(xnet.Setting{ID: xnet.SettingMaxFrameSize}) },
			"http2: PROTOCOL_ERROR"},
		{"a stream of the server", func(w *wire) { w.head(2, true, ":status", "200") }, "http2: PROTOCOL_ERROR"},
		{"a stream that was not opened", func(w *wire) { w.head(9, true, ":status", "200") }, "http2: PROTOCOL_ERROR"},
		{"DATA after the end", func(w *wire) { w.head(1, true, ":status", "200").data(1, true, "x") },
			"http2: STREAM_CLOSED"},
		{"HEADERS after the end", func(w *wire) { w.head(3, true, ":status", "200").head(3, true, "x", "y") },
			"http2: STREAM_CLOSED"},
		{"no :status", func(w *wire) { w.head(3, true, "x", "y") }, "reset 3 PROTOCOL_ERROR"},
		{"two :status", func(w *wire) { w.head(3, true, ":status", "200", ":status", "200") }, "reset 3 PROTOCOL_ERROR"},
		{":status 600", func(w *wire) { w.head(3, true, ":status", "600") }, "reset 3 PROTOCOL_ERROR"},
		{":status 20", func(w *wire) { w.head(3, true, ":status", "20") }, "reset 3 PROTOCOL_ERROR"},
		{":path", func(w *wire) { w.head(3, true, ":status", "200", ":path", "/") }, "reset 3 PROTOCOL_ERROR"},
		{"101", func(w *wire) { w.head(3, false, ":status", "101") }, "reset 3 PROTOCOL_ERROR"},
		{"an interim response that ends", func(w *wire) { w.head(3, true, ":status", "100") }, "reset 3 PROTOCOL_ERROR"},
		{"too many interim responses", func(w *wire) {
			for range 17 {
				w.head(3, false, ":status", "103")
			}
		}, "reset 3 PROTOCOL_ERROR"},
		{"DATA before the head", func(w *wire) { w.data(3, true, "x") }, "reset 3 PROTOCOL_ERROR"},
		{"DATA after an interim response", func(w *wire) { w.head(3, false, ":status", "100").data(3, true, "x") },
			"reset 3 PROTOCOL_ERROR"},
		{"a body for HEAD", func(w *wire) { w.head(1, false, ":status", "200", "content-length", "1").data(1, true, "x") },
			"reset 1 PROTOCOL_ERROR"},
		{"a body with 204", func(w *wire) { w.head(3, false, ":status", "204").data(3, true, "x") },
			"reset 3 PROTOCOL_ERROR"},
		{"a shorter body", func(w *wire) { w.head(3, false, ":status", "200", "content-length", "2").data(3, true, "x") },
			"reset 3 PROTOCOL_ERROR"},
		{"no body", func(w *wire) { w.head(3, true, ":status", "200", "content-length", "2") }, "reset 3 PROTOCOL_ERROR"},
		{"two lengths", func(w *wire) { w.head(3, true, ":status", "200", "content-length", "0", "content-length", "0") },
			"reset 3 PROTOCOL_ERROR"},
		{"a head that is too large", func(w *wire) { w.head(3, true, ":status", "200", "x", strings.Repeat("y", 5000)) },
			"reset 3 ENHANCE_YOUR_CALM"},
		{"a connection field", func(w *wire) { w.head(3, true, ":status", "200", "connection", "close") },
			"reset 3 PROTOCOL_ERROR"},
		{"REFUSED_STREAM", func(w *wire) { _ = w.WriteRSTStream(3, xnet.ErrCodeRefusedStream) },
			"reset 3 REFUSED_STREAM unprocessed=true <nil>"},
		{"another reset", func(w *wire) { _ = w.WriteRSTStream(3, xnet.ErrCodeInternal) },
			"reset 3 INTERNAL_ERROR unprocessed=false <nil>"},
		{"GOAWAY", func(w *wire) { _ = w.WriteGoAway(1, xnet.ErrCodeEnhanceYourCalm, nil) },
			"goaway 1 ENHANCE_YOUR_CALM\nreset 5 REFUSED_STREAM unprocessed=true <nil>\n" +
				"reset 3 REFUSED_STREAM unprocessed=true <nil>"},
	} {
		w := from(http2.Server)
		r.send(w)
		got := readAllWays(t, func() *http2.Conn { return newClient(3) }, w.Bytes())
		if !strings.Contains(got.String(), r.want) {
			t.Errorf("%s: %s\nwant %s", r.name, got, r.want)
		}
	}
}

// The client reads responses as the server means them: interim ones, without body, with trailers, and the end of an
// upload that the server does not want (RFC 9113 8.1).
func TestResponses(t *testing.T) {
	w := from(http2.Server)
	w.head(1, false, ":status", "103", "link", "x").head(1, true, ":status", "200", "content-length", "12345")
	w.head(3, false, ":status", "200", "server", "s").data(3, false, "abc").head(3, true, "grpc-status", "0")
	w.head(5, false, ":status", "429").data(5, true, "slow down")
	_ = w.WriteRSTStream(5, xnet.ErrCodeNo)
	got := readAllWays(t, func() *http2.Conn { return newClient(3) }, w.Bytes())
	for i, want := range []string{
		"settings", "head 1 OTHER", "head 1 end", "head 3 OTHER", "data 3 abc", "trailers 3 end grpc-status: 0|",
		"head 5 OTHER", "data 5 slow down end", "reset 5 NO_ERROR unprocessed=false <nil>",
	} {
		if i >= len(got.events) || !strings.HasPrefix(got.events[i], want) {
			t.Fatalf("event %d is not %q: %s", i, want, got)
		}
	}
	if !strings.Contains(got.events[2], "framing 0 length 12345") {
		t.Errorf("the response to HEAD: %s", got.events[2])
	}
}

// A client opens as many streams as the server allows, which may be fewer than are open.
func TestStreamsOfServer(t *testing.T) {
	c := newClient(2)
	if n := c.Free(); n != 98 {
		t.Errorf("before SETTINGS there may be %d more streams", n)
	}
	w := from(http2.Server, xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 3})
	read(c, [][]byte{w.Bytes()})
	if n := c.Free(); n != 1 {
		t.Errorf("there may be %d more streams, want 1", n)
	}
	w.Reset()
	_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 1})
	read(c, [][]byte{w.Bytes()})
	r := http2.Request{Method: []byte("GET"), Scheme: "http", Authority: []byte("a"), Path: []byte("/")}
	if out, _, err := c.AppendRequest(nil, &r, true); c.Free() != 0 || !errors.Is(err, http2.ErrStream) || len(out) != 0 {
		t.Errorf("a request beyond the limit: %v, %d bytes", err, len(out))
	}
	w.Reset()
	_ = w.WriteGoAway(1<<31-1, xnet.ErrCodeNo, nil)
	_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 100})
	read(c, [][]byte{w.Bytes()})
	if c.Free() != 0 || c.Streams() != 2 {
		t.Errorf("after GOAWAY %d more streams, %d open", c.Free(), c.Streams())
	}
}

// A server that does not say how many streams it allows has no limit, which later settings do not change.
func TestNoLimitOfStreams(t *testing.T) {
	c := newClient(2)
	read(c, [][]byte{from(http2.Server).Bytes()})
	if n := c.Free(); n != 1<<31-3 {
		t.Errorf("there may be %d more streams", n)
	}
	w := from(http2.Server, xnet.Setting{ID: xnet.SettingMaxConcurrentStreams, Val: 3})
	_ = w.WriteSettings()
	read(c, [][]byte{w.Bytes()})
	if n := c.Free(); n != 1 {
		t.Errorf("then there may be %d more streams, want 1", n)
	}
}

// The peer's limit on field lists is obeyed, and what is not sent changes nothing.
func TestListTooLarge(t *testing.T) {
	c := newClient(0)
	w := from(http2.Server, xnet.Setting{ID: xnet.SettingMaxHeaderListSize, Val: 300})
	read(c, [][]byte{w.Bytes()})
	r := http2.Request{Method: []byte("GET"), Scheme: "http", Authority: []byte("a"), Path: []byte("/")}
	// :method GET, :scheme http, :path / and :authority a have 42, 43, 38 and 43; x has 33 and its value.
	r.Fields = []byte("x: " + strings.Repeat("y", 300-166-33) + "\r\n")
	out, id, err := c.AppendRequest(nil, &r, true)
	if err != nil || id != 1 || len(out) == 0 {
		t.Errorf("as large as allowed: stream %d, %v", id, err)
	}
	r.Fields = []byte("x: " + strings.Repeat("y", 300-166-32) + "\r\n")
	out, id, err = c.AppendRequest(nil, &r, true)
	if !errors.Is(err, http2.ErrFieldsTooLarge) || id != 0 || len(out) != 0 {
		t.Errorf("one byte more: stream %d, %v, %d bytes", id, err, len(out))
	}
	if c.Streams() != 1 {
		t.Errorf("%d streams are open", c.Streams())
	}
}

// Pings are answered, and not sent without end.
func TestPing(t *testing.T) {
	c := newClient(1)
	c.AppendControl(nil)
	var out []byte
	for range 6 {
		out = c.AppendPing(out)
	}
	if got := frames(out); !slices.Equal(got, []string{"PING 0", "PING 0", "PING 0", "PING 0"}) {
		t.Errorf("sent %q", got)
	}
	w := from(http2.Server)
	_ = w.WritePing(true, [8]byte{})
	if got := read(c, [][]byte{w.Bytes()}); !slices.Equal(got.events, []string{"settings", "pong"}) {
		t.Error(got)
	}
	if len(frames(c.AppendPing(nil))) != 1 {
		t.Error("no PING after an answer")
	}
}
