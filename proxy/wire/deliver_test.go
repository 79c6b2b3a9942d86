package wire

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/upstream"
)

// delivering is withGate for a proxy that delivers.
func delivering(t *testing.T, wait time.Duration, env ...string) (*rig, *barrier, *testkit.Conn) {
	return holding(t, func(c *Config) {
		c.Gate = gates.Settings{Mode: gate.On, Wait: wait, Min: 1, Max: 1}
		delivers(c)
	}, env...)
}

// delivers makes deliveries possible.
func delivers(c *Config) {
	c.Defer = func(time.Time, *exchange.DeferredRequest, *exchange.Peer, func(deferred.Stored)) {}
}

// delivery is one of a request that is stored, and what comes of it.
func delivery(path string) (*Delivery, chan *Delivered) {
	told := make(chan *Delivered, 1)
	return &Delivery{Request: []byte(request(path)), Remote: netip.MustParseAddr("10.0.0.1"), BytesMax: 1 << 10,
		Done: func(_ time.Time, d *Delivered) { told <- d }}, told
}

// A delivery that a gate sheds is no attempt, and may be made again.
func TestGateShedsDelivery(t *testing.T) {
	r, b, held := delivering(t, 5*time.Millisecond)
	d, told := delivery("/later")
	r.Deliver(d)
	if got := testkit.Receive(t, told, "the end of a delivery"); !got.Refused || got.Sent || got.After <= 0 ||
		got.Fault != "" {
		t.Errorf("a delivery that was shed: %+v", got)
	}
	gate := "ratelimiter_gate_shed_total" + r.Targets.Labels(r.Targets.All()[0], "class", "deferred")
	r.samplesAre(gate, 1)
	b.open <- true
	held.Status(200)
	again, told := delivery("/later")
	r.Deliver(again)
	if got := testkit.Receive(t, told, "the end of a delivery"); got.Refused || !got.Sent || got.Result.Status != 200 {
		t.Errorf("delivered again: %+v", got)
	}
	if sum := r.Traffic(); sum.Delivered != 1 || sum.Admitted != 1 || sum.Denied != 0 || sum.Ended != 2 {
		t.Errorf("counted %d delivered, %d admitted, %d denied, %d ended", sum.Delivered, sum.Admitted, sum.Denied, sum.Ended)
	}
}

// Neither is one that is shed when all but its last piece was sent.
func TestGateShedsLargeDelivery(t *testing.T) {
	r, b, held := delivering(t, 5*time.Millisecond, "BODY_BUFFER_BYTES", "1KiB")
	d, told := delivery("/later")
	d.Once, d.Request = true, []byte(longKinds["uploads"])
	r.Deliver(d)
	if got := testkit.Receive(t, told, "the end of a delivery"); !got.Refused || got.Sent || got.After <= 0 ||
		got.Fault != "" {
		t.Errorf("a delivery that was shed: %+v", got)
	}
	b.open <- true
	held.Status(200)
}

// A delivery that was withdrawn while it waited sends nothing, and leaves its place to the next.
func TestDeliveryWithdrawn(t *testing.T) {
	r, b, held := delivering(t, time.Minute)
	d, told := delivery("/withdrawn")
	r.Deliver(d)
	r.waiting(2)
	if !d.Fate.Withdraw() {
		t.Fatal("it went on")
	}
	b.open <- true
	held.Status(200)
	held.Ask(get, 200)
	if path := b.next(t); path != "/api" {
		t.Errorf("the target got %s", path)
	}
	if len(told) > 0 {
		t.Error("the end of a delivery was told that was withdrawn")
	}
}

// A delivery is served after all live requests that wait, whatever their priority class, and as
// soon as none does.
func TestDeliveryRanksLast(t *testing.T) {
	classes := ""
	for n := range 2 * upstream.Ranks {
		classes += fmt.Sprintf("c%d: %.2f, ", n, float64(n)/100)
	}
	rules := ruleFile(t, fmt.Sprintf(
		`rules: [{id: all, key: [ip], limit: {algorithm: "off"}, priority: {header: X-Priority, classes: {%s}, default: c%d}}]`,
		strings.TrimSuffix(classes, ", "), 2*upstream.Ranks-1))
	r, b, held := delivering(t, time.Minute, "RULES_FILE", rules)
	d, told := delivery("/later")
	r.Deliver(d)
	r.waiting(2)
	live := []*testkit.Conn{r.lineUp(2, request("/live")), r.lineUp(3, request("/live"))}
	b.open <- true
	for _, want := range []string{"/live", "/live", "/later"} {
		if got := b.next(t); got != want {
			t.Errorf("the target got %s, want %s", got, want)
		}
	}
	held.Status(200)
	for _, c := range live {
		c.Status(200)
	}
	if got := testkit.Receive(t, told, "the end of a delivery"); got.Refused || got.Result.Status != 200 {
		t.Errorf("a delivery that waited: %+v", got)
	}
}

