package wire

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
)

// longKinds are requests that may hold their connections for long because of what their client sends.
var longKinds = map[string]string{
	"upgrades": `GET /held upgrade`,
	"logins":   `GET /held Authorization="Negotiate abc"`,
	"uploads":  `POST /held body*2000`,
	"chunked":  `POST /held chunked*2000`,
}

// A target that treats such a request as any other works on no more of them than there are places, and
// they wait in the queue like others. Their connections are used again.
func TestLongRequestsNeedPlaces(t *testing.T) {
	for name, asked := range longKinds {
		t.Run(name, func(t *testing.T) {
			r := serveWith(t, gated(3), holds, "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
			r.playf(`a*12 %s; target gets 3; line 9; target gets nothing`, asked)
			equal(t, "requests in flight", r.gate().InFlight(), 3)
			r.play(`target answers 12; a* -> 200; rest; taken 0; metrics upstream_streams=0`)
		})
	}
}

// Without a place they are refused like others. The client may go on with its connection.
func TestLongRequestsAreShed(t *testing.T) {
	for name, asked := range longKinds {
		t.Run(name, func(t *testing.T) {
			holding(t, gatedFor(gate.On, 5*time.Millisecond), "BODY_BUFFER_BYTES", "1KiB").playf(`
				a %s -> 503 X-Weir-Reason=gate stays
				target answers; held -> 200; a GET / -> 200; rest`, asked)
		})
	}
}

// Every request on a private connection needs a place, too. One that is refused does not end the
// client's login.
func TestPrivateRequestsNeedPlaces(t *testing.T) {
	serveWith(t, gated(3), holds, "EVENT_LOOPS", "1").play(`
		a*8 GET / Authorization="Negotiate abc" -> 200; target gets 8
		a* GET /held; target gets 3; line 5; until upstream_streams=5 # they are that between requests
		a8 resets; line 4
		target answers 7; a* -> 200; target opened 8; rest`)
}

func TestPrivateConnectionOutlivesRefusals(t *testing.T) {
	r := holding(t, gatedFor(gate.On, 5*time.Millisecond))
	r.play(`target answers; held -> 200; private GET / Authorization="Negotiate abc" -> 200; target gets /`)
	opened := r.targets["target"].opened.Load()
	r.play(`
		held GET /held; target gets /held; private GET / -> 503
		target answers; held -> 200; private GET / -> 200; target gets /; until upstream_streams=1`)
	if n := r.targets["target"].opened.Load(); n > opened+1 {
		t.Errorf("%d connections to the target were opened", n-opened)
	}
}

// An upload is served when its own target has a place, whichever that is.
func TestUploadStaysWithItsTarget(t *testing.T) {
	holdBoth(t).play(`c POST / body*2000; line 1; a answers; b answers; c,held1,held2 -> 200`)
}

// gatedFor gives each target one place, for which requests wait for a limited time.
func gatedFor(mode gate.Mode, wait time.Duration) func(c *Config) {
	return func(c *Config) {
		gated(1)(c)
		c.Gate.Mode, c.Gate.Wait = mode, wait
	}
}

// A request that waits for a place at the target of its client's private connection, which closes
// meanwhile, gets a place like others.
func TestPrivateConnectionEndsWhileItsRequestWaits(t *testing.T) {
	hangup := make(chan bool)
	r := serveWith(t, gated(1), func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if c.holds(s); s.target() == "/login" {
				await(t, hangup)
				return
			}
		}
	}, "EVENT_LOOPS", "1")
	r.play(`
		private GET /login Authorization="Negotiate abc" -> 200; target gets /login
		held GET /held; target gets /held; private GET /x; line 1`)
	close(hangup)
	r.play(`until upstream_streams=0; line 1; target answers; held,private -> 200; rest`)
}

// holdBoth runs two targets with one place each, and holds both places for held1 and held2.
func holdBoth(t *testing.T, env ...string) *rig {
	t.Helper()
	r := members(t, gated(1), "a b", append(env, "BODY_BUFFER_BYTES", "1KiB", "TARGET_BALANCE", "p2c")...)
	r.play(`held1 GET /held; waiting 1; held2 GET /held; waiting 2; a gets /held; b gets /held`)
	return r
}

// Requests on private connections to a target wait for places at that one, however many another has.
// Meanwhile others get places at the latter.
func TestPrivateRequestsWaitForTheirOwnTarget(t *testing.T) {
	r := holdBoth(t)
	r.play(`
		a answers; waiting 1; c*8 GET / Authorization="Negotiate abc" -> 200 ="a"
		b answers; held1,held2 -> 200; c* GET /held; a gets /held`)
	r.until("they wait for a", func() bool {
		parked := 0
		r.loops.each(func(s *loopServer, _ time.Time) { parked += s.parked })
		return parked == 7
	})
	r.play(`
		other GET / -> 200 ="b" # a has no place
		c8 resets
		6 x a answers; a gets /held; a gets nothing
		a answers; c* -> 200; rest`)
}

// An upload needs no other connection than its own.
func TestUploadNeedsOneConnection(t *testing.T) {
	// one on each loop
	serveWith(t, gated(1), holds, "TARGET_MAX_CONNECTIONS", "2", "BODY_BUFFER_BYTES", "1KiB").play(`
		2 x a POST /held body*2000; target gets /held; target answers; a -> 200`)
}

// Neither do requests on private connections, also when they have waited for places.
func TestPrivateRequestsNeedOneConnection(t *testing.T) {
	serveWith(t, gated(3), holds, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "4", "TARGET_STREAM_SHARE", "0.5").play(`
		private*2 GET / Authorization="Negotiate abc" -> 200; target gets / /
		held*2 GET /held; target gets /held /held
		private* GET /held; target gets /held; line 1 # two places, with those of two streams, and no connection
		other GET /held; line 2
		target answers; target gets /held; target answers 4; private*,held*,other -> 200`)
}

// A target is to blame when it closes the connections of uploads that wait for places with their last
// pieces, but not when it does not answer them.
func TestHealthWhileUploadsWait(t *testing.T) {
	for name, test := range map[string]struct {
		closes  bool
		timeout string
		status  int
	}{"closed": {true, testkit.Timeout.String(), 502}, "not answered": {false, "1s", 503}} {
		t.Run(name, func(t *testing.T) {
			hangup, first := make(chan bool), atomic.Bool{}
			r := serveWith(t, gated(1), func(c *targetConn) {
				if !first.Swap(true) {
					c.hold(c.next())
					c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
					c.silence()
					return
				}
				_, _ = c.Read(make([]byte, 1))
				await(t, hangup)
			}, "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB", "TARGET_TIMEOUT", test.timeout)
			r.play(`held GET /held; target gets /held; c*6 POST /held body*2000; line 6
				target answers # the held request outlasts the uploads`)
			if test.closes {
				close(hangup)
			}
			r.playf(`c* -> %d`, test.status)
			equal(t, "the target is ejected", r.Targets.Status()[0].Ejections > 0, test.closes)
		})
	}
}

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
