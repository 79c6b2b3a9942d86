package wire

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
)

// A works is a target that goes on working on a request whose connection closes, as most
// do: each value put into done ends the work on one request.
type works struct {
	read      chan string // the requests that were read
	done      chan bool
	now, most atomic.Int64 // at work
}

func newWorks() *works { return &works{read: make(chan string, 1000), done: make(chan bool, 1000)} }

func (w *works) script(c *targetConn) {
	each(func(c *targetConn, s *seen) {
		n := w.now.Add(1)
		for m := w.most.Load(); n > m && !w.most.CompareAndSwap(m, n); m = w.most.Load() {
		}
		w.read <- s.target()
		await(c.t, w.done)
		w.now.Add(-1)
		c.echo(s)
	})(c)
}

// finish ends the work on n requests.
func (w *works) finish(n int) {
	for range n {
		w.done <- true
	}
}

// leave sends a request and resets the connection when the target has read it, or when the request
// waits for a place.
func (r *rig) leave(w *works, conn *testkit.Conn, text string) {
	r.t.Helper()
	conn.Send(text)
	r.until("the request is at the target, or waits for a place", func() bool {
		if len(w.read) > 0 {
			<-w.read
			return true
		}
		waiting := 0
		r.loops.each(func(s *loopServer, _ time.Time) { waiting += s.line.Len() })
		return waiting > 0
	})
	conn.Reset()
	r.noClients()
}

// noClients waits until the proxy knows that all clients have left.
func (r *rig) noClients() {
	r.t.Helper()
	r.until("all clients have left", func() bool { return r.samples()["ratelimiter_client_connections"] == 0 })
}

// Clients that leave while the target works on their requests do not make room for further ones: the
// target never has more to do than the gate allows, and who stays is served.
func TestLeavingClientsKeepTheirPlaces(t *testing.T) {
	const places, attacks = 3, 12
	w := newWorks()
	r := startWith(t, gated(places), newTarget(t, w.script).url(), "EVENT_LOOPS", "1")
	for range attacks {
		r.leave(w, r.dial(), request("/attack"))
	}
	if n := w.most.Load(); n != places {
		t.Errorf("%d requests are at the target, with %d places", n, places)
	}
	r.samplesAre("ratelimiter_upstream_in_flight", places)
	r.samplesAre("ratelimiter_upstream_abandoned", places, "ratelimiter_upstream_abandoned_total", places)
	good := r.dial()
	good.Send(request("/good"))
	r.inLine(1)
	w.finish(places + 1)
	if _, body := good.Status(200); body != echoOf("GET", "/good", "") {
		t.Errorf("answered %q", body)
	}
	good.Close()
	checkBaseLine(r)
	g := r.loops.gate(r.Targets.All()[0])
	if g.Taken() != 0 || r.lines.Taken() != 0 {
		t.Errorf("in the end %d places are taken, %d in the lines", g.Taken(), r.lines.Taken())
	}
	r.samplesAre("ratelimiter_upstream_abandoned", 0)
	r.samplesAre(`ratelimiter_upstream_connections{state="idle"}`, places) // they can be used again
}

// abandoned waits until so many requests whose clients have left are at the targets.
func (r *rig) abandoned(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d abandoned requests are at the targets", n), func() bool {
		return r.samples()["ratelimiter_upstream_abandoned"] == float64(n)
	})
}

// One client leaves behind at most a half of the connections that all may, and one that has left none
// behind may always leave one. The connection of a request beyond that is closed.
func TestLeavingClientsShareConnections(t *testing.T) {
	w := newWorks()
	target := newTarget(t, w.script)
	// four may be left behind
	r := start(t, target.url(), "EVENT_LOOPS", "1", "GATE", "off", "TARGET_MAX_CONNECTIONS", "8")
	for i, step := range []struct {
		from                string
		abandoned, atTarget int
	}{
		{"127.0.0.1", 1, 1}, {"127.0.0.1", 2, 2}, {"127.0.0.1", 2, 2}, // the third is beyond its share
		{"127.0.0.2", 3, 3}, {"127.0.0.2", 3, 3}, {"127.0.0.3", 4, 4}, {"127.0.0.4", 4, 4}, // all are left behind
	} {
		r.leave(w, r.dialFrom(step.from), request("/attack"))
		r.abandoned(step.abandoned)
		r.samplesAre("ratelimiter_upstream_in_flight", step.atTarget, "ratelimiter_upstream_abandoned_total", i+1)
	}
	r.samplesAre("ratelimiter_upstream_abandoned_beyond_share_total", 3)
	w.finish(7)
	r.abandoned(0)
	checkBaseLine(r)
	r.leave(w, r.dial(), request("/again"))
	r.abandoned(1)
	w.finish(1)
	r.abandoned(0)
}

