package delivery

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/wire"
)

// Rules whose targets do not answer leave places to others, however much they have stored.
func TestRulesShareWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	d, _ := dispatcher(t)
	dead := []string{"dead0", "dead1", "dead2"}
	for i := range underWayMax + 50 {
		for _, rule := range dead {
			d.stockFrom(t, rateClient(i).Addr(),
				deferred.Entry{Rule: rule, LineKey: fmt.Sprint(i), Head: []byte("POST / HTTP/1.1\r\n")})
		}
	}
	alive := make(chan *wire.Delivery, 100)
	d.Start(func(w *wire.Delivery) {
		if w.SendState.Commit(); bytes.HasPrefix(w.Request, []byte("PUT")) {
			alive <- w
		}
	})
	testkit.Eventually(t, "deliveries are under way", func() bool { return d.busyWith("") >= underWayMax/2 })
	for i := range 50 {
		d.stockFrom(t, rateClient(1000+i).Addr(), deferred.Entry{Rule: "alive", LineKey: fmt.Sprint(i),
			Head: []byte("PUT / HTTP/1.1\r\n")})
		testkit.Receive(t, alive, "the delivery of a rule whose target answers").Done(time.Now(),
			&wire.DeliveryResult{Refused: true, After: time.Hour})
	}
	for _, rule := range dead {
		if d.busyWith(rule) == 0 {
			t.Errorf("nothing of %s is under way", rule)
		}
	}
	if n := d.busyWith(""); n > underWayMax {
		t.Errorf("%d are under way", n)
	}
	d.stops(t)
}

// A client with many requests under different keys, of which the target answers none, leaves places to
// other clients of the same rule, also if their requests are not answered either.
func TestClientsShareWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	d, _ := dispatcher(t)
	for i := range 400 {
		d.stock(t, "orders", fmt.Sprint(i))
	}
	others := make(chan *wire.Delivery, 100)
	d.Start(func(w *wire.Delivery) {
		if w.SendState.Commit(); w.Remote != netip.MustParseAddr("10.0.0.1") {
			others <- w
		}
	})
	testkit.Eventually(t, "the client has its share", func() bool { return d.busyWith("orders") >= underWayMax/4 })
	for i := range 20 {
		head := []byte("POST / HTTP/1.1\r\nHost: x\r\n")
		d.stockFrom(t, rateClient(1000+i).Addr(), deferred.Entry{Rule: "orders", LineKey: fmt.Sprint("other", i), Head: head})
		testkit.Receive(t, others, "the delivery of another client")
	}
	d.stops(t)
}

// busyWith is how many deliveries of a rule are under way; of all rules without one.
func (d *Dispatcher) busyWith(rule string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rule == "" {
		return len(d.underWay)
	}
	if held := d.places.by[rule]; held != nil {
		return int(held.Total())
	}
	return 0
}
