package http2_test

import (
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"

	"weir/internal/net/http2"
)

// newServer returns a server with small limits.
func newServer() *http2.Conn {
	l := http2.Limits{Streams: 4}
	l.Head.HeadBytes, l.Head.Fields = 512, 8
	return http2.New(http2.Server, &l, epoch)
}

// A row is what a peer sends after the preface, and what must come of it: the end of the record's events, its error,
// or a frame that answers.
type row struct {
	name string
	send func(w *wire)
	want string
}

// faults of connections, at a server.
var connectionFaults = []row{
	{"a larger frame", func(w *wire) {
		w.head(1, false, request("POST", "/")...).data(1, true, strings.Repeat("x", 16385))
	}, "FRAME_SIZE_ERROR"},
	{"a frame of unknown type that is larger", func(w *wire) { w.raw(0x20, 0, 1, strings.Repeat("x", 16385)) },
		"FRAME_SIZE_ERROR"},
	{"SETTINGS on a stream", func(w *wire) { w.raw(xnet.FrameSettings, 0, 1, "") }, "PROTOCOL_ERROR"},
	{"SETTINGS of 5 bytes", func(w *wire) { w.raw(xnet.FrameSettings, 0, 0, "12345") }, "FRAME_SIZE_ERROR"},
	{"SETTINGS ACK with content", func(w *wire) { w.raw(xnet.FrameSettings, xnet.FlagSettingsAck, 0, "123456") },
		"FRAME_SIZE_ERROR"},
	{"ENABLE_PUSH 2", func(w *wire) { _ = w.WriteSettings(xnet.Setting{ID: xnet.SettingEnablePush, Val: 2}) },
		"PROTOCOL_ERROR"},
	{"INITIAL_WINDOW_SIZE 2^31", func(w *wire) {
		_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 1 << 31})
	}, "FLOW_CONTROL_ERROR"},
	{"MAX_FRAME_SIZE 0", func(w *wire) { _ = w.WriteSettings(xnet.Setting{ID: xnet.SettingMaxFrameSize}) },
		"PROTOCOL_ERROR"},
	{"MAX_FRAME_SIZE 2^24", func(w *wire) {
		_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingMaxFrameSize, Val: 1 << 24})
	}, "PROTOCOL_ERROR"},
	{"a window beyond 2^31-1 by INITIAL_WINDOW_SIZE", func(w *wire) {
		w.get(1)
		_ = w.WriteWindowUpdate(1, 1)
		_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 1<<31 - 1})
	}, "FLOW_CONTROL_ERROR"},
	{"PING of 7 bytes", func(w *wire) { w.raw(xnet.FramePing, 0, 0, "1234567") }, "FRAME_SIZE_ERROR"},
	{"PING on a stream", func(w *wire) { w.raw(xnet.FramePing, 0, 1, "12345678") }, "PROTOCOL_ERROR"},
	{"GOAWAY of 7 bytes", func(w *wire) { w.raw(xnet.FrameGoAway, 0, 0, "1234567") }, "FRAME_SIZE_ERROR"},
	{"GOAWAY on a stream", func(w *wire) { w.raw(xnet.FrameGoAway, 0, 1, "12345678") }, "PROTOCOL_ERROR"},
	{"WINDOW_UPDATE of 3 bytes", func(w *wire) { w.raw(xnet.FrameWindowUpdate, 0, 0, "123") }, "FRAME_SIZE_ERROR"},
	{"WINDOW_UPDATE by 0", func(w *wire) { _ = w.WriteWindowUpdate(0, 0) }, "PROTOCOL_ERROR"},
	{"WINDOW_UPDATE by 0 of a stream", func(w *wire) { _ = w.get(1).WriteWindowUpdate(1, 0) }, "PROTOCOL_ERROR"},
	{"WINDOW_UPDATE beyond 2^31-1", func(w *wire) { _ = w.WriteWindowUpdate(0, 1<<31-1) }, "FLOW_CONTROL_ERROR"},
	{"WINDOW_UPDATE of an idle stream", func(w *wire) { _ = w.WriteWindowUpdate(1, 1) }, "PROTOCOL_ERROR"},
	{"RST_STREAM of 3 bytes", func(w *wire) { w.get(1).raw(xnet.FrameRSTStream, 0, 1, "123") }, "FRAME_SIZE_ERROR"},
	{"RST_STREAM on stream 0", func(w *wire) { w.raw(xnet.FrameRSTStream, 0, 0, "1234") }, "PROTOCOL_ERROR"},
	{"RST_STREAM of an idle stream", func(w *wire) { _ = w.WriteRSTStream(1, xnet.ErrCodeCancel) }, "PROTOCOL_ERROR"},
	{"RST_STREAM of a stream of the server", func(w *wire) { _ = w.get(3).WriteRSTStream(2, xnet.ErrCodeCancel) },
		"PROTOCOL_ERROR"},
	{"PRIORITY of 4 bytes", func(w *wire) { w.raw(xnet.FramePriority, 0, 1, "1234") }, "FRAME_SIZE_ERROR"},
	{"PRIORITY on stream 0", func(w *wire) { w.raw(xnet.FramePriority, 0, 0, "12345") }, "PROTOCOL_ERROR"},
	{"PRIORITY on itself", func(w *wire) { w.raw(xnet.FramePriority, 0, 7, "\x00\x00\x00\x07\x00") }, "PROTOCOL_ERROR"},
	{"HEADERS that depend on themselves", func(w *wire) {
		_ = w.WriteHeaders(xnet.HeadersFrameParam{StreamID: 1, EndHeaders: true,
			BlockFragment: w.fields(request("GET", "/")...), Priority: xnet.PriorityParam{StreamDep: 1}})
	}, "PROTOCOL_ERROR"},
	{"HEADERS too short for their priority", func(w *wire) { w.raw(xnet.FrameHeaders, 0x24, 1, "1234") },
		"FRAME_SIZE_ERROR"},
	{"PUSH_PROMISE of a client", func(w *wire) { w.get(1).raw(xnet.FramePushPromise, 4, 1, "\x00\x00\x00\x02") },
		"PROTOCOL_ERROR"},
	{"CONTINUATION without HEADERS", func(w *wire) { _ = w.WriteContinuation(1, true, nil) }, "PROTOCOL_ERROR"},
	{"CONTINUATION after END_HEADERS", func(w *wire) { _ = w.get(1).WriteContinuation(1, true, nil) }, "PROTOCOL_ERROR"},
	{"HEADERS interrupted by DATA", func(w *wire) { w.raw(xnet.FrameHeaders, 0, 1, "\x82").data(1, true, "") },
		"PROTOCOL_ERROR"},
	{"HEADERS interrupted by an unknown frame", func(w *wire) {
		w.raw(xnet.FrameHeaders, 0, 1, "\x82").raw(0x0b, 0, 1, "")
	}, "PROTOCOL_ERROR"},
	{"CONTINUATION of another stream", func(w *wire) {
		_ = w.raw(xnet.FrameHeaders, 0, 1, "\x82").WriteContinuation(3, true, nil)
	}, "PROTOCOL_ERROR"},
	{"DATA on stream 0", func(w *wire) { w.data(0, true, "x") }, "PROTOCOL_ERROR"},
	{"DATA on an idle stream", func(w *wire) { w.data(1, true, "x") }, "PROTOCOL_ERROR"},
	{"DATA after END_STREAM", func(w *wire) { w.get(1).data(1, true, "x") }, "STREAM_CLOSED"},
	{"DATA after RST_STREAM", func(w *wire) {
		w.head(1, false, request("POST", "/")...)
		_ = w.WriteRSTStream(1, xnet.ErrCodeCancel)
		w.data(1, true, "x")
	}, "STREAM_CLOSED"},
	{"DATA beyond the window of the stream", func(w *wire) {
		w.head(1, false, request("POST", "/")...)
		for range 5 {
			w.data(1, false, strings.Repeat("x", 16384))
		}
	}, "FLOW_CONTROL_ERROR"},
	{"padding as long as DATA", func(w *wire) { w.head(1, false, request("POST", "/")...).raw(0, 8, 1, "\x03ab") },
		"PROTOCOL_ERROR"},
	{"DATA without the length of its padding", func(w *wire) {
		w.head(1, false, request("POST", "/")...).raw(0, 8, 1, "")
	}, "FRAME_SIZE_ERROR"},
	{"HEADERS without the length of their padding", func(w *wire) { w.raw(xnet.FrameHeaders, 0xc, 1, "") },
		"FRAME_SIZE_ERROR"},
	{"padding as long as HEADERS", func(w *wire) { w.raw(xnet.FrameHeaders, 0xc, 1, "\x03ab") }, "PROTOCOL_ERROR"},
	{"HEADERS on stream 0", func(w *wire) { w.get(0) }, "PROTOCOL_ERROR"},
	{"HEADERS on an even stream", func(w *wire) { w.get(2) }, "PROTOCOL_ERROR"},
	{"HEADERS after END_STREAM", func(w *wire) { w.get(1).get(1) }, "STREAM_CLOSED"},
	{"HEADERS on a stream that was passed over", func(w *wire) { w.get(1).get(5).get(3) }, "PROTOCOL_ERROR"},
	{"HEADERS after RST_STREAM", func(w *wire) { _ = w.get(1).WriteRSTStream(1, xnet.ErrCodeCancel); w.get(1) },
		"STREAM_CLOSED"},
	{"an index that does not exist", func(w *wire) { w.raw(xnet.FrameHeaders, 5, 1, "\xff\x7f") }, "COMPRESSION_ERROR"},
	{"a field block that ends too early", func(w *wire) { w.raw(xnet.FrameHeaders, 5, 1, "\x40\x05ab") },
		"COMPRESSION_ERROR"},
	{"a table larger than allowed", func(w *wire) { w.raw(xnet.FrameHeaders, 5, 1, "\x3f\xe2\x1f\x82") },
		"COMPRESSION_ERROR"},
	{"a field without name", func(w *wire) { w.head(1, true, request("GET", "/", "", "x")...) }, "PROTOCOL_ERROR"},
	{"a head more than twice as large as allowed", func(w *wire) {
		w.encoder.SetMaxDynamicTableSizeLimit(4096)
		w.head(1, true, request("GET", "/", slices10("x", strings.Repeat("y", 1000))...)...)
	}, "ENHANCE_YOUR_CALM"},
	{"nine CONTINUATION frames", func(w *wire) {
		w.raw(xnet.FrameHeaders, 0, 1, "\x82")
		for i := range 9 {
			_ = w.WriteContinuation(1, i == 8, []byte("\x86"))
		}
	}, "ENHANCE_YOUR_CALM"},
	{"a field block that is too large", func(w *wire) {
		w.raw(xnet.FrameHeaders, 0, 1, "\x82"+strings.Repeat("\x86", 5000))
	}, "ENHANCE_YOUR_CALM"},
}