// When a client has left as many connections behind as its share is, its further requests are refused
// until the target has answered some. Others are served. It makes no difference that the gate knows
// nothing of the target yet, nor that an exchange may hold its connection for long.
func TestLeavingClientsAreRefused(t *testing.T) {
	for name, left := range map[string]string{
		"requests": request("/held"), "upgrades": strings.Replace(request("/held"), "\r\n\r\n",
			"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBarrier()
			r := startWith(t, gated(8), newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "8")
			for n := range 2 { // of four, a half
				c := r.dialFrom("127.0.0.2")
				c.Send(left)
				b.next(t)
				c.Reset()
				r.abandoned(n + 1)
			}
			refused := r.dialFrom("127.0.0.2")
			refused.Send(get)
			if res, body := refused.Status(503); res.Header.Get("Retry-After") != "1" ||
				!strings.Contains(body, "that this client may use") {
				t.Errorf("answered %v %q", res.Header, body)
			}
			r.samplesAre(`ratelimiter_upstream_shed_total{kind="busy"}`, 1)
			r.dial().Ask(get, 200)
			b.open <- true
			r.abandoned(1)
			refused.Ask(get, 200)
		})
	}
}

// A client that leaves more behind than its share has only its own requests refused, until all that is
// beyond the share is answered.
func TestLeavingClientsRefuseNoOthers(t *testing.T) {
	const attacks = 4
	b := newBarrier()
	r := startWith(t, gated(8), newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "8")
	good := r.dialFrom("127.0.0.3")
	good.Send(request("/held"))
	b.next(t)
	good.Reset()
	r.abandoned(1)
	var conns []*testkit.Conn
	for range attacks {
		c := r.dialFrom("127.0.0.2")
		c.Send(request("/held"))
		b.next(t)
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.Reset()
	}
	r.abandoned(1 + attacks)
	r.dialFrom("127.0.0.3").Ask(get, 200)
	r.dialFrom("127.0.0.4").Ask(get, 200)
	attacker := r.dialFrom("127.0.0.2")
	attacker.Ask(get, 503)
	for range 1 + attacks {
		b.open <- true
	}
	r.abandoned(0)
	attacker.Ask(get, 200)
}

// A request that was sent already is sent again when its connection turns out to be closed, although
// its client may send no new ones.
func TestLeavingClientsAreNotRefusedRetries(t *testing.T) {
	b, hangup, first := newBarrier(), make(chan bool), atomic.Bool{}
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			b.asked <- s.target()
			switch {
			case s.target() == "/held":
				b.pass(c)
			case s.target() == "/again" && !first.Swap(true):
				await(t, hangup)
				return
			}
			c.echo(s)
		}
	})
	r := startWith(t, gated(8), target.url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "8")
	again := r.dialFrom("127.0.0.2")
	again.Ask(get, 200)
	b.next(t)
	again.Send(request("/again"))
	b.next(t)
	for n := range 2 {
		c := r.dialFrom("127.0.0.2")
		c.Send(request("/held"))
		b.next(t)
		c.Reset()
		r.abandoned(n + 1)
	}
	r.dialFrom("127.0.0.2").Ask(get, 503)
	close(hangup)
	again.Status(200)
}

// Requests that are left behind together may exceed the share of their client. They keep their places.
func TestAbandonedBeyondShareKeepTheirPlaces(t *testing.T) {
	const all = 4
	w := newWorks()
	r := startWith(t, gated(8), newTarget(t, w.script).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "8")
	var conns []*testkit.Conn
	for range all {
		c := r.dial()
		c.Send(request("/held"))
		<-w.read
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.Reset()
	}
	r.abandoned(all)
	r.samplesAre("ratelimiter_upstream_abandoned_beyond_share_total", all-2, "ratelimiter_upstream_in_flight", all)
	w.finish(all)
	r.abandoned(0)
	checkBaseLine(r)
}

// However long a target works on requests whose clients have left, it never has more to do than there
// are places.
func TestLongAbandonedRequestsKeepTheirPlaces(t *testing.T) {
	const places, attacks = 4, 20
	b := newBarrier()
	r := startWith(t, gated(places), newTarget(t, b.script).url(), "EVENT_LOOPS", "1")
	good := r.dial()
	for range 100 { // the gate learns how long answers take
		good.Ask(get, 200)
		b.next(t)
	}
	g, atTarget := r.loops.gate(r.Targets.All()[0]), 0
	for range attacks {
		c := r.dialFrom("127.0.0.2")
		c.Send(request("/held"))
		r.until("it is at the target, or waits", func() bool { return len(b.asked) > 0 || g.Waiting.Load() > 0 })
		if len(b.asked) > 0 {
			b.next(t)
			atTarget++
		}
		c.Reset()
		r.until("it has left", func() bool { return r.samples()["ratelimiter_client_connections"] == 1 })
	}
	if atTarget == 0 || atTarget > places {
		t.Errorf("%d requests are at the target, with %d places", atTarget, places)
	}
	r.samplesAre("ratelimiter_upstream_abandoned", atTarget, "ratelimiter_upstream_streams", 0)
	for range atTarget {
		b.open <- true
	}
	r.abandoned(0)
	good.Ask(get, 200)
}

