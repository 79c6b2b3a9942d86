package wire

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
)

// holding runs a proxy on one loop, unless env says otherwise, whose target holds a request of the
// client named held.
func holding(t *testing.T, tweak func(c *Config), env ...string) *rig {
	t.Helper()
	r := serveWith(t, tweak, holds, append(env, "EVENT_LOOPS", "1")...)
	r.play(`held GET /held; target gets /held`)
	return r
}

func request(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }

// waiting waits until so many requests are busy at the targets or wait for them.
func (r *rig) waiting(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d requests are at the targets or wait for them", n), func() bool {
		sum := 0
		all := gather(r.loops, func(s *loopServer, _ time.Time) int {
			n := s.queue.Len()
			for _, at := range s.targets.Targets() {
				n += at.Value.pool.InFlight()
			}
			return n
		})
		for _, n := range all {
			sum += n
		}
		return len(all) == len(r.loops) && sum == n
	})
}

// With one connection to the target allowed, other requests wait for it, first come, first
// served, and each that leaves makes room.
func TestTargetConnectionsMax(t *testing.T) {
	serve(t, holds, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "1").play(`
		a GET /held/a; waiting 1; b GET /held/b; waiting 2; c GET /held/c; waiting 3; d GET /held/d; waiting 4
		target gets /held/a; b resets; waiting 3
		target answers; a -> 200 echo; target gets /held/c
		target answers; c -> 200 echo; target gets /held/d
		target answers; d -> 200 echo; target opened 1`)
}

// A request that has waited for a connection longer than TARGET_WAIT_TIMEOUT is answered 503.
func TestWaitingTimesOut(t *testing.T) {
	t.Parallel() // waits for the timeout, which a connect may take
	holding(t, asSet, "TARGET_MAX_CONNECTIONS", "1", "TARGET_WAIT_TIMEOUT", "2s").play(`
		b GET /held -> 503 Retry-After=1 "all connections to the target that this client may use are taken"
		waiting 1; target answers; held -> 200; b GET / -> 200
		metrics shed.busy=1 errors.timeout=0`)
}

// The queue is bounded: further requests are refused with 503, and so is the next request on the
// same connection.
func TestWaitersMax(t *testing.T) {
	holding(t, func(c *Config) { c.WaitersPerLoop = 2 }, "TARGET_MAX_CONNECTIONS", "1").play(`
		a,b GET /line; waiting 3
		late GET /late + GET /later
		late -> 503*2 Retry-After=1 stays "all connections to the target that this client may use are taken"
		target answers; held,a,b -> 200; late GET / -> 200
		metrics shed.busy=2`)
}

// A client that leaves while the target works is counted. The connection to the target is used
// again when the target has answered.
func TestClientLeaves(t *testing.T) {
	holding(t, asSet).play(`
		held resets; until client_connections=0; waiting 1
		target answers; waiting 0; GET / -> 200; rest
		metrics requests_abandoned_total=1 forwarded=2; target opened 1`)
}

// A target that crashes: what is at it becomes 502, what is elsewhere goes on,
// and when it is back the same clients are served again.
func TestTargetRestart(t *testing.T) {
	serve(t, holds).play(`
		a*8 GET /held; target gets 8
		target crashes; a* -> 502; a* GET / -> 502
		target answers all; target starts; a* GET /back -> 200 echo`)
}

// One exchange is cut by the target, another on its own connection is not
// bothered.
func TestNeighbourOfResetIsServed(t *testing.T) {
	serve(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if s.target() == "/reset" {
				testkit.Reset(c.Conn)
				return
			}
			c.holds(s)
		}
	}).play(`
		a GET /held; target gets /held
		5 x b GET /reset -> 502
		target answers; a -> 200 echo`)
}

// Clients that leave while the target works on their requests do not make room for further ones: the
// target never has more to do than the gate allows, and who stays is served.
func TestLeavingClientsKeepTheirPlaces(t *testing.T) {
	serveWith(t, gated(3), holds, "EVENT_LOOPS", "1").play(`
		3 x a GET /held; target gets /held; a resets; until client_connections=0
		9 x a GET /held; line 1; a resets; until client_connections=0
		target gets nothing
		metrics upstream_in_flight=3 upstream_abandoned=3 upstream_abandoned_total=3
		good GET /held/good; line 1; target answers 4; good -> 200 echo; rest; taken 0
		metrics upstream_abandoned=0 upstream_connections{state="idle"}=3 # they can be used again`)
}

