package wire

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	xnet "golang.org/x/net/http2"
)

// A replayer sends the same requests again and again on new streams of one connection, and reads the answers,
// without an allocation.
type replayer struct {
	t    *testing.T
	conn net.Conn
	ids  []int  // where in out the identifiers of the streams are
	out  []byte // the requests, of which all fields are indexed
	next uint32
	in   []byte
}

// replay makes a replayer of n GET requests, which have been sent once.
func (r *rig) replay(n int) *replayer {
	r.t.Helper()
	conn := r.dial()
	c := r.rawHTTP2On(conn, 1<<20)
	c.response(c.get("/a"))
	p := &replayer{t: r.t, conn: conn.Conn, next: c.next, in: make([]byte, 0, 64<<10)}
	var out bytes.Buffer
	c.framer = xnet.NewFramer(&out, nil)
	c.must(c.framer.WriteWindowUpdate(0, uint32(1000*n))) // for what the bodies of the answers take
	for range n {
		p.ids = append(p.ids, out.Len()+5)
		c.get("/a")
	}
	p.out = out.Bytes()
	p.once()
	return p
}

// once sends all requests and reads the answers.
func (p *replayer) once() {
	for _, at := range p.ids {
		binary.BigEndian.PutUint32(p.out[at:], p.next)
		p.next += 2
	}
	if _, err := p.conn.Write(p.out); err != nil {
		p.t.Fatal(err)
	}
	for ended := 0; ended < len(p.ids); {
		n, err := p.conn.Read(p.in[len(p.in):cap(p.in)])
		if err != nil {
			p.t.Fatal(err)
		}
		p.in = p.in[:len(p.in)+n]
		from := 0
		for end := 9; len(p.in)-from >= 9; from += end {
			head := p.in[from:]
			if end = 9 + int(binary.BigEndian.Uint32(head)>>8); end > len(head) {
				break
			}
			if kind := xnet.FrameType(head[3]); kind <= xnet.FrameHeaders && head[4]&1 != 0 {
				ended++
			}
		}
		p.in = p.in[:copy(p.in, p.in[from:])]
	}
}

// What is allocated for each request costs more than it looks: the collector runs on the loops' processors.
func TestHTTP2AllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello")
	r := serveWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, func(c *targetConn) {
		b, end := make([]byte, 4096), []byte("\r\n\r\n")
		for n := 0; ; {
			more, err := c.Conn.Read(b[n:])
			if err != nil {
				return
			}
			if n += more; bytes.HasSuffix(b[:n], end) {
				n = 0
				if _, err := c.Conn.Write(answer); err != nil {
					return
				}
			}
		}
	}, "RATE_LIMIT_LIMIT", "10000")
	p := r.replay(batchFrom - 1) // to wake the loop, gnet allocates
	if n := testing.AllocsPerRun(500, p.once); n > 0 {
		t.Errorf("%v allocations for %d requests that are admitted", n, len(p.ids))
	}
	p = r.replay(20)
	for range 10_000 / len(p.ids) {
		p.once()
	}
	if n := testing.AllocsPerRun(500, p.once); n > 0 {
		t.Errorf("%v allocations for %d requests that are refused", n, len(p.ids))
	}
}
