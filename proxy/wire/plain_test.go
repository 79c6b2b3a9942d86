package wire

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// A plain HTTP request on a TLS port gets an answer that says so, even if it is larger than what
// is read. Other bytes close the connection without an answer.
func TestPlainRequestOnTLSPort(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	r := startWith(t, func(c *Config) { c.Secure = certified.TLS }, newTarget(t, echoes).url())
	upload := strings.Repeat("x", 1<<20)
	for _, text := range []string{get, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		fmt.Sprintf("PROPFIND / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(upload), upload)} {
		conn := r.dial()
		conn.Send(text)
		res, body := conn.Status(400)
		if !strings.Contains(body, "requires TLS") || !res.Close || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("answered %v %q", res.Header, body)
		}
		conn.Closed()
	}
	for _, text := range []string{"SSH-2.0-x\r\n", "\x00\x01\x02\x03\x04\x05"} {
		conn := r.dial()
		conn.Send(text)
		if b, err := conn.In.ReadByte(); err == nil {
			t.Errorf("%q is answered with %q", text, b)
		}
	}
	r.until("no connection is open", func() bool { return r.group.Stats().Open == 0 })
	if n := r.group.Stats().HandshakeErrors; n != 5 {
		t.Errorf("%d handshakes failed, want 5", n)
	}
}
