package deferredtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
)

// A Storage is where a queue is stored.
type Storage interface {
	// Open opens the queue, also after it was closed or has crashed. clock is the time in the test.
	Open(t testing.TB, clock func() time.Time, limits deferred.Limits) deferred.Queue
	// Crash ends a queue so that it writes nothing more.
	Crash(t testing.TB, q deferred.Queue)
	// Reopens reports whether the queue belongs to the process that has opened it: then opening it
	// again takes back the entries that were being delivered, and leases do not expire. Otherwise
	// leases expire.
	Reopens() bool
}

// A world is one queue with a clock.
type world struct {
	t      *testing.T
	ctx    context.Context
	place  Storage
	limits deferred.Limits
	q      deferred.Queue
	now    time.Time
	clock  atomic.Pointer[time.Time] // now, for goroutines of the queue
	serial int
}

// start is the time at which worlds begin.
var start = time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)

// roomy are limits that most tests do not reach.
var roomy = deferred.Limits{Entries: 100_000, Bytes: 1 << 30, Share: 1, DeadKeep: 168 * time.Hour}

func newWorld(t *testing.T, place Storage, limits deferred.Limits) *world {
	w := &world{t: t, ctx: t.Context(), place: place, limits: limits}
	w.set(start)
	w.open()
	t.Cleanup(func() { _ = w.q.Close() })
	return w
}

func (w *world) open() {
	w.q = w.place.Open(w.t, func() time.Time { return *w.clock.Load() }, w.limits)
}

// again closes the queue, or makes it crash, and opens it again.
func (w *world) again(crash bool) {
	w.t.Helper()
	if crash {
		w.place.Crash(w.t, w.q)
	} else if err := w.q.Close(); err != nil {
		w.t.Fatalf("close: %v", err)
	}
	w.open()
}

func (w *world) pass(d time.Duration) { w.set(w.now.Add(d)) }

func (w *world) set(now time.Time) {
	w.now = now
	w.clock.Store(&now)
}

// entry returns a new entry of a line.
func (w *world) entry(line string) deferred.Entry {
	w.serial++
	e := deferred.Entry{
		Rule: "orders", LineKey: line, Parallel: 1, Accepted: w.now, Due: w.now, Expires: w.now.Add(time.Hour),
		Remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(w.serial >> 8), byte(w.serial)}), 4711),
		Head:   []byte("POST /orders HTTP/1.1\r\nHost: x\r\n\r\n"), Body: fmt.Appendf(nil, "order %d", w.serial),
	}
	binary.BigEndian.PutUint64(e.ID[:], 0x9e3779b97f4a7c15*uint64(w.serial))
	binary.BigEndian.PutUint64(e.ID[8:], uint64(w.serial))
	return e
}

// keyed returns the entry with a scope and a fingerprint.
func keyed(e deferred.Entry, scope, print byte) deferred.Entry {
	e.Scope, e.Fingerprint = deferred.SHA256{scope, 1}, deferred.SHA256{print, 2}
	return e
}

// put puts an entry and returns the result.
func (w *world) put(e deferred.Entry, perKey int) deferred.PutResult {
	w.t.Helper()
	return testkit.Receive(w.t, w.putting(e, perKey), "the end of a put")
}

func (w *world) putting(e deferred.Entry, perKey int) <-chan deferred.PutResult {
	stored := make(chan deferred.PutResult, 1)
	w.q.Put(w.now, &deferred.PutRequest{Entry: e, PerKey: perKey, Done: func(s deferred.PutResult) { stored <- s }})
	return stored
}

// accept puts a new entry, which must be accepted.
func (w *world) accept(e deferred.Entry) deferred.ID {
	w.t.Helper()
	if s := w.put(e, 0); s.Outcome != deferred.Accepted || s.ID != e.ID || s.Durability == "" {
		w.t.Fatalf("put %s: %s %s, durability %q, bound %s, %v", e.ID, s.Outcome, s.ID, s.Durability, s.Bound, s.Err)
	}
	return e.ID
}

func (w *world) claim(n int) []deferred.ClaimedEntry {
	w.t.Helper()
	claimed, _, err := w.q.Claim(w.ctx, w.now, n)
	if err != nil {
		w.t.Fatalf("claim: %v", err)
	}
	for _, c := range claimed {
		if c.Entry.State != deferred.Delivering || c.Lease.ID != c.Entry.ID {
			w.t.Fatalf("claimed %+v as %s", c.Lease, c.Entry.State)
		}
	}
	return claimed
}

// claims expects that exactly these entries are claimed, in any order of lines.
func (w *world) claims(want ...deferred.ID) map[deferred.ID]deferred.ClaimedEntry {
	w.t.Helper()
	got := make(map[deferred.ID]deferred.ClaimedEntry)
	for _, c := range w.claim(len(want) + 10) {
		got[c.Entry.ID] = c
	}
	for _, id := range want {
		if _, ok := got[id]; !ok {
			w.t.Fatalf("%s is not claimed", id)
		}
	}
	if len(got) != len(want) {
		w.t.Fatalf("%d entries are claimed, not %d", len(got), len(want))
	}
	return got
}

func (w *world) settle(s deferred.Settlement) error {
	w.t.Helper()
	done := make(chan error, 1)
	s.Done = func(err error) { done <- err }
	w.q.Settle(w.now, &s)
	return testkit.Receive(w.t, done, "the end of a settlement")
}

// settled expects a settlement to succeed.
func (w *world) settled(s deferred.Settlement) {
	w.t.Helper()
	if err := w.settle(s); err != nil {
		w.t.Fatalf("settle %s as %s: %v", s.Lease.ID, s.To, err)
	}
}

// read expects an entry to be in a state.
func (w *world) read(id deferred.ID, want deferred.State) (*deferred.Entry, int) {
	w.t.Helper()
	e, position, err := w.q.Read(w.ctx, id)
	if err != nil {
		w.t.Fatalf("read %s, which should be %s: %v", id, want, err)
	}
	if e.State != want || e.ID != id {
		w.t.Fatalf("%s is %s, not %s", e.ID, e.State, want)
	}
	return e, position
}

// edit edits one entry.
func (w *world) edit(action deferred.Action, id deferred.ID) error {
	_, err := w.q.Edit(w.ctx, w.now, deferred.Edit{Action: action, ID: id})
	return err
}

// list returns all entries in a state, page by page.
func (w *world) list(state deferred.State, limit int) (all []*deferred.Entry) {
	w.t.Helper()
	q := deferred.Query{State: state, Limit: limit}
	for {
		page, err := w.q.List(w.ctx, q)
		if err != nil {
			w.t.Fatalf("list: %v", err)
		}
		if len(page.Entries) > limit {
			w.t.Fatalf("%d entries on a page of %d", len(page.Entries), limit)
		}
		all = append(all, page.Entries...)
		if page.Next == "" {
			return all
		}
		q.After = page.Next
	}
}

// counts returns the number of entries in each state according to Stats.
func (w *world) counts() (n [deferred.StateCount]int) {
	for _, r := range w.q.Stats().Rules {
		for s, c := range r.States {
			n[s] += c.Entries
		}
	}
	return n
}

// atOnce calls f n times in parallel.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
