package wire

import (
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// holders are the ways to hold a connection to the target for long: how the answer begins, and how one
// is refused for which there is no place.
var holders = []struct {
	name, asked, begins string
	refused, counted    string
}{
	{"tunnels", `GET /tunnel upgrade`, `reads "HTTP/1.1 101 "`, `503 Retry-After=1`, "shed.streams"},
	// the target has executed the request
	{"answers without a length", `GET /stream`, `reads "HTTP/1.1 200 "`, `502 Retry-After=`, "errors.unstreamed"},
	{"large answers", `GET /large`, `reads "HTTP/1.1 200 "`, `502 Retry-After=`, "errors.unstreamed"},
	{"uploads", `POST /upload Expect=100-continue Content-Length=100000`, `reads "HTTP/1.1 100 "`,
		`100 + 503 Retry-After=1`, "shed.streams"},
}

// reads fails unless what comes next begins with the text.
func reads(c *testkit.Conn, text string) {
	c.T.Helper()
	if got, err := c.In.Peek(len(text)); err != nil || string(got) != text {
		c.T.Errorf("answered %q, %v, want %q", got, err, text)
	}
}

// holder answers as asked, and then holds the connection.
func holder(c *targetConn) {
	for s := c.next(); s != nil; s = c.next() {
		switch s.target() {
		case "/tunnel":
			c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		case "/stream":
			c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + strings.Repeat("a", 0x800) + "\r\n")
		case "/large":
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("a", 2000))
		case "/late":
		default:
			c.echo(s)
			continue
		}
		c.silence()
	}
}

// One client cannot take all places for tunnels and streams: what it leaves is for others.
func TestStreamsShareOfOneClient(t *testing.T) {
	for _, h := range holders {
		t.Run(h.name, func(t *testing.T) {
			serve(t, holder, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "20", "TARGET_STREAM_SHARE", "0.8",
				"BODY_BUFFER_BYTES", "1KiB", "TRUSTED_PROXIES", "127.0.0.9/32").playf(`
				a*14@127.0.0.2 %[1]s -> %[2]s; until upstream_streams=14
				more@127.0.0.2 %[1]s -> %[3]s "that may carry"
				b@127.0.0.9 %[1]s X-Forwarded-For=192.0.2.1 -> %[2]s; until upstream_streams=15
				c@127.0.0.9 %[1]s X-Forwarded-For=192.0.2.2 -> %[2]s; until upstream_streams=16
				metrics %[4]s=1`, h.asked, h.begins, h.refused, h.counted)
		})
	}
}

// Tunnels and streams take a share of the connections to a target, and are
// refused beyond it; the rest stays for short exchanges. What ends gives its
// place back.
func TestShareStaysForShortExchanges(t *testing.T) {
	for _, h := range holders {
		t.Run(h.name, func(t *testing.T) {
			serve(t, holder, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "4", "TARGET_STREAM_SHARE", "0.75",
				"BODY_BUFFER_BYTES", "1KiB").playf(`
				a*3 %[1]s -> %[2]s; until upstream_streams=3
				late %[1]s -> %[3]s "that may carry"
				b*3 GET / -> 200; metrics %[4]s=1 upstream_streams=3
				a* resets; until upstream_streams=0; c %[1]s -> %[2]s`, h.asked, h.begins, h.refused, h.counted)
		})
	}
}

// One client cannot take all connections to a target with slow requests, whatever their number:
// requests of others are answered meanwhile. The gate, which would limit all of them, is off.
func TestConnectionsToTargetShareOfOneClient(t *testing.T) {
	serve(t, holds, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "16", "GATE", "off",
		"TRUSTED_PROXIES", "127.0.0.9/32").play(`
		slow*40@127.0.0.2 GET /held; target gets 14; waiting 40
		3 x a GET / -> 200; b@127.0.0.9 GET / X-Forwarded-For=192.0.2.1 -> 200; target gets / /
		target answers 40; slow* -> 200`)
}
