package wire

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/test/testkit"
)

// A rawTarget speaks HTTP/2 frame by frame, as the test says.
type rawTarget struct {
	t        *testing.T
	addr     string
	settings []xnet.Setting
	requests chan *rawRequest // in the order in which they came, of all connections
	frames   chan string      // other frames that end or check something
	greets   <-chan struct{}  // the settings are not sent before it is closed; nil: at once
}

// A rawRequest is one that the target has got.
type rawRequest struct {
	of   *rawServed
	id   uint32
	path string
	ends bool
}

// A rawServed is a connection that the target has accepted.
type rawServed struct {
	net.Conn
	t      *testing.T
	mu     sync.Mutex // guards what follows
	framer *xnet.Framer
	head   bytes.Buffer
	hpack  *hpack.Encoder
}

func newRawTarget(t *testing.T, settings ...xnet.Setting) *rawTarget {
	return newLateTarget(t, nil, settings...)
}

// newLateTarget is newRawTarget for a target that sends no settings before greets is closed.
func newLateTarget(t *testing.T, greets <-chan struct{}, settings ...xnet.Setting) *rawTarget {
	s := &rawTarget{t: t, settings: settings, requests: make(chan *rawRequest, 1000), frames: make(chan string, 1000),
		greets: greets}
	s.addr = testkit.Serve(t, func(conn net.Conn) { go s.serve(conn) })
	return s
}

func (s *rawTarget) url() string { return "h2c://" + s.addr }

func (s *rawTarget) serve(conn net.Conn) {
	c := &rawServed{Conn: conn, t: s.t, framer: xnet.NewFramer(conn, conn)}
	c.hpack = hpack.NewEncoder(&c.head)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.ReadFull(conn, make([]byte, len(xnet.ClientPreface))); err != nil {
		return
	}
	if s.greets != nil {
		<-s.greets
	}
	c.write(func(f *xnet.Framer) error { return f.WriteSettings(s.settings...) })
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			s.frames <- "end"
			return
		}
		switch f := f.(type) {
		case *xnet.MetaHeadersFrame:
			s.requests <- &rawRequest{of: c, id: f.StreamID, path: f.PseudoValue("path"), ends: f.StreamEnded()}
		case *xnet.RSTStreamFrame:
			s.frames <- fmt.Sprintf("reset %d %s", f.StreamID, f.ErrCode)
		case *xnet.PingFrame:
			if !f.IsAck() {
				s.frames <- "ping"
			}
		}
	}
}

// write writes a frame; the proxy may have closed the connection.
func (c *rawServed) write(frame func(f *xnet.Framer) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = frame(c.framer)
}

// request waits for the next request.
func (s *rawTarget) request() *rawRequest {
	s.t.Helper()
	return testkit.Receive(s.t, s.requests, "a request")
}

// sees waits for a frame.
func (s *rawTarget) sees(want string) {
	s.t.Helper()
	for testkit.Receive(s.t, s.frames, want) != want {
	}
}

// reset resets the stream of a request.
func (q *rawRequest) reset(code xnet.ErrCode) {
	q.of.write(func(f *xnet.Framer) error { return f.WriteRSTStream(q.id, code) })
}

// answer answers a request with a head and, unless it is empty, a body; end says that this is all.
func (q *rawRequest) answer(status, body string, end bool) {
	q.of.write(func(f *xnet.Framer) error {
		q.of.head.Reset()
		_ = q.of.hpack.WriteField(hpack.HeaderField{Name: ":status", Value: status}) // a buffer takes everything
		err := f.WriteHeaders(xnet.HeadersFrameParam{StreamID: q.id, BlockFragment: q.of.head.Bytes(), EndHeaders: true,
			EndStream: end && body == ""})
		if err != nil || body == "" {
			return err
		}
		return f.WriteData(q.id, end, []byte(body))
	})
}
