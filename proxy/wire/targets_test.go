package wire

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/roster"
)

// pair starts two targets and a proxy before them, over one loop.
func pair(t *testing.T, env ...string) (r *rig, one, two *fakeTarget) {
	one, two = newTarget(t, echoes), newTarget(t, echoes)
	return start(t, one.url()+","+two.url(), append(env, "EVENT_LOOPS", "1")...), one, two
}

// Several targets take turns.
func TestRoundRobin(t *testing.T) {
	var counts [2]atomic.Int64
	script := func(i int) func(c *targetConn) {
		return func(c *targetConn) {
			for s := c.next(); s != nil; s = c.next() {
				counts[i].Add(1)
				c.echo(s)
			}
		}
	}
	one, two := newTarget(t, script(0)), newTarget(t, script(1))
	r := start(t, one.url()+","+two.url(), "EVENT_LOOPS", "1", "TARGET_BALANCE", "round_robin")
	conn := r.dial()
	for range 10 {
		conn.Ask(get, 200)
	}
	if counts[0].Load() != 5 || counts[1].Load() != 5 {
		t.Errorf("%d and %d of 10 requests", counts[0].Load(), counts[1].Load())
	}
}

// A request that cannot reach its target goes to another one, whatever its
// method: nothing of it was sent. It is charged once. The target is then left
// alone for a while; when the other one goes, it is tried all the same.
func TestOneOfTwoTargetsIsDown(t *testing.T) {
	r, one, two := pair(t, "TARGET_BALANCE", "round_robin")
	one.kill()
	conn := r.dial()
	for i := range 6 {
		path := fmt.Sprintf("/p/%d", i)
		if body := conn.Ask("POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", 200); body != echoOf("POST", path, "ab") {
			t.Errorf("answered %q", body)
		}
	}
	s := r.samples()
	ejections := r.Targets.Status()[0].Ejections
	if retries := s["ratelimiter_upstream_retries_total"]; retries == 0 || retries > 3 || retries != float64(ejections) {
		t.Errorf("%v of 6 requests were sent elsewhere, of a target ejected %d times", retries, ejections)
	}
	r.samplesAre("ratelimiter_store_decisions_total", 6, `ratelimiter_requests_total{decision="forwarded"}`, 6)
	if up := r.Targets.Up(); up[one.addr] || !up[two.addr] {
		t.Errorf("targets up: %v", up)
	}
	one.start()
	two.kill()
	for range 4 {
		conn.Ask(get, 200)
	}
}

// If all of several targets are down, a request tries each of them once and gets an error.
func TestAllTargetsAreDown(t *testing.T) {
	r, one, two := pair(t)
	one.kill()
	two.kill()
	conn := r.dial()
	for range 4 {
		conn.Send(get)
		res, body := conn.Status(503)
		if res.Header.Get("Retry-After") != "1" || res.Close || body != `{"error":"no target can be reached"}`+"\n" {
			t.Errorf("answered %v %q, closes: %t", res.Header, body, res.Close)
		}
	}
	r.samplesAre(`ratelimiter_upstream_errors_total{kind="no_target"}`, 4, `ratelimiter_responses_total{code="503"}`, 4,
		`ratelimiter_requests_total{decision="forwarded"}`, 4)
	r.waiting(0)
	two.start()
	conn.Ask(get, 200) // passive ejection keeps nobody away who is the last
}

// Whether any target can be reached is found out without requests.
func TestReachable(t *testing.T) {
	t.Parallel() // looks once a second
	var reachable atomic.Bool
	reachable.Store(true)
	one, two := newTarget(t, echoes), newTarget(t, echoes)
	r := startWith(t, func(c *Config) { c.Roster.Reachable = reachable.Store }, one.url()+","+two.url(), "EVENT_LOOPS", "1")
	one.kill()
	two.kill()
	r.dial().Ask(get, 503)
	r.until("no target can be reached", func() bool { return !reachable.Load() })
	if up := r.Targets.Up(); up[one.addr] || up[two.addr] {
		t.Errorf("targets up: %v", up)
	}
	two.start()
	r.until("a target can be reached again", reachable.Load)
	r.dial().Ask(get, 200)
}

// Targets that cannot be reached are probed at the same time: none has to wait
// for the others' timeouts.
func TestProbesRunAtTheSameTime(t *testing.T) {
	t.Parallel() // looks once a second
	const targets = 8
	var open atomic.Int64
	r := startWith(t, func(c *Config) {
		c.Targets = nil
		for range targets { // each accepts connections and never shakes hands
			ln := testkit.Listen(t)
			go countOpen(ln, &open)
			addr := ln.Addr().String()
			c.Targets = append(c.Targets, &roster.Target{URL: "https://" + addr, Addr: addr, Host: addr, Secure: &tls.Config{InsecureSkipVerify: true}})
		}
	}, "http://127.0.0.1:1", "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "200ms")
	r.dial().Ask(get, 503) // has tried all of them
	r.until("no probe is under way", func() bool { return open.Load() == 0 })
	r.until("all targets are probed at the same time", func() bool { return open.Load() == targets })
}

// countOpen counts the connections that are open on ln.
func countOpen(ln net.Listener, open *atomic.Int64) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			open.Add(1)
			defer open.Add(-1)
			for b := make([]byte, 1024); ; {
				if _, err := c.Read(b); err != nil {
					c.Close()
					return
				}
			}
		}()
	}
}

// manyTargets are 10,000 targets that nothing is sent to.
func manyTargets(port int) (list []*roster.Target) {
	for i := range 10_000 {
		addr := fmt.Sprintf("10.0.%d.%d:%d", i>>8, i&255, port)
		list = append(list, &roster.Target{URL: "http://" + addr, Addr: addr, Host: addr})
	}
	return list
}

// Long lists are replaced by others; a target that is named twice is one, and one that
// stays has its place.
func TestManyTargets(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "EVENT_LOOPS", "1")
	first, second := manyTargets(1), manyTargets(2)
	for _, list := range [][]*roster.Target{first, append(first, first[0]), append(second, first[7]), second} {
		r.Targets.Set(list)
		r.sides.each(func(s *side, _ time.Time) {
			want := len(list)
			if list[len(list)-1] == first[0] {
				want--
			}
			if got, retired := len(s.targets.Targets()), len(s.targets.Retired()); got != want || retired != 0 || len(*s.seen.Load()) != want {
				t.Errorf("%d targets and %d retired ones after a list of %d", got, retired, len(list))
			}
		})
	}
	if g := r.sides.gate(second[3]); g == nil {
		t.Error("a target of the last list has no gate")
	}
}
