package drive

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// Connections that were opened in advance and closed by the target before their
// first request cost no request: not when the end was seen before, nor when it
// and a request crossed on their way, which is what a request that is read and
// not answered looks like from here. Only where the end is noticed late, as on a
// machine that stalls, it is an error.
func TestClosedBeforeFirstUse(t *testing.T) {
	const connections = 2 * sentMax
	for name, c := range map[string]struct {
		first   func(c *served) // with the connections opened in advance
		retried uint64          // at least
	}{
		"seen":    {func(c *served) {}, 0},
		"crossed": {func(c *served) { c.request() }, 1},
		"reset": {func(c *served) {
			if c.request() {
				_ = c.Conn.(*net.TCPConn).SetLinger(0)
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var nth atomic.Int64
			b, s := against(t, func(conn *served) {
				if nth.Add(1) <= connections {
					c.first(conn)
				} else {
					answerAll(ok)(conn)
				}
			})
			idle := 2 * idleLong.Seconds()
			config := load(s.addr, 100, idle+0.3)
			config.Profile = map[string]any{"type": "steps", "params": map[string]any{"steps": []map[string]any{
				{"rps": 0, "duration": idle}, {"rps": 100, "duration": 0.3}}}}
			config.Concurrency = connections
			r := b.run(config)
			if r.Success+r.Errors != 30 || r.Errors > c.retried || r.Retried+r.Errors < c.retried {
				t.Errorf("%d succeeded, %d were sent again, errors %v", r.Success, r.Retried, r.ErrorsByReason)
			}
			const late = 0.1 // s; from then on the target has failed the request
			if r.Errors > 0 && r.LatencyErrors.Min < late {
				t.Errorf("errors %v, the first one after %v s", r.ErrorsByReason, r.LatencyErrors.Min)
			}
		})
	}
}

// A target that takes requests and then closes, at once or later, has failed
// them: it is not asked more often than the schedule says.
func TestClosedInsteadOfAnswered(t *testing.T) {
	b, s := against(t, func(c *served) { c.request() })
	config := load(s.addr, 100, 0.2)
	config.Concurrency = 40
	r := b.run(config)
	if n := s.requests.Load(); r.Retried != 0 || n != 20 || r.ErrorsByReason["closed"] != 20 {
		t.Errorf("%d were sent again, the server saw %d, errors %v", r.Retried, n, r.ErrorsByReason)
	}
}

// What is not idempotent is never sent twice (RFC 9110 9.2.2).
func TestClosedBeforeFirstUseOfPost(t *testing.T) {
	b, s := against(t, func(c *served) { c.request() })
	config := load(s.addr, 100, 0.1)
	config.Options = map[string]any{"method": "POST"}
	r := b.run(config)
	if r.Retried != 0 || s.requests.Load() != 10 || r.ErrorsByReason["closed"] != 10 {
		t.Errorf("%d were sent again, the server saw %d, errors %v", r.Retried, s.requests.Load(), r.ErrorsByReason)
	}
}

// A connection that was idle for long and is closed by the target is opened
// again before a request needs it; with others going on there is no error.
func TestIdleConnectionsAreReplaced(t *testing.T) {
	const connections = 5
	b, s := against(t, func(c *served) {
		for {
			_ = c.SetReadDeadline(time.Now().Add(idleLong + 200*time.Millisecond))
			if !c.request() {
				return
			}
			c.say(ok)
		}
	})
	config := load(s.addr, 20, 20)
	config.Concurrency = connections
	run := b.start(config)
	testkit.Eventually(t, "all but the one in use twice", func() bool { return s.accepted.Load() >= 2*connections-1 })
	testkit.Eventually(t, "as many as asked for", func() bool { return run.Status().Connections == connections })
	run.Stop()
	if r := b.finish(run); r.Errors != 0 || r.Success != r.Sent || r.Connections.Peak > connections {
		t.Errorf("%d of %d succeeded over at most %d connections, errors %v", r.Success, r.Sent, r.Connections.Peak,
			r.ErrorsByReason)
	}
}
