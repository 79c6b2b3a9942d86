package http2_test

import (
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// A repeater is a connection on which the same request is sent again and again, on one stream after the other.
type repeater struct {
	c      *http2.Conn
	h      http2.Head
	in     []byte
	out    []byte
	id     uint32
	fields []byte
}

// newRepeater returns a repeater of a request whose fields are in the table of the decoder after the first.
func newRepeater(t testing.TB) *repeater {
	w := from(http2.Client)
	fields := request("GET", "/articles/2024/05?ref=home", "user-agent", "curl/8.5.0", "accept", "*/*",
		"authorization", "Bearer 0123456789abcdef0123456789abcdef",
		"x-request-id", "5f2c9a7e-3b1d-4c8e-9f6a-0d1e2f3a4b5c")
	w.head(1, true, fields...)
	r := &repeater{c: http2.New(http2.Server, nil, epoch), out: make([]byte, 0, 4096)}
	r.fields = []byte("Content-Type: text/plain\r\nContent-Length: 3\r\nDate: Tue, 14 May 2024 09:00:00 GMT\r\n" +
		"Server: nginx/1.22.1\r\nX-Ratelimit-Remaining: 99\r\nVia: 1.1 weir\r\n")
	r.in = append(r.in, w.Bytes()...)
	r.once(t)
	w.Reset()
	_ = w.WriteWindowUpdate(0, 3) // for the body of the response
	w.head(1, true, fields...)
	r.in = append(r.in[:0], w.Bytes()...)
	return r
}

// once reads a request and answers it.
func (r *repeater) once(t testing.TB) {
	rest := r.in
	for {
		ev, err := r.c.Next(epoch, rest, &r.h)
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[ev.N:]
		if ev.Kind == http2.HeadDone {
			r.id = ev.Stream
			break
		}
		if ev.Kind != http2.Settings && ev.Kind != http2.WindowGrew {
			t.Fatalf("event %d on stream %d, glitches %v", ev.Kind, ev.Stream, r.c.Glitches())
		}
	}
	if len(rest) != 0 {
		t.Fatal("more was sent")
	}
	var err error
	if r.out, err = r.c.AppendResponse(r.out[:0], r.id, 200, r.fields, false); err != nil {
		t.Fatal(err)
	}
	r.out, _ = r.c.AppendData(r.out, r.id, []byte("ok\n"), true)
}

// again changes the stream of the request to the next one.
func (r *repeater) again(t testing.TB) {
	id := r.id + 2
	p := r.in[13+5:]
	p[0], p[1], p[2], p[3] = byte(id>>24), byte(id>>16), byte(id>>8), byte(id)
	r.once(t)
}

func TestNoAllocation(t *testing.T) {
	r := newRepeater(t)
	r.again(t)
	if n := testing.AllocsPerRun(1000, func() { r.again(t) }); n != 0 {
		t.Errorf("a request with indexed fields and its response: %v allocations", n)
	}
	if len(r.h.Fields) != 5 || r.h.Method != http1.GET {
		t.Errorf("read %v", lines(r.h.Fields))
	}
}

func BenchmarkExchange(b *testing.B) {
	r := newRepeater(b)
	b.ReportAllocs()
	for b.Loop() {
		if r.id > 1<<29 {
			r = newRepeater(b)
		}
		r.again(b)
	}
}
