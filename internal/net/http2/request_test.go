package http2_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/net/http2"
)

// A request by HTTP/2 yields the head that the same request yields by HTTP/1.1.
func TestAsHTTP11(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		end   bool
		text  string
	}{
		{request("GET", "/"), true, "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n"},
		{request("GET", "/a/b?c=%20", "accept", "*/*", "x_odd", "1"), true,
			"GET /a/b?c=%20 HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\nx_odd: 1\r\n\r\n"},
		{request("PURGE", "/?"), true, "PURGE /? HTTP/1.1\r\nhost: a.test\r\n\r\n"},
		{request("OPTIONS", "*"), true, "OPTIONS * HTTP/1.1\r\nhost: a.test\r\n\r\n"},
		{[]string{":method", "CONNECT", ":authority", "a.test:80"}, true,
			"CONNECT a.test:80 HTTP/1.1\r\nhost: a.test:80\r\n\r\n"},
		{[]string{":method", "GET", ":scheme", "HTTPS", ":path", "/", "host", "[::1]:8080"}, true,
			"GET / HTTP/1.1\r\nhost: [::1]:8080\r\n\r\n"},
		{request("GET", "/", "x", "1", "host", "A.test"), true, "GET / HTTP/1.1\r\nhost: a.test\r\nx: 1\r\n\r\n"},
		{request("GET", "/", "host", "A.test:80"), true, "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n"},
		{[]string{":method", "GET", ":scheme", "https", ":authority", "a.test:443", ":path", "/", "host", "a.test"}, true,
			"GET / HTTP/1.1\r\nhost: a.test:443\r\n\r\n"},
		{request("GET", "/", "cookie", "a=1", "x", "y", "cookie", "b=2", "cookie", "c=3", "z", ""), true,
			"GET / HTTP/1.1\r\nhost: a.test\r\ncookie: a=1; b=2; c=3\r\nx: y\r\nz: \r\n\r\n"},
		{request("GET", "/", "te", "trailers", "cookie", "a=1"), true,
			"GET / HTTP/1.1\r\nhost: a.test\r\nte: trailers\r\ncookie: a=1\r\n\r\n"},
		{request("POST", "/", "content-length", "007"), false,
			"POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 007\r\n\r\n"},
		{request("POST", "/", "content-length", "0"), true,
			"POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 0\r\n\r\n"},
		{request("POST", "/", "expect", "100-continue", "content-length", "1"), false,
			"POST / HTTP/1.1\r\nhost: a.test\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n"},
	} {
		var h http1.Head
		r := http1.NewRequestReader(nil)
		if _, err := r.Next([]byte(c.text), &h); err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		m := http1test.Message{Head: h}
		want := "head 1 " + m.String()
		if c.end {
			want = "head 1 end " + m.String()
		}
		w := from(http2.Client)
		w.head(1, c.end, c.pairs...)
		got := readAllWays(t, func() *http2.Conn { return http2.New(http2.Server, nil, epoch) }, w.Bytes())
		if len(got.events) != 2 || got.events[1] != want {
			t.Errorf("%q: %s\nwant %s", c.pairs, got, want)
		}
	}
}

// A body without Content-Length has the framing of one whose length a forwarder does not know either.
func TestUnknownLength(t *testing.T) {
	w := from(http2.Client)
	w.head(1, false, request("POST", "/")...)
	c := newServer()
	var h http2.Head
	rest := w.Bytes()
	for ev := testEvent(t, c, &rest, &h); ev.Kind != http2.HeadDone; ev = testEvent(t, c, &rest, &h) {
	}
	if h.Framing != http1.BodyChunked || h.Length != -1 {
		t.Errorf("framing %d, length %d", h.Framing, h.Length)
	}
}

// testEvent returns the next event in rest.
func testEvent(t *testing.T, c *http2.Conn, rest *[]byte, h *http2.Head) http2.Event {
	t.Helper()
	ev, err := c.Next(epoch, *rest, h)
	if err != nil || ev.Kind == http2.NeedMore {
		t.Fatalf("event %v, error %v", ev, err)
	}
	*rest = (*rest)[ev.N:]
	return ev
}

