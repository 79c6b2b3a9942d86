package http2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/net/http2"
)

// answered returns a server that has read GET requests on n streams, and whose first frames have been sent.
func answered(n int, settings ...xnet.Setting) *http2.Conn {
	c := http2.New(http2.Server, nil, epoch)
	w := from(http2.Client, settings...)
	for i := range n {
		w.get(id(i))
	}
	read(c, [][]byte{w.Bytes()})
	return c
}

// decoded is what x/net reads from frames: a line for each head with its fields, and for each DATA frame its size.
func decoded(t *testing.T, d *hpack.Decoder, b []byte) (all []string) {
	t.Helper()
	fr := xnet.NewFramer(nil, bytes.NewReader(b))
	fr.ReadMetaHeaders = d
	for {
		f, err := fr.ReadFrame()
		if errors.Is(err, io.EOF) {
			return all
		}
		switch f := f.(type) {
		case nil:
			t.Fatalf("x/net reads: %v %v", err, fr.ErrorDetail())
		case *xnet.MetaHeadersFrame:
			line := fmt.Sprintf("head %d %t", f.StreamID, f.StreamEnded())
			for _, field := range f.Fields {
				line += fmt.Sprintf(" %s=%s", field.Name, field.Value)
				if field.Sensitive {
					line += "(secret)"
				}
			}
			all = append(all, line)
		case *xnet.DataFrame:
			all = append(all, fmt.Sprintf("data %d %t %d", f.StreamID, f.StreamEnded(), len(f.Data())))
		default:
			all = append(all, f.Header().Type.String())
		}
	}
}

// Heads are read by x/net as they are meant: names in lower case, secrets marked, without the fields of a connection.
// They do not depend on earlier ones, also if the client allows no table.
func TestAppendedHeads(t *testing.T) {
	for _, table := range []uint32{0, 4096, 1 << 20} {
		c := answered(4, xnet.Setting{ID: xnet.SettingHeaderTableSize, Val: table})
		d := hpack.NewDecoder(min(table, 4096), nil)
		fields := []byte("Content-Type: text/plain\r\nSet-Cookie: a=b\r\nX-Odd_Name: \x80\r\nServer: w\r\n" +
			"Connection: close\r\nKeep-Alive: 1\r\nTransfer-Encoding: chunked\r\nUpgrade: x\r\nTE: gzip\r\n")
		const want = " content-type=text/plain set-cookie=a=b(secret) x-odd_name=\x80 server=w"
		var out []byte
		for i, status := range []int{200, 500, 429, 599} {
			var err error
			if out, err = c.AppendResponse(out, id(i), status, fields, true); err != nil {
				t.Fatal(err)
			}
			got := decoded(t, d, out)
			if last := got[len(got)-1]; last != fmt.Sprintf("head %d true :status=%d%s", id(i), status, want) {
				t.Errorf("table of %d: %q", table, last)
			}
			out = out[:0]
		}
		if c.Streams() != 0 {
			t.Errorf("%d streams are open", c.Streams())
		}
	}
}

// The sizes of values at which their encoding changes, and of heads at which they need another frame.
func TestAppendedSizes(t *testing.T) {
	for _, n := range []int{0, 1, 126, 127, 128, 254, 255, 256, 16_000, 16_384 - 6, 16_384, 40_000} {
		c := answered(1)
		value := strings.Repeat("v", n)
		out, err := c.AppendResponse(nil, 1, 200, []byte("N: "+value+"\r\n"), false)
		if err != nil {
			t.Fatal(err)
		}
		out, err = c.AppendTrailers(out, 1, []byte("Grpc-Status: 0\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := decoded(t, hpack.NewDecoder(4096, nil), out)
		if !slices.Equal(got, []string{"head 1 false :status=200 n=" + value, "head 1 true grpc-status=0"}) {
			t.Errorf("a value of %d bytes: %.200q", n, got)
		}
	}
}

// Bodies are sent within both windows, in frames that each peer accepts.
func TestAppendedData(t *testing.T) {
	c := answered(2, xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 40_000})
	body := make([]byte, 100_000)
	if c.Room(1) != 0 {
		t.Error("room before the head")
	}
	out, n := c.AppendData(nil, 1, body, true)
	if n != 0 || len(out) != 0 {
		t.Errorf("%d bytes before the head", n)
	}
	out, _ = c.AppendResponse(out, 1, 200, nil, false)
	out, _ = c.AppendResponse(out, 3, 200, nil, false)
	if c.Room(1) != 40_000 {
		t.Errorf("room %d", c.Room(1))
	}
	out, n = c.AppendData(out, 1, body, true)
	if n != 40_000 || c.Room(1) != 0 {
		t.Errorf("%d bytes of the window of the stream, room %d", n, c.Room(1))
	}
	out, n = c.AppendData(out, 3, body, true)
	if n != 25_535 || c.Room(3) != 0 {
		t.Errorf("%d bytes of the window of the connection, room %d", n, c.Room(3))
	}
	w := new(wire).begin()
	_ = w.WriteWindowUpdate(0, 1_000_000)
	_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 10}) // 39,990 bytes too many were sent
	_ = w.WriteWindowUpdate(1, 39_990)
	_ = w.WriteWindowUpdate(1, 15)
	got := read(c, [][]byte{w.Bytes()})
	if !slices.Equal(got.events, []string{"room 0", "settings", "room 1"}) {
		t.Error(got)
	}
	if c.Room(1) != 15 || c.Room(3) != 0 {
		t.Errorf("room %d and %d", c.Room(1), c.Room(3))
	}
	out, _ = c.AppendData(out, 1, body[:15], true)
	out, n = c.AppendData(out, 3, nil, true)
	if want := []string{"head 1 false :status=200", "head 3 false :status=200", "data 1 false 16384", "data 1 false 16384",
		"data 1 false 7232", "data 3 false 16384", "data 3 false 9151", "data 1 true 15", "data 3 true 0"}; n != 0 ||
		!slices.Equal(decoded(t, hpack.NewDecoder(4096, nil), out), want) {
		t.Errorf("sent %q", decoded(t, hpack.NewDecoder(4096, nil), out))
	}
}

