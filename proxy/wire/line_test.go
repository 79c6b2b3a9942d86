package wire

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/net/loop/looptest"
	"weir/internal/net/share"
	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
)

// gated gives each target a number of places, for which requests wait for long.
func gated(places int) func(c *Config) {
	return func(c *Config) {
		c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Patience, Min: places, Max: places}
	}
}

// lineUp has a request wait behind n others that are busy or wait already.
func (r *rig) lineUp(n int, text string) *testkit.Conn {
	r.t.Helper()
	c := r.dial()
	c.Send(text)
	r.waiting(n + 1)
	return c
}

// A waiting request is served by any target that has a free place.
func TestLineIsForAnyTarget(t *testing.T) {
	a, b := newMember(t, "a"), newMember(t, "b")
	r := startWith(t, gated(1), a.url()+","+b.url(), "EVENT_LOOPS", "1")
	for n := range 2 {
		r.lineUp(n, request("/held"))
	}
	a.gate.next(t)
	b.gate.next(t)
	for _, m := range []*fakeTarget{a, b, b, a} {
		c := r.lineUp(2, get)
		m.gate.open <- true
		if _, body := c.Status(200); body != m.name {
			t.Errorf("answered by %s, %s has the place", body, m.name)
		}
		c.Send(request("/held"))
		m.gate.next(t)
	}
}

// When a target dies or leaves the list, others serve the waiting requests.
func TestLineOutlivesTargets(t *testing.T) {
	for name, end := range map[string]func(r *rig, dead, other *fakeTarget){
		"dies":   func(_ *rig, dead, _ *fakeTarget) { dead.crash() },
		"leaves": func(r *rig, _, other *fakeTarget) { r.Targets.Set([]*roster.Target{other.spec()}) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newMember(t, "a"), newMember(t, "b")
			r := startWith(t, gated(1), a.url()+","+b.url(), "EVENT_LOOPS", "1")
			for n := range 2 {
				r.lineUp(n, request("/held"))
			}
			a.gate.next(t)
			b.gate.next(t)
			waits := []*testkit.Conn{r.lineUp(2, get), r.lineUp(3, get)}
			end(r, a, b)
			b.gate.open <- true
			for _, c := range waits {
				if _, body := c.Status(200); body != "b" {
					t.Errorf("answered by %s", body)
				}
			}
		})
	}
}

// Requests of the highest priority are served next. The priority comes from the client file, and
// from fields of requests from trusted proxies, but not from those of others.
func TestLineRanks(t *testing.T) {
	rules := ruleFile(t, `rules:
  - {id: ids, key: ["header:X-Id"], clients: true, limit: {algorithm: "off"}, priority: {header: X-Priority, classes: {high: 0, low: 0.5}, default: low}}
`)
	clients := ruleFile(t, `{"boss": {"algorithm": "off", "priority": "high"}}`)
	for _, test := range []struct{ trusted, field, first string }{
		{"", "X-Id: boss", "/special"},
		{"", "X-Priority: high", "/usual"},
		{"127.0.0.0/8", "X-Priority: high", "/special"},
	} {
		r, b, _ := holding(t, gated(1), "RULES_FILE", rules, "CLIENTS_FILE", clients, "TRUSTED_PROXIES", test.trusted)
		r.lineUp(1, request("/usual"))
		r.lineUp(2, "GET /special HTTP/1.1\r\nHost: x\r\n"+test.field+"\r\n\r\n")
		b.open <- true
		if first := b.next(t); first != test.first {
			t.Errorf("%s, trusted: %q: %s is first", test.field, test.trusted, first)
		}
	}
}

// What an exchange has waited counts when it has to wait once more: GATE_WAIT is for all
// its tries together.
func TestGateWaitIsForAllTries(t *testing.T) {
	r, _, _ := withGate(t, gate.On, time.Hour)
	waits := r.lineUp(1, get)
	r.loops.each(func(s *loopServer, now time.Time) {
		later := now.Add(31 * time.Hour) // longer than a crowd makes anybody wait
		s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
			if c, ok := h.(*connection); ok && c.gateBy {
				s.line.Leave(later, &c.wait)
				c.left(later) // for a place, which comes to nothing
				c.await(now)
				c.apply(now)
			}
		})
	})
	waits.Status(503)
}

