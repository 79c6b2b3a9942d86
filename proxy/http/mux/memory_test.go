package mux_test

import (
	"bytes"
	"net/netip"
	"runtime"
	"testing"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/proxy/http/mux"
	"weir/proxy/http/session"
)

// idleBytes is about what a connection without streams may take. Its socket and its handler take about 1 KiB more.
const idleBytes = 4 << 10

// A connection that a browser has used keeps little besides the table of its fields.
func TestIdleMemory(t *testing.T) {
	var in, head bytes.Buffer
	in.WriteString(xnet.ClientPreface)
	framer, enc := xnet.NewFramer(&in, nil), hpack.NewEncoder(&head)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		head.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "www.example.com"},
			{":path", "/articles/2024/05/a-longer-title"}, {"sec-ch-ua", `"Chromium";v="140", "Not=A?Brand";v="24"`},
			{"sec-ch-ua-mobile", "?0"}, {"sec-ch-ua-platform", `"Linux"`}, {"upgrade-insecure-requests", "1"},
			{"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0"},
			{"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"},
			{"sec-fetch-site", "none"}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-user", "?1"},
			{"sec-fetch-dest", "document"}, {"accept-encoding", "gzip, deflate, br, zstd"},
			{"accept-language", "en-GB,en;q=0.9"}, {"cookie", "session=0123456789abcdef0123456789abcdef"},
			{"priority", "u=0, i"}} {
			_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes everything
		}
		if err := framer.WriteHeaders(xnet.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(),
			EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, 0)
	w.grants = 0
	var before, after runtime.MemStats
	conns := make([]*mux.Conn, 1000)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range conns {
		conns[i] = mux.New(w.now, &w.env, netip.MustParseAddr("192.0.2.7"), false, func(*mux.Stream) {})
		for b := in.Bytes(); ; {
			n, m := conns[i].HandleClient(w.now, b)
			if b = b[n:]; m == nil {
				break
			}
			var fx session.Effects
			if m.MoveEffects(w.now, &fx); fx.Close != session.CloseNone {
				m.Recycle()
			}
		}
		conns[i].Control()
		if conns[i].Failed() || conns[i].Open() > 0 {
			t.Fatal("the requests were not answered")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := int(after.HeapAlloc-before.HeapAlloc) / len(conns); n > idleBytes {
		t.Errorf("an idle connection takes %d bytes, want at most %d", n, idleBytes)
	} else {
		t.Logf("an idle connection takes %d bytes", n)
	}
	runtime.KeepAlive(conns)
}
