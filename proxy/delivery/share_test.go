package delivery

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/wire"
)

// Rules whose targets do not answer leave places to others, however much they have stored.
func TestRulesShareWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	d, _ := dispatcher(t)
	dead := []string{"dead0", "dead1", "dead2"}
	for i := range underWayMax + 50 {
		for _, rule := range dead {
			d.stock(t, rule, fmt.Sprint(i))
		}
	}
	alive := make(chan *wire.Delivery, 100)
	d.Start(func(w *wire.Delivery) {
		if w.Fate.GoesOn(); bytes.HasPrefix(w.Request, []byte("PUT")) {
			alive <- w
		}
	})
	testkit.Eventually(t, "deliveries are under way", func() bool { return d.busyWith("") >= underWayMax/2 })
	for i := range 50 {
		d.stockAs(t, "PUT", "alive", fmt.Sprint(i))
		testkit.Receive(t, alive, "the delivery of a rule whose target answers").Done(time.Now(), &wire.Delivered{Refused: true, After: time.Hour})
	}
	for _, rule := range dead {
		if d.busyWith(rule) == 0 {
			t.Errorf("nothing of %s is under way", rule)
		}
	}
	if n := d.busyWith(""); n > underWayMax {
		t.Errorf("%d are under way", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = d.Close(ctx)
}

// busyWith is how many deliveries of a rule are under way; of all rules without one.
func (d *Dispatcher) busyWith(rule string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rule == "" {
		return len(d.underWay)
	}
	return d.busy[rule]
}