// What cannot be sent on a stream is an error or nothing, and does no harm.
func TestAppendRefuses(t *testing.T) {
	c := answered(2)
	head := func(id uint32) error { _, err := c.AppendResponse(nil, id, 200, nil, false); return err }
	trailers := func(id uint32) error { _, err := c.AppendTrailers(nil, id, nil); return err }
	if err := head(5); !errors.Is(err, http2.ErrStream) {
		t.Errorf("a response on an idle stream: %v", err)
	}
	if err := trailers(1); !errors.Is(err, http2.ErrStream) {
		t.Errorf("trailers before the head: %v", err)
	}
	if err := errors.Join(head(1), trailers(1)); err != nil {
		t.Error(err)
	}
	if err := head(3); err != nil {
		t.Error(err)
	}
	if err := head(3); !errors.Is(err, http2.ErrStream) {
		t.Errorf("two heads: %v", err)
	}
	out, n := c.AppendData(nil, 1, []byte("x"), false)
	if n != 0 || len(out) != 0 || c.Room(1) != 0 {
		t.Errorf("data after the end: %q", out)
	}
	if out = c.AppendReset(nil, 1, http2.Cancel); len(out) != 0 {
		t.Errorf("RST_STREAM of a closed stream: %q", out)
	}
	got := frames(c.AppendReset(nil, 3, http2.InternalError))
	if !slices.Equal(got, []string{"RST_STREAM 3 INTERNAL_ERROR"}) {
		t.Errorf("sent %q", got)
	}
	if _, _, err := c.AppendRequest(nil, &http2.Request{}, true); !errors.Is(err, http2.ErrStream) {
		t.Errorf("a request of a server: %v", err)
	}
}

// A connection that has ended sends nothing but what it had to send, and returns its error again.
func TestAfterError(t *testing.T) {
	c := answered(1)
	w := new(wire).begin()
	_ = w.WritePing(false, [8]byte{})
	w.data(0, true, "")
	first := read(c, [][]byte{w.Bytes()})
	if !slices.Equal(first.out, []string{"PING 0", "GOAWAY 1 PROTOCOL_ERROR"}) {
		t.Error(first)
	}
	if _, err := c.AppendResponse(nil, 1, 200, nil, true); !errors.Is(err, http2.ErrStream) || c.Streams() != 0 {
		t.Errorf("a response after the end: %v, %d streams", err, c.Streams())
	}
	again := read(c, [][]byte{w.Bytes()})
	if !errors.Is(again.err, first.err) || len(again.out) != 0 {
		t.Error(again)
	}
	if s := first.err.Error(); s != "http2: PROTOCOL_ERROR: a frame on a stream that it cannot be on" {
		t.Error(s)
	}
	if http2.Code(99).String() != "UNKNOWN" || http2.GlitchOwnReset.String() != "our_reset" {
		t.Error("names")
	}
}

// The acknowledgement of settings precedes what relies on them, and answers are taken once.
func TestAnswersFirst(t *testing.T) {
	c := http2.New(http2.Server, nil, epoch)
	w := from(http2.Client, xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 70_000})
	w.get(1)
	var h http2.Head
	rest := w.Bytes()
	testEvent(t, c, &rest, &h)
	testEvent(t, c, &rest, &h)
	out, err := c.AppendResponse(nil, 1, 200, nil, true)
	if got := decoded(t, hpack.NewDecoder(4096, nil), out); err != nil ||
		!slices.Equal(got, []string{"SETTINGS", "WINDOW_UPDATE", "SETTINGS", "head 1 true :status=200"}) {
		t.Errorf("sent %q, %v", got, err)
	}
	if out = c.AppendControl(nil); len(out) != 0 {
		t.Errorf("sent again: %q", frames(out))
	}
}
