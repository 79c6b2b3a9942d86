package loop

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// What a TLS connection costs above crypto/tls is the way through the pair.
// Each benchmark runs without TLS, too, to compare.
func benchBoth(b *testing.B, accept AcceptFunc, run func(b *testing.B, c net.Conn)) {
	g := testkit.Must(Start(Config{Loops: 1}))(b)
	defer g.Stop()
	for _, secure := range []*tls.Config{nil, trust().server} {
		name := "plain"
		if secure != nil {
			name = "tls"
		}
		b.Run(name, func(b *testing.B) {
			nl := testkit.Listen(b)
			ln := g.Serve(nl, secure, accept)
			defer ln.Close()
			c := testkit.Must(net.Dial("tcp", ln.Addr().String()))(b)
			defer c.Close()
			if secure != nil {
				c = tls.Client(c, trust().client)
			}
			run(b, c)
		})
	}
}

func BenchmarkDownload(b *testing.B) {
	body := make([]byte, 16<<20)
	answer := func(_ time.Time, c *Conn) Handler {
		return &script{data: func(_ time.Time, p []byte) int { c.Write(body); return len(p) }}
	}
	benchBoth(b, answer, func(b *testing.B, c net.Conn) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			_, _ = c.Write([]byte("x"))
			if _, err := io.CopyN(io.Discard, c, int64(len(body))); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	benchBoth(b, echo, func(b *testing.B, c net.Conn) {
		p := make([]byte, 200)
		for b.Loop() {
			_, _ = c.Write(p)
			if _, err := io.ReadFull(c, p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
