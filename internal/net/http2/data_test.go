package http2_test

import (
	"testing"

	"weir/internal/net/http2"
)

// Streams whose bodies nobody consumes hold a part of the window of the connection, and the others share the rest.
func TestStalledStreams(t *testing.T) {
	l := http2.Limits{ConnWindow: 100_000}
	c := http2.New(http2.Server, &l, epoch)
	w := from(http2.Client)
	for _, id := range []uint32{1, 3} {
		w.head(id, false, request("POST", "/")...)
		for range 3 {
			w.data(id, false, string(make([]byte, 16_384-1)))
		}
	}
	w.head(5, false, request("POST", "/")...)
	if got := read(c, [][]byte{w.Bytes()}); got.err != nil {
		t.Fatal(got)
	}
	room := 100_000 - 6*16_383
	for sent := 0; sent < 1_000_000; {
		if room == 0 {
			t.Fatalf("after %d bytes nothing more may be sent", sent)
		}
		w.Reset()
		w.data(5, false, string(make([]byte, room)))
		got := read(c, [][]byte{w.Bytes()})
		if got.err != nil {
			t.Fatal(got)
		}
		sent += room
		room = 0
		c.Consumed(5, 1<<20)
		room = granted(t, c, 0)
	}
}

// With a window of the connection for all streams, however many stall, the last one has all of its own.
func TestWindowForAllStreams(t *testing.T) {
	const streams = 20
	l := http2.Limits{Streams: streams, ConnWindow: streams << 16}
	c := http2.New(http2.Server, &l, epoch)
	w := from(http2.Client)
	send := func() {
		if got := read(c, [][]byte{w.Bytes()}); got.err != nil {
			t.Fatal(got)
		}
		w.Reset()
	}
	fill := func(id uint32) {
		for range 4 {
			w.data(id, false, string(make([]byte, 16_384-1)))
		}
		send()
	}
	for i := range uint32(streams) {
		w.head(2*i+1, false, request("POST", "/")...)
	}
	send()
	for i := range uint32(streams - 1) {
		fill(2*i + 1)
	}
	c.AppendControl(nil) // of the start
	for range 100 {
		const last = 2*streams - 1
		fill(last)
		c.Consumed(last, 1<<20)
		if got := granted(t, c, last); got != 4*(16_384-1) {
			t.Fatalf("%d more bytes may be sent on the last stream, want %d", got, 4*(16_384-1))
		}
	}
}

// The window of the connection bounds the bodies of all streams.
func TestConnectionWindow(t *testing.T) {
	w := from(http2.Client)
	for _, id := range []uint32{1, 3} {
		w.head(id, false, request("POST", "/")...)
		w.data(id, false, string(make([]byte, 16_384))).data(id, false, string(make([]byte, 16_384)))
	}
	open := func() *http2.Conn { return http2.New(http2.Server, &http2.Limits{ConnWindow: 1}, epoch) }
	got := readAllWays(t, open, w.Bytes())
	if got.err == nil || got.out[len(got.out)-1] != "GOAWAY 3 FLOW_CONTROL_ERROR" {
		t.Error(got) // 65,536 bytes, 65,535 are allowed at least
	}
}

// granted returns how much WINDOW_UPDATE frames of a stream let the peer send.
func granted(t *testing.T, c *http2.Conn, id uint32) (n int) {
	t.Helper()
	for b := c.AppendControl(nil); len(b) >= 13; b = b[13:] {
		if b[3] == 8 && b[8] == byte(id) {
			n += int(b[9])<<24 | int(b[10])<<16 | int(b[11])<<8 | int(b[12])
		}
	}
	return n
}