// What is sent again on a new connection, because an idle one turns out to be closed, are live
// requests only: no stored one reaches the target twice unknown to its dispatcher.
func TestDeliveryIsSentOnce(t *testing.T) {
	asked := make(chan string, 100)
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			asked <- s.target()
			if s.target() != "/before" {
				return // closes the connection
			}
			c.echo(s)
		}
	})
	r := startWith(t, delivers, target.url(), "EVENT_LOOPS", "1")
	r.dial().Ask(request("/before"), 200)
	d, told := delivery("/later")
	d.Request = []byte("DELETE /later HTTP/1.1\r\nHost: x\r\n\r\n")
	r.Deliver(d)
	if got := testkit.Receive(t, told, "the end of a delivery"); !got.Sent || got.Fault == "" || got.Refused {
		t.Errorf("a delivery whose connection was closed: %+v", got)
	}
	<-asked
	if <-asked; len(asked) > 0 {
		t.Errorf("the target got it %d times", 1+len(asked))
	}
}

// What must not be sent twice is not sent on a connection that has served before, neither an idle one
// nor one that another request leaves: the target may be closing it. The new one takes its place.
func TestDeliveryOnceIsFresh(t *testing.T) {
	b := newBarrier()
	target := newTarget(t, func(c *targetConn) {
		s := c.next()
		if s == nil {
			return
		}
		b.asked <- s.target()
		if s.target() == "/held" {
			b.pass(c)
		}
		c.echo(s)
		c.next() // the connection is closed with the next request unread
	})
	r := startWith(t, delivers, target.url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "1")
	arrives := func(told chan *Delivered) {
		t.Helper()
		if got := testkit.Receive(t, told, "the end of a delivery"); got.Result.Status != 200 {
			t.Errorf("a delivery: %+v", got)
		}
	}
	r.dial().Ask(request("/before"), 200)
	d, told := delivery("/later")
	d.Once = true
	r.Deliver(d)
	arrives(told)
	r.until("the connection before is closed", func() bool { return target.open() == 1 })

	held := make(chan *Delivered, 1)
	first, _ := delivery("/held")
	first.Once, first.Done = true, func(_ time.Time, d *Delivered) { held <- d }
	r.Deliver(first)
	for b.next(t) != "/held" {
		continue
	}
	d, told = delivery("/later")
	d.Once = true
	r.Deliver(d)
	r.waiting(2)
	b.open <- true
	arrives(held)
	arrives(told)
	r.until("the connection before is closed", func() bool { return target.open() == 1 })
	if opened := target.opened.Load(); opened != 4 {
		t.Errorf("4 requests were sent over %d connections", opened)
	}
}

// A stored request is delivered although its head has more fields than the proxy takes from clients:
// it may have been stored with other settings, and with fields of the proxy.
func TestDeliveryOfLargeHead(t *testing.T) {
	r := startWith(t, delivers, newTarget(t, func(c *targetConn) { c.echo(c.next()) }).url(), "FIELDS_MAX", "1")
	d, told := delivery("/later")
	d.Request = []byte("POST /later HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: b\r\n", 30) +
		"Content-Length: 0\r\n\r\n")
	r.Deliver(d)
	if got := testkit.Receive(t, told, "the end of a delivery"); got.Result.Status != 200 {
		t.Errorf("a delivery: %+v", got)
	}
}

// A stored request is delivered although its body is larger than the proxy takes from clients by now.
func TestDeliveryOfLargeBody(t *testing.T) {
	r := startWith(t, delivers, newTarget(t, func(c *targetConn) { c.echo(c.next()) }).url(), "BODY_MAX_BYTES", "1KiB")
	d, told := delivery("/later")
	d.Request = []byte("POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 2048\r\n\r\n" + strings.Repeat("b", 2048))
	r.Deliver(d)
	if got := testkit.Receive(t, told, "the end of a delivery"); got.Result.Status != 200 {
		t.Errorf("a delivery: %+v", got)
	}
}

// A delivery that needs a place for streams and finds none is no attempt: nothing was sent. It is
// not repeated soon, because each time its limit is charged.
func TestDeliveryFindsNoStream(t *testing.T) {
	r := startWith(t, delivers, newTarget(t, loginTarget).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "2",
		"TARGET_STREAM_SHARE", "0.5",
		"BODY_BUFFER_BYTES", "1KiB")
	logIn(r.dial(), logins[0].steps, "alice")
	r.until("alice has a place", func() bool { return r.samples()["ratelimiter_upstream_streams"] == 1 })
	for name, request := range map[string]string{
		"a large body": "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 2048\r\n\r\n" + strings.Repeat("b", 2048),
		"a login":      login("Negotiate bob"),
	} {
		d, told := delivery("/later")
		d.Request = []byte(request)
		r.Deliver(d)
		if got := testkit.Receive(t, told, "the end of a delivery"); !got.Refused || got.Sent ||
			got.After < 15*time.Second || got.Fault != "" {
			t.Errorf("a delivery with %s: %+v", name, got)
		}
	}
}
