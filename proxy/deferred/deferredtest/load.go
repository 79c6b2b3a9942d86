package deferredtest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
)

// A Flood puts entries, and notes which were accepted, until it is stopped. Half of them have keys.
//
// Safe for concurrent use: mu guards accepted.
type Flood struct {
	Unstored atomic.Int64

	t        testing.TB
	q        deferred.Queue
	mu       sync.Mutex
	accepted map[deferred.ID]bool
	stopping chan struct{}
	all      sync.WaitGroup
}

// FloodClients is how many puts of a flood are under way at most.
const FloodClients = 8

// StartFlood starts a flood of several clients.
func StartFlood(t testing.TB, q deferred.Queue) *Flood {
	f := &Flood{t: t, q: q, accepted: make(map[deferred.ID]bool), stopping: make(chan struct{})}
	for i := range FloodClients {
		f.all.Go(func() { f.put(fmt.Sprint("shop", i%3), i%2 == 0) })
	}
	return f
}

func (f *Flood) put(line string, keyed bool) {
	for {
		select {
		case <-f.stopping:
			return
		default:
		}
		e := NewEntry(line)
		if keyed {
			e = WithKey(e)
		}
		switch s := Put(f.q, e); s.Outcome {
		case deferred.Accepted:
			f.mu.Lock()
			f.accepted[e.ID] = true
			f.mu.Unlock()
		case deferred.Unstored:
			f.Unstored.Add(1)
			time.Sleep(time.Millisecond) // clients wait before they try again
		default:
			f.t.Errorf("%s, bound %s", s.Outcome, s.Bound)
			return
		}
	}
}

// RequireGrowth waits until more are accepted.
func (f *Flood) RequireGrowth() {
	f.t.Helper()
	n := f.count()
	testkit.Eventually(f.t, "entries are accepted", func() bool { return f.count() > n+50 })
}

func (f *Flood) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.accepted)
}

// Stop ends the flood, wants all that was accepted to be in its line, and returns how many that are.
func (f *Flood) Stop() int {
	f.t.Helper()
	close(f.stopping)
	f.all.Wait()
	for id := range f.accepted {
		if e, _, err := f.q.Read(f.t.Context(), id); err != nil || e.State.Final() {
			f.t.Errorf("%s was accepted, and then: %v", id, err)
		}
	}
	return len(f.accepted)
}

// PutsDuringOutage wants all puts to be answered Unstored when the store leaves, also those that wait
// for one that the store does not answer; and none of them to be stored when it is back.
func PutsDuringOutage(t *testing.T, q deferred.Queue, leave, back func()) {
	t.Helper()
	var entries []deferred.Entry
	for i := range 3000 { // more than any queue writes at a time
		entries = append(entries, WithKey(NewEntry(fmt.Sprint("shop", i))))
	}
	leave()
	stored := PutAll(q, entries...)
	for range entries {
		if s := testkit.Receive(t, stored, "the end of a put while the store is away"); s.Outcome != deferred.Unstored ||
			s.Err == nil {
			t.Fatalf("put while the store is away: %s, %v", s.Outcome, s.Err)
		}
	}
	back()
	e := entries[len(entries)-1] // its client tries again
	testkit.Eventually(t, "an entry is accepted", func() bool { return Put(q, e).Outcome == deferred.Accepted })
	page, err := q.List(t.Context(), deferred.Query{Limit: 10})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].ID != e.ID {
		t.Errorf("%d are listed, want the one that was accepted: %v", len(page.Entries), err)
	}
}

// deliveries is what targets saw of several proxies.
//
// Safe for concurrent use: mu guards all.
type deliveries struct {
	mu       sync.Mutex
	underWay map[string]bool // lines
	orders   map[string][]deferred.ID
	n        int

	proxies, begun int // how many there are, and have claimed something
}

// deliver is one proxy that claims and settles until so many are delivered by all. It returns how
// many were its own.
func (d *deliveries) deliver(t testing.TB, q deferred.Queue, n int) (own int) {
	for {
		d.mu.Lock()
		enough := d.n >= n
		d.mu.Unlock()
		if enough || t.Failed() {
			return own
		}
		claimed, _, err := q.Claim(t.Context(), time.Now(), 4)
		if err != nil {
			t.Error(err)
			return own
		}
		if len(claimed) > 0 && own == 0 {
			d.mu.Lock()
			d.begun++
			d.mu.Unlock()
		}
		own += len(claimed)
		for _, c := range claimed {
			d.sent(t, c.Entry)
			q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: deferred.Done, Attempt: true, Keep: time.Hour,
				Done: func(err error) {
					if err != nil {
						t.Errorf("settled under its lease: %v", err)
					}
				}})
		}
		if own > 0 { // and does not deliver everything while the others are not there yet
			testkit.Eventually(t, "all proxies claim", func() bool {
				d.mu.Lock()
				defer d.mu.Unlock()
				return d.begun == d.proxies || t.Failed()
			})
		}
	}
}

// sent notes a delivery, during which no other of its line may begin: the queue lets the next one
// be claimed when this one is settled.
func (d *deliveries) sent(t testing.TB, e *deferred.Entry) {
	d.mu.Lock()
	if d.underWay[e.LineKey] {
		t.Errorf("two of line %s are delivered at a time", e.LineKey)
	}
	d.underWay[e.LineKey] = true
	d.mu.Unlock()
	time.Sleep(time.Millisecond) // of the target
	d.mu.Lock()
	defer d.mu.Unlock()
	d.underWay[e.LineKey] = false
	d.orders[e.LineKey] = append(d.orders[e.LineKey], e.ID)
	d.n++
}

// SeveralProxies wants each entry of a queue that several proxies use to be delivered by one of
// them, in the order of its line, while all of them store.
func SeveralProxies(t *testing.T, queues ...deferred.Queue) {
	t.Helper()
	const shops, each = 4, 30
	d := &deliveries{underWay: make(map[string]bool), orders: make(map[string][]deferred.ID), proxies: len(queues)}
	var all sync.WaitGroup
	var want [shops][]deferred.ID
	for i := range shops {
		all.Go(func() {
			for n := range each {
				e := NewEntry(fmt.Sprint("shop", i))
				if got := Put(queues[n%len(queues)], e); got.Outcome != deferred.Accepted {
					t.Errorf("%s, %v", got.Outcome, got.Err)
				}
				want[i] = append(want[i], e.ID)
			}
		})
	}
	own := make([]int, len(queues))
	for i, q := range queues {
		all.Go(func() { own[i] = d.deliver(t, q, shops*each) })
	}
	all.Wait()
	for i := range shops {
		if got := d.orders[fmt.Sprint("shop", i)]; !slices.Equal(got, want[i]) {
			t.Errorf("shop %d was delivered %d entries, or in another order than %d were accepted", i, len(got), len(want[i]))
		}
	}
	if slices.Contains(own, shops*each) {
		t.Error("one proxy has delivered all")
	}
}
