package wire

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// BIND's default listens on IPv4 and IPv6 by one socket, where the kernel shows
// IPv4 addresses as mapped ones. Clients of IPv4 are seen as such: by rules, by
// the bound for each address and by the target.
func TestBothAddressFamilies(t *testing.T) {
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			from := "-"
			for _, f := range s.head.Fields {
				if strings.EqualFold(string(f.Name), "X-Forwarded-For") {
					from = string(f.Value)
				}
			}
			c.say("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(from)) + "\r\n\r\n" + from)
		}
	})
	r := startWith(t, func(c *Config) { c.Addr = "0.0.0.0:0"; c.Loop.PerAddressMax = 2 }, target.url(),
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
		if from := conn.Ask(request("/ip"), 200); from != addr {
			t.Errorf("the target is told of %q, want %q", from, addr)
		}
		conn.Ask(request("/ip"), 429)
		dial().Ask(get, 200)
		if b, err := dial().In.ReadByte(); err == nil {
			t.Errorf("a third connection from %s reads %q, want it closed", addr, b)
		}
	}
}