// Uploads are no part of what is in flight while their clients send, not even while a connection is made
// for them.
func TestGateInFlightWithoutStreams(t *testing.T) {
	addr, end := looptest.FullListener(t)
	r := startWith(t, gated(1), "http://"+addr, "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "10m", "TARGET_TIMEOUT",
		"10m", "TARGET_WAIT_TIMEOUT", "10m")
	r.lineUp(0, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
	r.samplesAre("ratelimiter_upstream_streams", 1, "ratelimiter_gate_in_flight"+r.Targets.Labels(r.Targets.All()[0]), 0)
	end()
}

// apart returns n addresses whose clients the line tells apart.
func (r *rig) apart(n int) (list []string) {
	seen := map[uint64]bool{}
	for i := 2; len(list) < n; i++ {
		addr := fmt.Sprintf("127.0.0.%d", i)
		if slot := share.Of(netip.MustParseAddr(addr)).Hash(r.seed) % 512; !seen[slot] {
			seen[slot] = true
			list = append(list, addr)
		}
	}
	return list
}

// The client with fewer places is served next, however long the other one has waited.
func TestLineClients(t *testing.T) {
	b := newBarrier()
	r := startWith(t, gated(5), newTarget(t, b.script).url(), "EVENT_LOOPS", "1")
	at := r.apart(3)
	for n, ask := range [][2]string{
		{at[0], "/held/greedy"}, {at[0], "/held/greedy"}, {at[0], "/held/greedy"}, {at[0], "/held/greedy"},
		{at[1], "/held/modest"},
		{at[0], "/greedy"}, {at[2], "/new"}, {at[1], "/modest"},
	} {
		r.dialFrom(ask[0]).Send(request(ask[1]))
		r.waiting(n + 1)
	}
	for range 5 {
		b.next(t)
	}
	b.open <- true // whichever of the five is answered
	if next := b.next(t); next == "/greedy" {
		t.Errorf("%s is next", next)
	}
}

// However many tunnels, streams and uploads there are that go at the pace of their clients, and
// however many clients leave before they are answered: others have places, and a gate that learns
// does not count them.
func TestPlacesStayForOthers(t *testing.T) {
	for name, test := range map[string]struct {
		tweak func(c *Config)
		each  int
		asks  int
	}{
		"four places": {gated(4), 50, 20},
		"a gate that learns": {func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Patience, Min: 2} },
			manyPaced(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := startWith(t, test.tweak, newTarget(t, holder).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "6000",
				"MAX_CONNECTIONS", "6000", "BODY_BUFFER_BYTES", "1KiB",
				"BODY_MIN_RATE", "0", "BODY_TIMEOUT", "10m", "STREAM_TIMEOUT", "10m", "TARGET_TIMEOUT", "10m")
			others := r.dial()
			ask := func(times int) {
				for range times {
					others.Ask(get, 200)
				}
			}
			ask(1000)
			for _, h := range holders {
				for range test.each {
					c := r.dial()
					c.Send(h.asked)
					h.begin(c)
				}
			}
			r.until("all are paced by their clients",
				func() bool { return r.samples()["ratelimiter_upstream_streams"] == float64(test.each*len(holders)) })
			ask(1000)
			for range test.each {
				ask(test.asks) // often enough that the line reserves places, if their number is fixed
				leaves := r.dialFrom("127.0.0.2")
				leaves.Send(request("/late"))
				leaves.Reset()
			}
			r.samplesAre(`ratelimiter_upstream_shed_total{kind="gate"}`, 0)
			const most = 64 // few are in flight at a time, but not always as few
			if limit := r.loops.gate(r.Targets.All()[0]).Limit(); limit > most {
				t.Errorf("the limit is %d, want %d at most", limit, most)
			}
		})
	}
}

// With all connections to a target taken a request waits for one as long as
// TARGET_WAIT_TIMEOUT says, behind a gate too: the gate holds nothing back then.
func TestGateLeavesTheWaitForConnectionsAlone(t *testing.T) {
	r, b, held := holding(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: 0, Min: 1} },
		"TARGET_MAX_CONNECTIONS", "1")
	b.frees(r, held)
	r.samplesAre(`ratelimiter_upstream_shed_total{kind="gate"}`, 0)
}
