package wire

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/test/testkit"
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
			n := s.line.Len()
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

// The line is bounded: further requests are refused with 503, and so is the next request on the
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