// What may be sent beside messages, and how it is answered.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name         string
		send         func(w *wire)
		events, outs []string
	}{
		{"PING", func(w *wire) { _ = w.WritePing(false, [8]byte{1}) }, nil, []string{"PING 0"}},
		{"PING ACK that was not asked for", func(w *wire) { _ = w.WritePing(true, [8]byte{1}) }, nil, nil},
		{"SETTINGS ACK", func(w *wire) { _ = w.WriteSettingsAck(); _ = w.WriteSettingsAck() }, nil, nil},
		{"SETTINGS of unknown kinds", func(w *wire) { _ = w.WriteSettings(xnet.Setting{ID: 99, Val: 1 << 31}) },
			[]string{"settings"}, []string{"SETTINGS 0"}},
		{"unknown frames", func(w *wire) { w.raw(0x0b, 255, 0, "x").raw(0xff, 0, 77, strings.Repeat("x", 300)) }, nil, nil},
		{"PRIORITY of an idle stream", func(w *wire) { w.raw(xnet.FramePriority, 0, 5, "\x00\x00\x00\x03\x00") }, nil, nil},
		{"PRIORITY_UPDATE", func(w *wire) { w.raw(0x10, 0, 0, "\x00\x00\x00\x01u=1") }, nil, nil},
		{"padded HEADERS with a priority", func(w *wire) {
			_ = w.WriteHeaders(xnet.HeadersFrameParam{StreamID: 1, EndHeaders: true, PadLength: 200,
				Priority: xnet.PriorityParam{StreamDep: 3, Weight: 9}, BlockFragment: w.fields(request("POST", "/")...)})
			w.data(1, true, "x")
		}, []string{"data 1 x end"}, nil},
		{"padded DATA", func(w *wire) {
			w.head(1, false, request("POST", "/")...)
			_ = w.WriteDataPadded(1, false, []byte("ab"), make([]byte, 255))
			_ = w.WriteDataPadded(1, true, nil, make([]byte, 9))
		}, []string{"data 1 ab end"}, nil},
		{"an empty body", func(w *wire) { w.head(1, false, request("POST", "/")...).data(1, false, "").data(1, true, "") },
			[]string{"data 1  end"}, nil},
		{"trailers", func(w *wire) {
			w.head(1, false, request("POST", "/")...).data(1, false, "ab").head(1, true, "x-sum", "1", "y", "z")
		}, []string{"data 1 ab", "trailers 1 end x-sum: 1|y: z|"}, nil},
		{"HEADERS in many frames", func(w *wire) {
			b := w.fields(request("POST", "/")...)
			w.raw(xnet.FrameHeaders, 0, 1, string(b[:1]))
			for i := 1; i < 8; i++ {
				_ = w.WriteContinuation(1, false, b[i:i+1])
			}
			_ = w.WriteContinuation(1, true, b[8:])
			w.data(1, true, "x")
		}, []string{"data 1 x end"}, nil},
		{"RST_STREAM", func(w *wire) { _ = w.get(1).WriteRSTStream(1, xnet.ErrCodeCancel) },
			[]string{"reset 1 CANCEL unprocessed=false <nil>"}, nil},
		{"WINDOW_UPDATE and RST_STREAM after RST_STREAM", func(w *wire) {
			_ = w.get(1).WriteRSTStream(1, xnet.ErrCodeCancel)
			_ = w.WriteRSTStream(1, xnet.ErrCodeCancel)
			_ = w.WriteWindowUpdate(1, 1)
		}, []string{"reset 1 CANCEL unprocessed=false <nil>"}, nil},
		{"the rest of a message that we have reset", func(w *wire) {
			w.head(1, false, request("POST", "/", "X", "y")...).data(1, false, "abc").head(1, true, "sum", "1")
			_ = w.WriteRSTStream(1, xnet.ErrCodeCancel)
		}, nil, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"the rest of a request that is refused", func(w *wire) {
			w.head(1, false, request("POST", "/#")...).data(1, false, "abc").head(1, true, "sum", "1")
		}, []string{"bad 1 400 http1: the request target is not valid"}, nil},
		{"windows of 2^31-1", func(w *wire) {
			_ = w.WriteWindowUpdate(0, 1<<31-1-65535)
			_ = w.get(1).WriteWindowUpdate(1, 1<<31-1-65535)
			_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 1})
			_ = w.get(3).WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 65535})
		}, []string{"settings", "settings"}, []string{"SETTINGS 0", "SETTINGS 0"}},
		{"the largest INITIAL_WINDOW_SIZE", func(w *wire) {
			_ = w.get(1).WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 1<<31 - 1})
		}, []string{"settings"}, []string{"SETTINGS 0"}},
		{"GOAWAY", func(w *wire) { _ = w.WriteGoAway(0, xnet.ErrCodeNo, []byte("bye")) }, []string{"goaway 0 NO_ERROR"}, nil},
	} {
		w := from(http2.Client)
		c.send(w)
		got := readAllWays(t, newServer, w.Bytes())
		events := slices.DeleteFunc(got.events[1:], func(e string) bool { return strings.HasPrefix(e, "head ") })
		outs := got.out[3:] // SETTINGS, WINDOW_UPDATE, SETTINGS ACK
		if got.err != nil || got.rest != 0 || !slices.Equal(events, c.events) || !slices.Equal(outs, c.outs) {
			t.Errorf("%s: %s\nwant %q, %q", c.name, got, c.events, c.outs)
		}
	}
}

// After a head that is too large, the table of the decoder is what the client thinks it is.
func TestTableAfterRefusal(t *testing.T) {
	w := from(http2.Client)
	w.head(1, true, request("GET", "/", "x-early", "1", "large", strings.Repeat("y", 900), "x-late", "2")...)
	w.head(3, true, request("GET", "/", "x-early", "1", "x-late", "2")...)
	got := readAllWays(t, newServer, w.Bytes())
	if len(got.events) != 3 || !strings.HasPrefix(got.events[1], "bad 1 431") ||
		!strings.Contains(got.events[2], `"x-early"="1"`) || !strings.Contains(got.events[2], `"x-late"="2"`) {
		t.Error(got)
	}
}

// What is read does not refer to the bytes given, except for Data.
func TestHeadIsCopied(t *testing.T) {
	w := from(http2.Client)
	w.head(1, true, request("GET", "/path", "x", "y")...)
	c := newServer()
	in := bytes.Clone(w.Bytes())
	var h http2.Head
	rest := in
	testEvent(t, c, &rest, &h)
	testEvent(t, c, &rest, &h)
	clear(in)
	if string(h.Path) != "/path" || string(h.Host) != "a.test" || lines(h.Fields) != "host: a.test|x: y|" {
		t.Errorf("%s %s %s", h.Path, h.Host, lines(h.Fields))
	}
}