// slices10 returns ten times a field.
func slices10(name, value string) (pairs []string) {
	for range 10 {
		pairs = append(pairs, name, value)
	}
	return pairs
}

func TestConnectionFaults(t *testing.T) {
	for _, r := range connectionFaults {
		w := from(http2.Client)
		r.send(w)
		w.get(101)
		got := readAllWays(t, newServer, w.Bytes())
		if got.err == nil || !strings.Contains(got.err.Error(), r.want+":") {
			t.Errorf("%s: %s\nwant %s", r.name, got, r.want)
			continue
		}
		if last := got.out[len(got.out)-1]; !strings.HasPrefix(last, "GOAWAY ") || !strings.HasSuffix(last, r.want) {
			t.Errorf("%s: the last frame is %s, want GOAWAY %s", r.name, last, r.want)
		}
	}
}

// A connection whose preface is not one has no other events.
func TestPreface(t *testing.T) {
	for in, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                         "not the connection preface",
		"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n":                          "not the connection preface",
		xnet.ClientPreface + "\x00\x00\x08\x06\x00\x00\x00\x00\x00": "the first frame is not SETTINGS",
		xnet.ClientPreface + "\x00\x00\x00\x04\x01\x00\x00\x00\x00": "the first frame is not SETTINGS",
	} {
		if got := readAllWays(t, newServer, []byte(in)); got.err == nil || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// malformed requests (RFC 9113 8.1.1), which reset their stream.
var malformed = []struct {
	name  string
	pairs []string
}{
	{"a name in capitals", request("GET", "/", "X-A", "b")},
	{"a space in a name", request("GET", "/", "x a", "b")},
	{"a colon in a name", request("GET", "/", "x:a", "b")},
	{"CR in a value", request("GET", "/", "x", "a\rb")},
	{"LF in a value", request("GET", "/", "x", "a\nb")},
	{"NUL in a value", request("GET", "/", "x", "a\x00b")},
	{"a blank before a value", request("GET", "/", "x", " a")},
	{"a blank after a value", request("GET", "/", "x", "a\t")},
	{"connection", request("GET", "/", "connection", "x")},
	{"keep-alive", request("GET", "/", "keep-alive", "1")},
	{"proxy-connection", request("GET", "/", "proxy-connection", "x")},
	{"transfer-encoding", request("GET", "/", "transfer-encoding", "chunked")},
	{"upgrade", request("GET", "/", "upgrade", "h2c")},
	{"TE other than trailers", request("GET", "/", "te", "gzip")},
	{"no :method", []string{":scheme", "http", ":authority", "a", ":path", "/"}},
	{"no :scheme", []string{":method", "GET", ":authority", "a", ":path", "/"}},
	{"no :path", []string{":method", "GET", ":authority", "a", ":scheme", "http"}},
	{"two :path", request("GET", "/", ":path", "/")},
	{"two :authority", request("GET", "/", ":authority", "a.test")},
	{":status of a request", request("GET", "/", ":status", "200")},
	{":protocol", request("CONNECT", "/", ":protocol", "websocket")},
	{"a pseudo-header field after another field", []string{":method", "GET", ":scheme", "http", "x", "y", ":path", "/"}},
	{":path without slash", request("GET", "a")},
	{":path in absolute-form", request("GET", "http://a.test/")},
	{"an empty :path", request("GET", "")},
	{"* without OPTIONS", request("GET", "*")},
	{"another scheme", []string{":method", "GET", ":scheme", "ftp", ":authority", "a", ":path", "/"}},
	{"CONNECT with :path", request("CONNECT", "/")},
	{"another Host", request("GET", "/", "host", "b.test")},
	{"END_STREAM with Content-Length", request("POST", "/", "content-length", "1")},
}

// other faults of streams, at a server: what must be in the record.
var streamFaults = []row{
	{"less data than Content-Length", func(w *wire) {
		w.head(1, false, request("POST", "/", "content-length", "4")...).data(1, false, "ab").data(1, true, "c")
	}, "reset 1 PROTOCOL_ERROR"},
	{"more data than Content-Length", func(w *wire) {
		w.head(1, false, request("POST", "/", "content-length", "2")...).data(1, false, "ab").data(1, true, "c")
	}, "reset 1 PROTOCOL_ERROR"},
	{"trailers before the end of Content-Length", func(w *wire) {
		w.head(1, false, request("POST", "/", "content-length", "2")...).data(1, false, "a").head(1, true, "x", "y")
	}, "reset 1 PROTOCOL_ERROR"},
	{"trailers without END_STREAM", func(w *wire) { w.head(1, false, request("POST", "/")...).head(1, false, "x", "y") },
		"reset 1 PROTOCOL_ERROR"},
	{"a pseudo-header field in trailers", func(w *wire) {
		w.head(1, false, request("POST", "/")...).head(1, true, ":path", "/")
	}, "reset 1 PROTOCOL_ERROR"},
	{":status in trailers", func(w *wire) {
		w.head(1, false, request("POST", "/")...).head(1, true, ":status", "200")
	}, "reset 1 PROTOCOL_ERROR"},
	{"trailers that are too large", func(w *wire) {
		w.head(1, false, request("POST", "/")...).head(1, true, slices10("x", strings.Repeat("y", 500))...)
	}, "reset 1 ENHANCE_YOUR_CALM"},
	{"a window of a stream beyond 2^31-1", func(w *wire) { _ = w.get(1).WriteWindowUpdate(1, 1<<31-1) },
		"reset 1 FLOW_CONTROL_ERROR"},
	{"more streams than allowed", func(w *wire) { w.get(1).get(3).get(5).get(7).get(9); _ = w.WriteRSTStream(1, 8) },
		"RST_STREAM 9 REFUSED_STREAM"},

	// What HTTP/2 allows and http1 does not.
	{"no host", func(w *wire) { w.head(1, true, ":method", "GET", ":scheme", "http", ":path", "/") }, "bad 1 400 end"},
	{"a host that is not valid", func(w *wire) {
		w.head(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "u@a")
	}, "bad 1 400 end"},
	{"two Host fields", func(w *wire) {
		w.head(1, true, ":method", "GET", ":scheme", "http", ":path", "/", "host", "a", "host", "a")
	}, "bad 1 400 end"},
	{"two Host fields beside :authority", func(w *wire) {
		w.head(1, true, request("GET", "/", "host", "a.test", "host", "a.test")...)
	}, "bad 1 400 end"},
	{"a method that is no token", func(w *wire) { w.head(1, true, request("G T", "/")...) }, "bad 1 400 end"},
	{"an empty method", func(w *wire) { w.head(1, true, request("", "/")...) }, "bad 1 400 end"},
	{"a space in the target", func(w *wire) { w.head(1, true, request("GET", "/a HTTP/1.1")...) }, "bad 1 400 end"},
	{"a line end in the target", func(w *wire) { w.head(1, true, request("GET", "/\r\nx: y")...) }, "bad 1 400 end"},
	{"a fragment", func(w *wire) { w.head(1, true, request("GET", "/#a")...) }, "bad 1 400 end"},
	{"a broken escape", func(w *wire) { w.head(1, true, request("GET", "/%4")...) }, "bad 1 400 end"},
	{"a Content-Length that is no number", func(w *wire) {
		w.head(1, true, request("GET", "/", "content-length", "+1")...)
	}, "bad 1 400 end"},
	{"two Content-Length", func(w *wire) {
		w.head(1, false, request("POST", "/", "content-length", "1", "content-length", "1")...).data(1, true, "x")
	}, "bad 1 400 "},
	{"too many fields", func(w *wire) {
		w.head(1, true, request("GET", "/", slices10("x", "y")...)...)
	}, "bad 1 431 end"},
	{"a head that is too large", func(w *wire) {
		w.head(1, true, request("GET", "/", "x", strings.Repeat("y", 600))...)
	}, "bad 1 431 end"},
	{"a target that is too long", func(w *wire) { w.head(1, true, request("GET", "/"+strings.Repeat("y", 600))...) },
		"bad 1 414 end"},
	{"a head beyond what is decoded", func(w *wire) {
		w.head(1, true, request("GET", "/", slices10("x", strings.Repeat("y", 500))...)...)
	}, "bad 1 431 end"},
}

// The stream after a faulty one is served.
func TestStreamFaults(t *testing.T) {
	rows := slices.Clone(streamFaults)
	for _, m := range malformed {
		rows = append(rows, row{m.name, func(w *wire) { w.head(1, true, m.pairs...) }, "RST_STREAM 1 PROTOCOL_ERROR"})
	}
	for _, r := range rows {
		w := from(http2.Client)
		r.send(w)
		w.head(101, false, request("POST", "/next")...).data(101, true, "body")
		got := readAllWays(t, newServer, w.Bytes())
		text := got.String()
		if got.err != nil || !strings.Contains(text, r.want) {
			t.Errorf("%s: %s\nwant %s", r.name, got, r.want)
		}
		if !strings.Contains(text, `"/next"`) || !strings.Contains(text, "data 101 body end") {
			t.Errorf("%s: the next stream was not read: %s", r.name, got)
		}
	}
}
