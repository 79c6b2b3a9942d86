package wire

import (
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

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
	r := members(t, gated(1), "a b", append(env, "BODY_BUFFER_BYTES", "1KiB")...)
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

// The gate learns from the answers to uploads that have waited for places: they take as long as others.
func TestGateLearnsFromUploads(t *testing.T) {
	r := serveWith(t, gated(16), holds, "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
	r.play(`12 x a POST / body*2000 -> 200; target gets /`) // it knows nothing before the eighth
	if look := r.gate().Look(); look.Median == 0 {
		t.Errorf("after twelve answers the gate is %+v", look)
	}
}

// A target is to blame when it closes the connections of uploads that wait for places with their last
// pieces, but not when it does not answer them.
func TestHealthWhileUploadsWait(t *testing.T) {
	for name, test := range map[string]struct {
		closes  bool
		timeout string
		status  int
	}{"closed": {true, testkit.Patience.String(), 502}, "not answered": {false, "1s", 503}} {
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