// One client leaves behind at most a half of the connections that all may, and one that has left none
// behind may always leave one. The connection of a request beyond that is closed.
func TestLeavingClientsShareConnections(t *testing.T) {
	// four may be left behind
	r := serve(t, holds, "EVENT_LOOPS", "1", "GATE", "off", "TARGET_MAX_CONNECTIONS", "8")
	for i, step := range []struct {
		from                string
		abandoned, atTarget int
	}{
		{"127.0.0.1", 1, 1}, {"127.0.0.1", 2, 2}, {"127.0.0.1", 2, 2}, // the third is beyond its share
		{"127.0.0.2", 3, 3}, {"127.0.0.2", 3, 3}, {"127.0.0.3", 4, 4}, {"127.0.0.4", 4, 4}, // all are left behind
	} {
		r.playf(`
			a@%s GET /held; target gets /held; a resets; until client_connections=0 upstream_abandoned=%d
			metrics upstream_in_flight=%d upstream_abandoned_total=%d`, step.from, step.abandoned, step.atTarget, i+1)
	}
	r.play(`
		metrics upstream_abandoned_beyond_share_total=3
		target answers 7; until upstream_abandoned=0; rest
		a GET /held/again; target gets /held/again; a resets; until upstream_abandoned=1
		target answers; until upstream_abandoned=0`)
}

// shared is for targets of whose connections one client may leave two behind, and all four.
var shared = []string{"EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "8"}

// When a client has left as many connections behind as its share is, its further requests are refused
// until the target has answered some. Others are served. It makes no difference that the gate knows
// nothing of the target yet, nor that an exchange may hold its connection for long.
func TestLeavingClientsAreRefused(t *testing.T) {
	for name, left := range map[string]string{"requests": "GET /held", "upgrades": "GET /held upgrade"} {
		t.Run(name, func(t *testing.T) {
			serveWith(t, gated(8), holds, shared...).playf(`
				a@127.0.0.2 %[1]s; target gets /held; a resets; until upstream_abandoned=1
				a@127.0.0.2 %[1]s; target gets /held; a resets; until upstream_abandoned=2
				refused@127.0.0.2 GET / -> 503 Retry-After=1 "that this client may use"
				metrics shed.busy=1
				other GET / -> 200
				target answers; until upstream_abandoned=1; refused GET / -> 200`, left)
		})
	}
}

// A client that leaves more behind than its share has only its own requests refused, until all that is
// beyond the share is answered.
func TestLeavingClientsRefuseNoOthers(t *testing.T) {
	serveWith(t, gated(8), holds, shared...).play(`
		good@127.0.0.3 GET /held; target gets /held; good resets; until upstream_abandoned=1
		a*4@127.0.0.2 GET /held; target gets 4; a* resets; until upstream_abandoned=5
		good@127.0.0.3 GET / -> 200; other@127.0.0.4 GET / -> 200; attacker@127.0.0.2 GET / -> 503
		target answers 5; until upstream_abandoned=0; attacker GET / -> 200`)
}

// A request that was sent already is sent again when its connection turns out to be closed, although
// its client may send no new ones.
func TestLeavingClientsAreNotRefusedRetries(t *testing.T) {
	hangup, first := make(chan bool), atomic.Bool{}
	r := serveWith(t, gated(8), func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if s.target() == "/again" && !first.Swap(true) {
				c.at.asked <- s.target()
				await(t, hangup)
				return
			}
			c.holds(s)
		}
	}, shared...)
	r.play(`
		again@127.0.0.2 GET / -> 200; again GET /again; target gets / /again
		a@127.0.0.2 GET /held; target gets /held; a resets; until upstream_abandoned=1
		a@127.0.0.2 GET /held; target gets /held; a resets; until upstream_abandoned=2
		a@127.0.0.2 GET / -> 503`)
	close(hangup)
	r.play(`again -> 200`)
}

// Requests that are left behind together may exceed the share of their client. They keep their places.
func TestAbandonedBeyondShareKeepTheirPlaces(t *testing.T) {
	serveWith(t, gated(8), holds, shared...).play(`
		a*4 GET /held; target gets 4; a* resets; until upstream_abandoned=4
		metrics upstream_abandoned_beyond_share_total=2 upstream_in_flight=4
		target answers 4; until upstream_abandoned=0; rest`)
}

