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
)

// gated gives each target a number of places, for which requests wait for long.
func gated(places int) func(c *Config) {
	return func(c *Config) {
		c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Patience, Min: places, Max: places}
	}
}

// A waiting request is served by any target that has a free place.
func TestLineIsForAnyTarget(t *testing.T) {
	r := holdBoth(t)
	for n, name := range []string{"a", "b", "b", "a"} {
		r.playf(`
			c%[1]d GET /; waiting 3; %[2]s answers; c%[1]d -> 200 =%[2]q; c%[1]d GET /held; %[2]s gets /held`, n, name)
	}
}

// When a target dies or leaves the list, others serve the waiting requests.
func TestLineOutlivesTargets(t *testing.T) {
	for name, end := range map[string]string{"dies": `a crashes`, "leaves": `targets b`} {
		t.Run(name, func(t *testing.T) {
			holdBoth(t).play(`
				w1 GET /; waiting 3; w2 GET /; waiting 4
				` + end + `; b answers; w1,w2 -> 200 ="b"`)
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
		{"", "X-Id=boss", "/special"},
		{"", "X-Priority=high", "/usual"},
		{"127.0.0.0/8", "X-Priority=high", "/special"},
	} {
		holding(t, gated(1), "RULES_FILE", rules, "CLIENTS_FILE", clients, "TRUSTED_PROXIES", test.trusted).play(
			fmt.Sprintf(`
			a GET /usual; waiting 2; b GET /special %s; waiting 3
			target answers; target gets %s`, test.field, test.first))
	}
}

// What an exchange has waited counts when it has to wait once more: GATE_WAIT is for all
// its tries together.
func TestGateWaitIsForAllTries(t *testing.T) {
	r := holding(t, gatedFor(gate.On, time.Hour))
	r.play(`waits GET /; waiting 2`)
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
	r.play(`waits -> 503`)
}

// Uploads are no part of what is in flight while their clients send, not even while a connection is made
// for them.
func TestGateInFlightWithoutStreams(t *testing.T) {
	addr, end := looptest.FullListener(t)
	r := startWith(t, gated(1), "http://"+addr, "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "10m", "TARGET_TIMEOUT",
		"10m", "TARGET_WAIT_TIMEOUT", "10m")
	r.playf(`a POST / Content-Length=1000000000; waiting 1
		metrics upstream_streams=1 gate_in_flight%s=0`, r.Targets.Labels(r.Targets.All()[0]))
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
	r := serveWith(t, gated(5), holds, "EVENT_LOOPS", "1")
	at := r.apart(3)
	for n, ask := range [][2]string{
		{at[0], "/held/greedy"}, {at[0], "/held/greedy"}, {at[0], "/held/greedy"}, {at[0], "/held/greedy"},
		{at[1], "/held/modest"},
		{at[0], "/greedy"}, {at[2], "/new"}, {at[1], "/modest"},
	} {
		r.playf(`c%[1]d@%[2]s GET %[3]s; waiting %[1]d`, n+1, ask[0], ask[1])
	}
	r.play(`target gets 5; target answers`) // whichever of the five is answered
	if next := testkit.Receive(t, r.targets["target"].asked, "a request"); next == "/greedy" {
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
			r := serveWith(t, test.tweak, holder, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "6000",
				"MAX_CONNECTIONS", "6000", "BODY_BUFFER_BYTES", "1KiB",
				"BODY_MIN_RATE", "0", "BODY_TIMEOUT", "10m", "STREAM_TIMEOUT", "10m", "TARGET_TIMEOUT", "10m")
			r.play(`1000 x other GET / -> 200`)
			for i, h := range holders {
				r.playf(`h%dc*%d %s -> %s`, i, test.each, h.asked, h.begins)
			}
			r.playf(`until upstream_streams=%d
				1000 x other GET / -> 200`, test.each*len(holders))
			for range test.each { // often enough that the line reserves places, if their number is fixed
				r.playf(`%d x other GET / -> 200`, test.asks)
				r.play(`leaves@127.0.0.2 GET /late; leaves resets`)
			}
			r.play(`metrics shed.gate=0`)
			const most = 64 // few are in flight at a time, but not always as few
			if limit := r.gate().Limit(); limit > most {
				t.Errorf("the limit is %d, want %d at most", limit, most)
			}
		})
	}
}

// With all connections to a target taken a request waits for one as long as
// TARGET_WAIT_TIMEOUT says, behind a gate too: the gate holds nothing back then.
func TestGateLeavesTheWaitForConnectionsAlone(t *testing.T) {
	holding(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: 0, Min: 1} },
		"TARGET_MAX_CONNECTIONS", "1").play(`
		waits GET /; waiting 2; target answers; held,waits -> 200; metrics shed.gate=0`)
}
