package http2_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/net/http2"
)

// epoch is when connections begin.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A wire is what a peer sends, written by x/net's framer and encoder.
type wire struct {
	bytes.Buffer
	*xnet.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

// from returns the beginning of what a peer in that role sends.
func from(role http2.Role, settings ...xnet.Setting) *wire {
	w := new(wire).begin()
	if role == http2.Client {
		w.WriteString(xnet.ClientPreface)
	}
	_ = w.WriteSettings(settings...)
	return w
}

// begin makes the framer and the encoder.
func (w *wire) begin() *wire {
	w.Framer = xnet.NewFramer(&w.Buffer, nil)
	w.AllowIllegalWrites = true
	w.encoder = hpack.NewEncoder(&w.block)
	return w
}

// fields encodes alternating names and values.
func (w *wire) fields(pairs ...string) []byte {
	w.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = w.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return slices.Clone(w.block.Bytes())
}

// head writes a HEADERS frame.
func (w *wire) head(id uint32, end bool, pairs ...string) *wire {
	_ = w.WriteHeaders(xnet.HeadersFrameParam{StreamID: id, EndStream: end, EndHeaders: true,
		BlockFragment: w.fields(pairs...)})
	return w
}

// data writes a DATA frame.
func (w *wire) data(id uint32, end bool, text string) *wire {
	_ = w.WriteData(id, end, []byte(text))
	return w
}

// raw writes any frame.
func (w *wire) raw(kind xnet.FrameType, flags xnet.Flags, id uint32, payload string) *wire {
	_ = w.WriteRawFrame(kind, flags, id, []byte(payload))
	return w
}

// request returns the fields of a request, with more.
func request(method, path string, more ...string) []string {
	return append([]string{":method", method, ":scheme", "http", ":authority", "a.test", ":path", path}, more...)
}

// get writes a whole request.
func (w *wire) get(id uint32) *wire { return w.head(id, true, request("GET", "/")...) }

// id returns the identifier of the i-th stream.
func id(i int) uint32 { return uint32(2*i + 1) }

// A record is what a Conn has made of its input.
type record struct {
	events []string // Data of a stream that follow each other are one
	err    error
	out    []string // the frames of AppendControl, and GOAWAY
	rest   int      // bytes not read
}

func (r record) String() string {
	return fmt.Sprintf("%s\nerr %v, rest %d\nout %s", strings.Join(r.events, "\n"), r.err, r.rest,
		strings.Join(r.out, "; "))
}

// read gives the pieces to a Conn, and nothing else happens. It overwrites what was read, to find references to it.
func read(c *http2.Conn, pieces [][]byte) (r record) {
	var h http2.Head
	var buf []byte
	for _, p := range pieces {
		next := slices.Concat(buf, p)
		for i := range buf {
			buf[i] = 'x'
		}
		buf = next
		for {
			ev, err := c.Next(epoch, buf, &h)
			if err != nil {
				r.err = err
				r.out = append(r.out, frames(c.AppendControl(nil))...)
				return r
			}
			buf = buf[ev.N:]
			if ev.Kind == http2.NeedMore {
				break
			}
			r.note(ev, &h)
		}
	}
	r.rest = len(buf)
	r.out = frames(c.AppendControl(nil))
	return r
}

func (r *record) note(ev http2.Event, h *http2.Head) {
	text := describe(ev, h)
	if n := len(r.events); ev.Kind == http2.Data && n > 0 {
		if before, ok := strings.CutPrefix(r.events[n-1], fmt.Sprintf("data %d ", ev.Stream)); ok {
			text = fmt.Sprintf("data %d %s%s", ev.Stream, before, strings.TrimPrefix(text, fmt.Sprintf("data %d ", ev.Stream)))
			r.events = r.events[:n-1]
		}
	}
	r.events = append(r.events, text)
}

// describe describes an event in a line.
func describe(ev http2.Event, h *http2.Head) string {
	end := ""
	if ev.EndStream {
		end = " end"
	}
	switch ev.Kind {
	case http2.HeadDone:
		m := http1test.Message{Head: h.Head}
		return fmt.Sprintf("head %d%s %s", ev.Stream, end, &m)
	case http2.BadHead:
		return fmt.Sprintf("bad %d %d%s %v", ev.Stream, http1.StatusOf(ev.Err), end, ev.Err)
	case http2.Data:
		return fmt.Sprintf("data %d %s%s", ev.Stream, ev.Data, end)
	case http2.Trailers:
		return fmt.Sprintf("trailers %d%s %s", ev.Stream, end, lines(h.Fields))
	case http2.Reset:
		return fmt.Sprintf("reset %d %s unprocessed=%t %v", ev.Stream, ev.Code, ev.Unprocessed, ev.Err)
	case http2.WindowGrew:
		return fmt.Sprintf("room %d", ev.Stream)
	case http2.GoAway:
		return fmt.Sprintf("goaway %d %s", ev.Stream, ev.Code)
	case http2.Settings:
		return "settings"
	}
	return "pong"
}

// lines formats fields.
func lines(fields []http1.Field) string {
	var b []byte
	for i := range fields {
		b = http1.AppendFieldLine(b, &fields[i])
	}
	return strings.ReplaceAll(string(b), "\r\n", "|")
}

// frames describes frames, as x/net reads them.
func frames(b []byte) (all []string) {
	b = bytes.TrimPrefix(b, []byte(xnet.ClientPreface))
	fr := xnet.NewFramer(nil, bytes.NewReader(b))
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			if err.Error() != "EOF" {
				all = append(all, err.Error())
			}
			return all
		}
		switch f := f.(type) {
		case *xnet.RSTStreamFrame:
			all = append(all, fmt.Sprintf("RST_STREAM %d %s", f.StreamID, http2.Code(f.ErrCode)))
		case *xnet.GoAwayFrame:
			all = append(all, fmt.Sprintf("GOAWAY %d %s", f.LastStreamID, http2.Code(f.ErrCode)))
		case *xnet.WindowUpdateFrame:
			all = append(all, fmt.Sprintf("WINDOW_UPDATE %d %d", f.StreamID, f.Increment))
		default:
			all = append(all, fmt.Sprintf("%s %d", f.Header().Type, f.Header().StreamID))
		}
	}
}

// readAllWays reads b whole, byte by byte and in random pieces by new connections, and fails if the records differ.
func readAllWays(t testing.TB, open func() *http2.Conn, b []byte) record {
	t.Helper()
	c := open()
	want := read(c, http1test.Whole(b))
	if why := c.Unbalanced(); why != "" && want.err == nil {
		t.Errorf("after %q: %s", b, why)
	}
	var ways [][][]byte
	if len(b) < 4<<10 { // each piece is copied with all that is unread
		ways = append(ways, http1test.ByteByByte(b))
	}
	for range 3 {
		ways = append(ways, http1test.RandomPieces(b, rand.Uint64()))
	}
	for _, pieces := range ways {
		if got := read(open(), pieces); got.String() != want.String() {
			t.Fatalf("splitting %q changed what was read:\nwhole: %s\nin %d pieces: %s", b, want, len(pieces), got)
		}
	}
	return want
}
