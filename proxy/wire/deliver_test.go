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
	"weir/proxy/targets/upstream"
)

// delivering is holding for a proxy that delivers, with one place, for which requests wait for a while.
func delivering(t *testing.T, wait time.Duration, env ...string) *rig {
	return holding(t, func(c *Config) {
		gatedFor(gate.On, wait)(c)
		delivers(c)
	}, env...)
}

// delivers makes deliveries possible.
func delivers(c *Config) {
	c.Defer = func(time.Time, *exchange.DeferredRequest, *exchange.ClientInfo, func(deferred.PutResult)) {}
}

// deliver delivers a request of a transcript, which is sent at most once or not. The channel has what
// comes of it.
func (r *rig) deliver(asked string, once bool) (*Delivery, chan *DeliveryResult) {
	r.t.Helper()
	told := make(chan *DeliveryResult, 1)
	d := &Delivery{Request: []byte(r.request(words(asked)).text), Remote: netip.MustParseAddr("10.0.0.1"),
		BytesMax: 1 << 10, Once: once, Done: func(_ time.Time, d *DeliveryResult) { told <- d }}
	r.Deliver(d)
	return d, told
}

// ends waits for the end of a delivery, which is "refused" by the proxy for at least so long,
// "unanswered" by the target, or the target's status.
func (r *rig) ends(told chan *DeliveryResult, want string, after ...time.Duration) {
	r.t.Helper()
	d, got := testkit.Receive(r.t, told, "the end of a delivery"), ""
	switch least := append(after, 1)[0]; {
	case d.Refused && !d.Sent && d.Fault == "" && d.After >= least:
		got = "refused"
	case !d.Refused && d.Sent && d.Fault != "":
		got = "unanswered"
	case !d.Refused && d.Sent:
		got = fmt.Sprint(d.Result.Status)
	}
	if got != want {
		r.t.Errorf("a delivery ends as %+v, want %s", d, want)
	}
}

// A delivery that a gate sheds is no attempt, and may be made again.
func TestGateShedsDelivery(t *testing.T) {
	r := delivering(t, 5*time.Millisecond)
	_, told := r.deliver(`GET /later`, false)
	r.ends(told, "refused")
	r.playf(`metrics gate_shed_total%s=1; target answers; held -> 200`,
		r.Targets.Labels(r.Targets.All()[0], "class", "deferred"))
	_, told = r.deliver(`GET /later`, false)
	r.ends(told, "200")
	if sum := r.Traffic(); sum.Delivered != 1 || sum.Admitted != 1 || sum.Denied != 0 || sum.Ended != 2 {
		t.Errorf("counted %+v", sum)
	}
}

// Neither is one that is shed when all but its last piece was sent.
func TestGateShedsLargeDelivery(t *testing.T) {
	r := delivering(t, 5*time.Millisecond, "BODY_BUFFER_BYTES", "1KiB")
	_, told := r.deliver(longKinds["uploads"], true)
	r.ends(told, "refused")
	r.play(`target answers; held -> 200`)
}

// A delivery that was withdrawn while it waited sends nothing, and leaves its place to the next.
func TestDeliveryWithdrawn(t *testing.T) {
	r := delivering(t, time.Minute)
	d, told := r.deliver(`GET /withdrawn`, false)
	r.play(`waiting 2`)
	equal(t, "it is withdrawn", d.SendState.Withdraw(), true)
	r.play(`target answers; held -> 200; held GET / -> 200; target gets /`)
	equal(t, "ends of a delivery that was withdrawn", len(told), 0)
}

// A delivery is served after all live requests that wait, whatever their priority class, and as
// soon as none does.
func TestDeliveryRanksLast(t *testing.T) {
	classes := ""
	for n := range 2 * upstream.PriorityLevels {
		classes += fmt.Sprintf("c%d: %.2f, ", n, float64(n)/100)
	}
	rules := ruleFile(t, fmt.Sprintf(
		`rules: [{id: all, key: [ip], limit: {algorithm: "off"}, priority: {header: X-Id, classes: {%s}, default: c%d}}]`,
		strings.TrimSuffix(classes, ", "), 2*upstream.PriorityLevels-1))
	r := delivering(t, time.Minute, "RULES_FILE", rules)
	_, told := r.deliver(`GET /later`, false)
	r.play(`
		waiting 2; a GET /live; waiting 3; b GET /live; waiting 4
		target answers; target gets /live /live /later; held,a,b -> 200`)
	r.ends(told, "200")
}

// What is sent again on a new connection, because an idle one turns out to be closed, are live
// requests only: no stored one reaches the target twice unknown to its dispatcher.
func TestDeliveryIsSentOnce(t *testing.T) {
	r := serveWith(t, delivers, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if c.at.asked <- s.target(); s.target() != "/before" {
				return // closes the connection
			}
			c.echo(s)
		}
	}, "EVENT_LOOPS", "1")
	r.play(`GET /before -> 200`)
	_, told := r.deliver(`DELETE /later`, false)
	r.ends(told, "unanswered")
	r.play(`target gets /before /later; target gets nothing`)
}

// What must not be sent twice is not sent on a connection that has served before, neither an idle one
// nor one that another request leaves: the target may be closing it. The new one takes its place.
func TestDeliveryOnceIsFresh(t *testing.T) {
	r := serveWith(t, delivers, func(c *targetConn) {
		if s := c.next(); s != nil {
			c.holds(s)
			c.next() // the connection is closed with the next request unread
		}
	}, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "1")
	r.play(`GET /before -> 200; target gets /before`)
	_, told := r.deliver(`GET /later`, true)
	r.ends(told, "200")
	r.play(`target open 1; target gets /later`)

	_, held := r.deliver(`GET /held`, true)
	r.play(`target gets /held`)
	_, told = r.deliver(`GET /later`, true)
	r.play(`waiting 2; target answers`)
	r.ends(held, "200")
	r.ends(told, "200")
	r.play(`target open 1; target opened 4`)
}

// A stored request is delivered although its head has more fields, or its body more bytes, than the proxy
// takes from clients: it may have been stored with other settings, and with fields of the proxy.
func TestDeliveryOfLargeRequests(t *testing.T) {
	for asked, setting := range map[string][]string{
		`POST /later Content-Length=0` + strings.Repeat(" X-A=b", 30): {"FIELDS_MAX", "1"},
		`POST /later body*2048`: {"BODY_MAX_BYTES", "1KiB"},
	} {
		r := serveWith(t, delivers, echoes, setting...)
		_, told := r.deliver(asked, false)
		r.ends(told, "200")
	}
}

// A delivery that needs a place for streams and finds none is no attempt: nothing was sent. It is
// not repeated soon, because each time its limit is charged.
func TestDeliveryFindsNoStream(t *testing.T) {
	r := serveWith(t, delivers, loginTarget, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "2", "TARGET_STREAM_SHARE",
		"0.5", "BODY_BUFFER_BYTES", "1KiB")
	r.play(`alice GET / Authorization="Negotiate alice" -> 200; until upstream_streams=1`)
	for _, asked := range []string{`POST /later body*2048`, `GET /later Authorization="Negotiate bob"`} {
		_, told := r.deliver(asked, false)
		r.ends(told, "refused", streamsFor)
	}
}
