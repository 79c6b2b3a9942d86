package http2_test

import (
	"io"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/internal/test/testkit"
)

// An echo answers the requests of one connection: with as many zeros as the path says, "hello", and the body of the
// request.
type echo struct {
	conn net.Conn
	c    *http2.Conn
	out  []byte
	h    http2.Head
	// bodies are what is to be sent on each stream, which has ended in this direction if it is in done.
	bodies map[uint32][]byte
	done   map[uint32]bool
	order  []uint32
}

// serve answers requests on addr, which it returns, until the test ends.
func serve(t testing.TB, l *http2.Limits) (addr string) {
	return testkit.Serve(t, func(conn net.Conn) {
		e := &echo{conn: conn, c: http2.New(http2.Server, l, time.Now()),
			bodies: make(map[uint32][]byte), done: make(map[uint32]bool)}
		go e.run()
	})
}

func (e *echo) run() {
	defer e.conn.Close()
	var in []byte
	buf := make([]byte, 16<<10)
	for {
		n, err := e.c.Next(time.Now(), in, &e.h)
		if err != nil {
			e.flush()
			_ = e.conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, e.conn) // so that what was sent is not lost by a reset
			return
		}
		in = in[n.N:]
		if n.Kind != http2.NeedMore {
			e.event(n)
			continue
		}
		e.send()
		if !e.flush() {
			return
		}
		size, err := e.conn.Read(buf)
		if err != nil {
			return
		}
		in = append(slices.Clip(slices.Clone(in)), buf[:size]...)
	}
}

func (e *echo) flush() bool {
	e.out = e.c.AppendControl(e.out)
	_, err := e.conn.Write(e.out)
	e.out = e.out[:0]
	return err == nil
}

func (e *echo) event(ev http2.Event) {
	switch ev.Kind {
	case http2.BadHead:
		e.out, _ = e.c.AppendResponse(e.out, ev.Stream, http1.StatusOf(ev.Err), nil, true)
	case http2.HeadDone:
		fields := http1.AppendField(nil, "Content-Type", "text/plain")
		e.out, _ = e.c.AppendResponse(e.out, ev.Stream, 200, fields, false)
		size, _ := strconv.Atoi(string(e.h.Path[1:]))
		e.bodies[ev.Stream] = append(make([]byte, size), "hello\n"...)
		e.order = append(e.order, ev.Stream)
	case http2.Data:
		e.bodies[ev.Stream] = append(e.bodies[ev.Stream], ev.Data...)
		e.c.Consumed(ev.Stream, len(ev.Data))
	case http2.Reset:
		e.forget(ev.Stream)
	}
	if ev.EndStream {
		e.done[ev.Stream] = true
	}
}

func (e *echo) forget(id uint32) {
	delete(e.bodies, id)
	delete(e.done, id)
	e.order = slices.DeleteFunc(e.order, func(o uint32) bool { return o == id })
}

// send sends what the windows allow, a piece of each stream in turn.
func (e *echo) send() {
	for _, id := range slices.Clone(e.order) {
		var n int
		e.out, n = e.c.AppendData(e.out, id, e.bodies[id], e.done[id])
		if e.bodies[id] = e.bodies[id][n:]; len(e.bodies[id]) == 0 && e.done[id] {
			e.forget(id)
		}
	}
}