// However long a target works on requests whose clients have left, it never has more to do than there
// are places.
func TestLongAbandonedRequestsKeepTheirPlaces(t *testing.T) {
	const places, attacks = 4, 20
	r := serveWith(t, gated(places), holds, "EVENT_LOOPS", "1")
	r.play(`100 x good GET / -> 200; target gets /`) // the gate learns how long answers take
	asked, atTarget := r.targets["target"].asked, 0
	for range attacks {
		r.play(`a@127.0.0.2 GET /held`)
		r.until("it is at the target, or waits", func() bool { return len(asked) > 0 || r.gate().Waiting.Load() > 0 })
		atTarget += len(asked)
		r.playf(`target gets %d; a resets; until client_connections=1`, len(asked))
	}
	if atTarget == 0 || atTarget > places {
		t.Errorf("%d requests are at the target, with %d places", atTarget, places)
	}
	r.playf(`
		metrics upstream_abandoned=%[1]d upstream_streams=0
		target answers %[1]d; until upstream_abandoned=0; good GET / -> 200`, atTarget)
}

// Requests that take long by themselves are streams, also when their clients have left: others have
// their places.
func TestLongAbandonedRequests(t *testing.T) {
	tweak := func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: 10 * time.Millisecond, Min: 4, Max: 4} }
	serveWith(t, tweak, holds, "EVENT_LOOPS", "1").play(`
		200 x quick GET / -> 200; target gets /              # the gate learns how long answers take
		3 x a GET /held; target gets /held; a resets
		until upstream_abandoned=3
		100 x quick GET / -> 200; target gets /              # they are overtaken
		one GET /held/one; target gets /held/one
		fifth GET / -> 200; until upstream_streams=3
		target answers 4; one -> 200; until upstream_abandoned=0; metrics upstream_streams=0`)
}

// What a target sends is read only as far as a client's answer would be collected, and for as long
// as a client would wait.
func TestAbandonedAnswersAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		late   int
	}{
		"without a length": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 0},
		"large":            {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\naaa", 0},
		"not HTTP":         {"HTTP/2000 NO\r\n\r\n", 0},
		"none":             {"", 1},
		"a part":           {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\naaa", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait for the timeout
			timeout := testkit.Timeout.String()
			if test.late > 0 {
				timeout = "2s"
			}
			serve(t, each(func(c *targetConn, s *seen) {
				if s.target() != "/left" {
					c.echo(s)
					return
				}
				c.hold(s)
				c.say(test.answer)
				c.silence()
			}), "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB", "TARGET_TIMEOUT", timeout).playf(`
				a GET /left; target gets /left; a resets; until upstream_abandoned=1
				target answers; until upstream_abandoned=0; target open 0
				metrics upstream_abandoned_timeouts_total=%d; GET / -> 200`, test.late)
		})
	}
}

// A request of which the target has only a part is not awaited: it cannot be executed.
func TestIncompleteRequestIsNotAwaited(t *testing.T) {
	serve(t, func(c *targetConn) {
		_, _ = c.Read(make([]byte, 1))
		c.at.asked <- "a part"
		_, _ = io.Copy(io.Discard, c)
	}, "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB").play(`
		a POST / Content-Length=100000 part*50000; target gets 1; a resets; rest
		metrics upstream_abandoned_total=0; target open 0`)
}

// Neither clients nor their sessions are kept in memory while the target works, except perhaps the
// last one that the loop has served; and a proxy that ends does not wait for the target.
func TestAbandonedRequestsKeepNoClients(t *testing.T) {
	r := serve(t, holds, "EVENT_LOOPS", "1")
	var held []weak.Pointer[connection]
	for range 5 {
		r.play(`a GET /held; target gets /held`)
		r.loops.each(func(s *loopServer, _ time.Time) {
			s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
				if c, ok := h.(*connection); ok {
					held = append(held, weak.Make(c))
				}
			})
		})
		r.playf(`a resets; until upstream_abandoned=%d`, len(held))
	}
	r.until("the clients are freed", func() bool {
		runtime.GC()
		left := 0
		for _, c := range held {
			if c.Value() != nil {
				left++
			}
		}
		return left <= 1
	})
	r.play(`metrics upstream_abandoned=5; drain 0; until upstream_abandoned=0`)
}
