package wire

import (
	"encoding/binary"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/data/protowire"
	"weir/internal/net/http2"
	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// The interoperability tests of gRPC pass, with and without TLS on either side.
func TestGRPCInterop(t *testing.T) {
	t.Parallel()
	programs := testkit.BuildOrSkip(t, "interop", ".", "google.golang.org/grpc/interop/server",
		"google.golang.org/grpc/interop/http2")
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	cert, key := testkit.WritePair(t, pair)
	secure := testkit.Trust(pair, "127.0.0.1")
	secure.Certificates, secure.NextProtos = append(secure.Certificates, pair), []string{"h2", "http/1.1"}
	for _, target := range []*roster.Target{{HTTP2: true}, {HTTP2: true, Secure: secure}} {
		target.Addr = testkit.FreeAddr(t)
		target.Host = target.Addr
		_, port, _ := net.SplitHostPort(target.Addr)
		testkit.StartAt(t, exec.Command(filepath.Join(programs, "server"), "-port", port, "-tls_cert_file", cert,
			"-tls_key_file", key, fmt.Sprintf("-use_tls=%t", target.Secure != nil)), target.Addr)
		for _, clientTLS := range []bool{false, true} {
			t.Run(fmt.Sprintf("TLS %t to %t", clientTLS, target.Secure != nil), func(t *testing.T) {
				t.Parallel()
				var trusts []string
				r := startWith(t, func(c *Config) {
					c.Targets, c.HTTP2.PriorKnowledge = []*roster.Target{target}, true
					if clientTLS {
						c.Secure, trusts = secure, []string{cert}
					}
				}, "http://x", "HTTP2", "all", "GATE", "off") // with it, calls that were cancelled keep their places
				args := append([]string{r.Addr().String()}, trusts...)
				testkit.RequireExit(t, exec.Command(filepath.Join(programs, "interop"), args...), 0)
				checkBaseLine(r)
			})
		}
	}
	// Without rst_during_data, whose client expects UNKNOWN where its own library has INTERNAL, without a proxy too.
	for _, name := range []string{"goaway", "rst_after_header", "rst_after_data", "ping", "max_streams"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, "h2c://"+serveNegative(t, name), "HTTP2", "all")
			_, port, _ := net.SplitHostPort(r.Addr().String())
			testkit.RequireExit(t, exec.Command(filepath.Join(programs, "http2"), "-server_host", "127.0.0.1", "-server_port",
				port,
				"-test_case", name), 0)
			checkBaseLine(r)
		})
	}
}

// A negativeServer answers calls as one of the negative tests of gRPC describes.
//
// Owned by its goroutine.
type negativeServer struct {
	t    *testing.T
	test string
	conn net.Conn
	h2   *http2.Conn
	out  []byte
	left map[uint32][]byte // of the bodies of responses
	acks int               // missing
}

// serveNegative starts the server of a test, and returns its address.
func serveNegative(t *testing.T, test string) (addr string) {
	limits := http2.Limits{GlitchBurst: -1}
	if test == "max_streams" {
		limits.Streams = 1
	}
	var conns sync.WaitGroup
	t.Cleanup(conns.Wait)
	return testkit.Serve(t, func(conn net.Conn) {
		s := &negativeServer{t: t, test: test, conn: conn, h2: http2.New(http2.Server, &limits, time.Now()),
			left: make(map[uint32][]byte)}
		conns.Go(s.run)
	})
}

func (s *negativeServer) run() {
	defer s.conn.Close()
	in, buf := []byte(nil), make([]byte, 16<<10)
	for h := new(http2.Head); ; {
		ev, err := s.h2.Next(time.Now(), in, h)
		if err != nil {
			s.t.Error(err)
			return
		}
		if in = in[ev.N:]; ev.Kind != http2.NeedMore {
			s.handle(&ev)
			continue
		}
		s.send()
		_, _ = s.conn.Write(s.h2.AppendControl(s.out)) // the next Read says what is wrong
		s.out = s.out[:0]
		n, err := s.conn.Read(buf)
		if err != nil {
			break
		}
		in = append(slices.Clone(in), buf[:n]...)
	}
	if refused := s.h2.Glitches()[http2.GlitchRefused]; s.acks > 0 || refused > 0 {
		s.t.Errorf("%d PINGs were not answered, %d streams were too many", s.acks, refused)
	}
}

func (s *negativeServer) handle(ev *http2.Event) {
	switch ev.Kind {
	case http2.Data:
		s.h2.Consumed(ev.Stream, len(ev.Data))
		s.ping()
	case http2.Pong:
		s.acks--
	}
	if !ev.EndStream {
		return
	}
	s.out, _ = s.h2.AppendResponse(s.out, ev.Stream, 200, []byte("Content-Type: application/grpc\r\n"), false)
	if s.test == "rst_after_header" {
		s.out = s.h2.AppendReset(s.out, ev.Stream, http2.NoError)
		return
	}
	const size = 314159 // of the payload of a SimpleResponse
	message := protowire.AppendBytes(nil, 1, protowire.AppendBytes(nil, 2, make([]byte, size)))
	s.left[ev.Stream] = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// send sends what there is room for of the responses.
func (s *negativeServer) send() {
	for id, left := range s.left {
		var n int
		if s.out, n = s.h2.AppendData(s.out, id, left, false); n < len(left) {
			s.left[id] = left[n:]
			continue
		}
		delete(s.left, id)
		switch s.test {
		case "rst_after_data":
			s.out = s.h2.AppendReset(s.out, id, http2.NoError)
		case "goaway":
			s.out = s.h2.AppendGoAway(s.out, false, http2.NoError)
		}
		s.out, _ = s.h2.AppendTrailers(s.out, id, []byte("Grpc-Status: 0\r\n"))
		s.ping()
	}
}

// ping sends a PING beside every frame of the test that is about it.
func (s *negativeServer) ping() {
	if n := len(s.out); s.test == "ping" {
		if s.out = s.h2.AppendPing(s.out); len(s.out) > n { // no more than a few are unanswered
			s.acks++
		}
	}
}
