package wire

import (
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// BIND's default listens on IPv4 and IPv6 by one socket, where the kernel shows
// IPv4 addresses as mapped ones. Clients of IPv4 are seen as such: by rules, by
// the bound for each address and by the target.
func TestBothAddressFamilies(t *testing.T) {
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		from := "-"
		for _, f := range s.head.Fields {
			if strings.EqualFold(string(f.Name), "X-Forwarded-For") {
				from = string(f.Value)
			}
		}
		c.say("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(from)) + "\r\n\r\n" + from)
	}))
	r := startWith(t, func(c *Config) {
		c.Sockets, c.Loop.PerAddressMax = []net.Listener{testkit.Must(net.Listen("tcp", "0.0.0.0:0"))(t)}, 2
	}, target.url(),
		"RULES_FILE", ruleFile(t, `rules:
- {id: mapped, key: [ip], match: {path: /ip}, limit: {algorithm: fixed, limit: 1, window: C}}`))
	_, port, err := net.SplitHostPort(r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	addrs := []string{"127.0.0.1"}
	if ln, err := net.Listen("tcp6", "[::1]:0"); err == nil { // the machine has IPv6
		_ = ln.Close()
		addrs = append(addrs, "::1")
	}
	for _, addr := range addrs {
		dial := func() *testkit.Conn {
			c := testkit.Must(net.Dial("tcp", net.JoinHostPort(addr, port)))(t)
			t.Cleanup(func() { c.Close() })
			return testkit.NewConn(t, c)
		}
		conn := dial()
		equal(t, "the target is told of", conn.Ask(request("/ip"), 200), addr)
		conn.Ask(request("/ip"), 429)
		dial().Ask(get, 200)
		if b, err := dial().In.ReadByte(); err == nil {
			t.Errorf("a third connection from %s reads %q, want it closed", addr, b)
		}
	}
}

// A plain HTTP request on a TLS port gets an answer that says so, even if it is larger than what
// is read. Other bytes close the connection without an answer.
func TestPlainRequestOnTLSPort(t *testing.T) {
	t.Parallel() // a lingering close takes a second
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	serveWith(t, func(c *Config) { c.Secure = certified.TLS }, echoes).play(`
		a GET / -> 400 "requires TLS" closes Content-Type=application/json + closed
		a POST / body=hello -> 400 "requires TLS" closes Content-Type=application/json + closed
		a PROPFIND / body*1048576 -> 400 "requires TLS" closes Content-Type=application/json + closed
		a "SSH-2.0-x\r\n" -> gone; b "\x00\x01\x02\x03\x04\x05" -> gone
		until client_connections=0; metrics client_handshake_errors_total=5`)
}