// Requests that take long by themselves are streams, also when their clients have left: others have
// their places.
func TestLongAbandonedRequests(t *testing.T) {
	b := newBarrier()
	tweak := func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: 10 * time.Millisecond, Min: 4, Max: 4} }
	r := startWith(t, tweak, newTarget(t, b.script).url(), "EVENT_LOOPS", "1")
	quick := r.dial()
	ask := func() {
		quick.Ask(get, 200)
		b.next(t)
	}
	for range 200 { // the gate learns how long answers take
		ask()
	}
	for range 3 {
		c := r.dial()
		c.Send(request("/held"))
		b.next(t)
		c.Reset()
	}
	r.abandoned(3)
	for range 100 { // they are overtaken
		ask()
	}
	one := r.dial()
	one.Send(request("/held/one"))
	b.next(t)
	waits := r.dial()
	waits.Send(get) // the fifth
	waits.Status(200)
	r.until("three are streams", func() bool { return r.samples()["ratelimiter_upstream_streams"] == 3 })
	for range 4 {
		b.open <- true
	}
	one.Status(200)
	r.abandoned(0)
	r.samplesAre("ratelimiter_upstream_streams", 0)
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
			asked, open := make(chan bool), make(chan bool)
			target := newTarget(t, each(func(c *targetConn, s *seen) {
				if s.target() != "/left" {
					c.echo(s)
					return
				}
				asked <- true
				await(t, open)
				c.say(test.answer)
				c.silence()
			}))
			timeout := testkit.Patience.String()
			if test.late > 0 {
				timeout = "2s"
			}
			r := start(t, target.url(), "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB", "TARGET_TIMEOUT", timeout)
			c := r.dial()
			c.Send(request("/left"))
			await(t, asked)
			c.Reset()
			r.abandoned(1)
			open <- true
			r.abandoned(0)
			r.until("the connection is closed", func() bool { return target.open() == 0 })
			r.samplesAre("ratelimiter_upstream_abandoned_timeouts_total", test.late)
			r.dial().Ask(get, 200)
		})
	}
}

// A request of which the target has only a part is not awaited: it cannot be executed.
func TestIncompleteRequestIsNotAwaited(t *testing.T) {
	begun := make(chan bool, 1)
	target := newTarget(t, func(c *targetConn) {
		_, _ = c.Read(make([]byte, 1))
		begun <- true
		_, _ = io.Copy(io.Discard, c)
	})
	r := start(t, target.url(), "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
	c := r.dial()
	c.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("a", 50_000))
	await(t, begun)
	c.Reset()
	checkBaseLine(r)
	r.samplesAre("ratelimiter_upstream_abandoned_total", 0)
	r.until("the connection is closed", func() bool { return target.open() == 0 })
}

// The gate learns from answers that nobody waits for: they take as long as others.
func TestGateLearnsFromAbandonedAnswers(t *testing.T) {
	w := newWorks()
	r := startWith(t, gated(16), newTarget(t, w.script).url(), "EVENT_LOOPS", "1")
	look := func() gate.State { return r.loops.gate(r.Targets.All()[0]).Look() }
	for range 12 { // it knows nothing before the eighth
		r.leave(w, r.dial(), request("/"))
		r.abandoned(1)
		w.finish(1)
		r.abandoned(0)
	}
	if look().Median == 0 {
		t.Errorf("after twelve answers the gate is %+v", look())
	}
}

// Neither clients nor their sessions are kept in memory while the target works, except perhaps the
// last one that the loop has served; and a proxy that ends does not wait for the target.
func TestAbandonedRequestsKeepNoClients(t *testing.T) {
	const clients = 5
	w := newWorks()
	r := start(t, newTarget(t, w.script).url(), "EVENT_LOOPS", "1")
	var held []weak.Pointer[connection]
	for range clients {
		conn := r.dial()
		conn.Send(request("/"))
		<-w.read
		r.loops.each(func(s *loopServer, _ time.Time) {
			s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
				if c, ok := h.(*connection); ok {
					held = append(held, weak.Make(c))
				}
			})
		})
		conn.Reset()
		r.abandoned(len(held))
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
	r.samplesAre("ratelimiter_upstream_abandoned", clients)
	if n := r.drain(t.Context()); n != 0 {
		t.Errorf("%d connections were cut", n)
	}
	r.abandoned(0)
}
