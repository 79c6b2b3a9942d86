package postgres

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres/postgrestest"
)

// deliveries is what targets saw of several proxies.
type deliveries struct {
	mu       sync.Mutex
	underWay map[string]bool // lines
	orders   map[string][]string
	n        int
}

// deliver is one proxy that claims and settles until so many are delivered by all.
func (d *deliveries) deliver(t *testing.T, q *Queue, n int) {
	for {
		d.mu.Lock()
		enough := d.n >= n
		d.mu.Unlock()
		if enough || t.Failed() {
			return
		}
		claimed, _, err := q.Claim(t.Context(), time.Now(), 4)
		if err != nil {
			t.Error(err)
			return
		}
		for _, c := range claimed {
			d.sent(t, c.Entry)
			q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: deferred.Done, Attempt: true, Keep: time.Hour, Done: func(err error) {
				if err != nil {
					t.Errorf("settled under its lease: %v", err)
				}
			}})
		}
	}
}

// sent notes a delivery, during which no other of its line may begin: the queue lets the next one
// be claimed when this one is settled.
func (d *deliveries) sent(t *testing.T, e *deferred.Entry) {
	d.mu.Lock()
	if d.underWay[e.Line] {
		t.Errorf("two of line %s are delivered at a time", e.Line)
	}
	d.underWay[e.Line] = true
	d.mu.Unlock()
	time.Sleep(time.Millisecond) // of the target
	d.mu.Lock()
	defer d.mu.Unlock()
	d.underWay[e.Line] = false
	d.orders[e.Line] = append(d.orders[e.Line], e.ID.String())
	d.n++
}

// Of several proxies with one queue each entry is delivered by one, in the order of its line,
// while all of them store.
func TestSeveralProxies(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	const proxies, shops, each = 3, 4, 30
	d := &deliveries{underWay: make(map[string]bool), orders: make(map[string][]string)}
	var queues []*Queue
	for range proxies {
		queues = append(queues, openQueue(t, Config{URL: s.URL("weir", "weir"), silence: postgrestest.Patience}))
	}
	var all sync.WaitGroup
	want := make([][]string, shops)
	for i := range shops {
		all.Go(func() {
			for n := range each {
				e := deferredtest.Order(fmt.Sprint("shop", i))
				if got := testkit.Receive(t, deferredtest.PutAll(queues[n%proxies], e), "the end of a put"); got.Outcome != deferred.Accepted {
					t.Errorf("%s, %v", got.Outcome, got.Err)
				}
				want[i] = append(want[i], e.ID.String())
			}
		})
	}
	for _, q := range queues {
		all.Go(func() { d.deliver(t, q, shops*each) })
	}
	all.Wait()
	for i := range shops {
		if got := d.orders[fmt.Sprint("shop", i)]; !slices.Equal(got, want[i]) {
			t.Errorf("shop %d was delivered %d entries, or in another order than %d were accepted", i, len(got), len(want[i]))
		}
	}
}

// What a proxy has claimed that was killed is delivered by another when its leases have passed.
func TestProxyKilled(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	cfg := Config{URL: s.URL("weir", "weir"), callersClock: true, silence: postgrestest.Patience}
	killed, other := openQueue(t, cfg), openQueue(t, cfg)
	first, second := deferredtest.Order("shop"), deferredtest.Order("shop")
	first.Scope, first.Fingerprint = deferred.Hash{1}, deferred.Hash{1} // it may be sent again
	for _, e := range []deferred.Entry{first, second} {
		testkit.Receive(t, deferredtest.PutAll(killed, e), "the end of a put")
	}
	now := time.Now().Add(time.Second)
	claims := func(q *Queue, now time.Time) deferred.ID {
		t.Helper()
		claimed, _, err := q.Claim(t.Context(), now, 10)
		if err != nil || len(claimed) > 1 {
			t.Fatalf("%d claimed, %v", len(claimed), err)
		}
		if len(claimed) == 0 {
			return deferred.ID{}
		}
		return claimed[0].Entry.ID
	}
	if got := claims(killed, now); got != first.ID {
		t.Fatalf("claimed %s, want %s", got, first.ID)
	}
	killed.disconnect()
	if got := claims(other, now.Add(deferred.LeaseFor-time.Microsecond)); got != (deferred.ID{}) {
		t.Errorf("%s is claimed before the lease has passed", got)
	}
	if got := claims(other, now.Add(deferred.LeaseFor)); got != first.ID {
		t.Errorf("claimed %s after the lease has passed, want %s", got, first.ID)
	}
}
