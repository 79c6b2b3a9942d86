package delivery

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/share"
	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
	"weir/proxy/rules/rule"
	"weir/proxy/wire"
)

func rateClient(i int) share.Client {
	return share.ClientOf(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
}

// A rate gives no more permits within any second than it has, one client gets half of them, and what
// was taken is available again when a second has passed, also after the clock was set.
func TestRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	r := rate{perSecond: 60}
	takes := func(c, n int) (taken int) {
		for range n {
			if _, ok := r.take(now, rateClient(c)); ok {
				taken++
			}
		}
		return taken
	}
	check := func(when string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d are taken, want %d", when, got, want)
		}
	}
	check("alone", takes(1, 100), 30)
	check("beside another", takes(2, 15), 15)
	for i := range 15 {
		check("each other", takes(3+i, 1), 1)
	}
	check("beyond", takes(100, 1), 0)
	now = now.Add(time.Second)
	check("a second later, within the last slot", takes(1, 1), 0)
	now = now.Add(rateSlot)
	check("later", takes(1, 100), 30)
	now = now.Add(-24 * time.Hour)
	check("after the clock was set back", takes(1, 100), 30)
	now = now.Add(24 * time.Hour)
	check("after it was set forward", takes(1, 100), 30)
	now = now.Add(-500 * time.Millisecond)
	check("a little earlier", takes(2, 100), 15)

	now = now.Add(time.Hour)
	slot, _ := r.take(now, rateClient(1))
	r.giveBack(slot, rateClient(1))
	r.giveBack(slot, rateClient(1)) // has no effect
	if r.held.Total() != 0 {
		t.Errorf("%d permits are held when all are given back", r.held.Total())
	}
	_, _ = r.take(now, rateClient(1))
	now = now.Add(time.Duration(rateSlots-1) * rateSlot)
	r.advance(now.UnixNano() / int64(rateSlot))
	if r.giveBack(slot, rateClient(1)); r.held.Total() != 0 {
		t.Errorf("%d permits are held when the last is given back just before it expires", r.held.Total())
	}
	now = now.Add(rateSlot) // the slot is that of later permits
	check("after the permit has expired", takes(1, 1), 1)
	if r.giveBack(slot, rateClient(1)); r.held.Total() != 1 {
		t.Errorf("%d permits are held after one that has expired is given back, want 1", r.held.Total())
	}
	later, _ := r.take(now, rateClient(1))
	now = now.Add(-time.Duration(rateSlots) * rateSlot * 10)
	check("after the clock was set back again", takes(1, 1), 1)
	if r.giveBack(later, rateClient(1)); r.held.Total() != 1 {
		t.Errorf("%d permits are held after one of before is given back, want 1", r.held.Total())
	}
}

// A client whose requests are refused by another bound takes nothing from others, and the queue sees
// only a part of them.
func TestRateOfRefused(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	in := newIntake(60)
	passed := 0
	for range 1000 {
		if ended, ok := in.admit(now, rateClient(1)); ok {
			passed++
			ended(deferred.Full)
		}
	}
	if passed != 60 {
		t.Errorf("%d refused requests of a client are passed to the queue, want 60", passed)
	}
	stored := 0
	for i := range 60 {
		if ended, ok := in.admit(now, rateClient(2+i)); ok {
			stored++
			ended(deferred.Accepted)
		}
	}
	if stored != 60 {
		t.Errorf("%d requests of others are stored, want 60", stored)
	}
	if _, ok := in.admit(now, rateClient(100)); ok {
		t.Error("more are stored than DEFER_RATE")
	}
}

// A client whose requests the queue refuses leaves others all of DEFER_RATE.
func TestRefusedTakeNoRate(t *testing.T) {
	t.Parallel()
	d, _ := dispatcher(t)
	defer func() { _ = d.Close(t.Context()) }()
	d.intake = newIntake(60)
	now, orders := time.Now(), perKeyOne(t)
	send := func(addr, line string) deferred.PutResult {
		t.Helper()
		return d.accepts(t, now, &exchange.DeferredRequest{Rule: orders, Line: []byte(line),
			Client: netip.MustParseAddr(addr), RetryAfter: time.Hour})
	}
	for i := range 500 {
		if s := send("10.0.0.1", "a"); i > 0 && s.Outcome != deferred.Full {
			t.Fatalf("beyond perKey: %s", s.Outcome)
		}
	}
	for i := range 59 {
		addr := fmt.Sprintf("10.0.1.%d", i)
		if s := send(addr, addr); s.Outcome != deferred.Accepted {
			t.Fatalf("request %d of others: %s, %s", i, s.Outcome, s.Bound)
		}
	}
	if s := send("10.0.2.1", "b"); s.Outcome != deferred.Full || s.Bound != deferred.BoundRate {
		t.Errorf("beyond DEFER_RATE: %s, %s", s.Outcome, s.Bound)
	}
}

// perKeyOne returns a rule of which each key may have one stored request.
func perKeyOne(t *testing.T) *rule.Rule {
	t.Helper()
	return policy(t, "rules:\n- {id: orders, key: [\"header:X-Shop\"], "+
		"limit: {algorithm: fixed, limit: 1, window: 1}, defer: {perKey: 1}}\n").Rules.Rule(0)
}

// postRequest returns a request without fields and a body.
func postRequest() *exchange.Request {
	r := exchange.NewRequest(&http1.Head{MethodText: []byte("POST"), Target: []byte("/"), Host: []byte("x"), Length: -1})
	return &r
}

// accepts stores a request without fields and a body, and returns the result.
func (d *Dispatcher) accepts(t *testing.T, now time.Time, k *exchange.DeferredRequest) deferred.PutResult {
	t.Helper()
	k.Request = postRequest()
	stored := make(chan deferred.PutResult, 1)
	d.Accept(now, k, &exchange.ClientInfo{}, func(s deferred.PutResult) { stored <- s })
	return testkit.Receive(t, stored, "the result of storing")
}

// A request that is sent again after it was delivered gets the target's answer. When the queue is
// closed, it gets none.
func TestRepeat(t *testing.T) {
	t.Parallel()
	d, _ := dispatcher(t)
	orders := perKeyOne(t)
	send := func() deferred.PutResult {
		t.Helper()
		return d.accepts(t, time.Now(), &exchange.DeferredRequest{Rule: orders, Line: []byte("a"),
			Client:  netip.MustParseAddr("10.0.0.1"),
			Options: deferred.Options{Key: []byte("k")}})
	}
	d.Start(func(w *wire.Delivery) {
		w.SendState.Commit()
		w.Done(time.Now(), &wire.DeliveryResult{Sent: true, Result: deferred.Result{Status: 201, Head: []byte("X-A: b\r\n"),
			Body: []byte("made"), Bytes: 4}})
	})
	first := send()
	var s deferred.PutResult
	testkit.Eventually(t, "it is delivered", func() bool { s = send(); return s.State == deferred.Done })
	if s.Outcome != deferred.Duplicate || s.ID != first.ID || s.Result == nil || s.Result.Status != 201 ||
		string(s.Result.Body) != "made" {
		t.Errorf("%s of %s, with the answer %+v", s.Outcome, s.ID, s.Result)
	}
	q := d.opened()
	d.closes(t)
	answered := false
	d.repeat(q, s, func(deferred.PutResult) { answered = true })
	if !answered {
		t.Error("after the end nobody is answered")
	}
}
