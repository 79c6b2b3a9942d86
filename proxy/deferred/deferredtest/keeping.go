package deferredtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
)

func same(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	first := keyed(w.entry("shop"), 1, 1)
	w.accept(first)
	check := func(when string, state deferred.State) {
		t.Helper()
		if s := w.put(keyed(w.entry("shop"), 1, 1), 0); s.Outcome != deferred.Duplicate || s.ID != first.ID ||
			s.State != state || s.Durability == "" {
			t.Fatalf("%s the same: %s of %s, %s", when, s.Outcome, s.ID, s.State)
		}
		if s := w.put(keyed(w.entry("shop"), 1, 2), 0); s.Outcome != deferred.Conflict || s.ID != first.ID {
			t.Fatalf("%s another body: %s", when, s.Outcome)
		}
	}
	check("waiting,", deferred.Waiting)
	w.again(true)
	check("after a crash,", deferred.Waiting)
	c := w.claims(first.ID)[first.ID]
	check("delivering,", deferred.Delivering)
	w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Done, Keep: time.Minute})
	check("done,", deferred.Done)
	w.again(false)
	check("closed,", deferred.Done)
	w.accept(keyed(w.entry("shop"), 2, 1)) // a different scope
	w.pass(time.Minute + time.Second)
	w.claim(10)
	w.accept(keyed(w.entry("shop"), 1, 2)) // it was deleted
}

// What is over and was never sent does not keep the same request from being stored. The new entry
// takes its place, and it cannot be retried beside that.
func storedAnew(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	put := func(want deferred.Outcome, id deferred.ID, state deferred.State) deferred.ID {
		t.Helper()
		e := keyed(w.entry("shop"), 1, 1)
		known, err := w.q.Known(w.ctx, e.Scope)
		if other, _ := w.q.Known(w.ctx, deferred.SHA256{9}); err != nil || other || known != (want == deferred.Duplicate) {
			t.Fatalf("before it is %s, it is known: %t, another: %t, %v", want, known, other, err)
		}
		s := w.put(e, 0)
		if id == (deferred.ID{}) {
			id = e.ID
		}
		if s.Outcome != want || s.ID != id || s.State != state {
			t.Fatalf("%s of %s, %s; want %s of %s, %s", s.Outcome, s.ID, s.State, want, id, state)
		}
		return s.ID
	}
	settle := func(id deferred.ID, s deferred.Settlement) {
		t.Helper()
		w.end(w.claims(id)[id], s)
	}
	cancelled := put(deferred.Accepted, deferred.ID{}, deferred.Waiting)
	if err := w.edit(deferred.Cancel, cancelled); err != nil {
		t.Fatal(err)
	}
	w.again(true)
	expired := put(deferred.Accepted, deferred.ID{}, deferred.Waiting)
	w.pass(time.Hour)
	settle(expired, deferred.Settlement{To: deferred.Expired})
	w.again(false)
	third := put(deferred.Accepted, deferred.ID{}, deferred.Waiting)
	if err := w.edit(deferred.Retry, expired); !errors.Is(err, deferred.ErrState) {
		t.Errorf("retry beside the entry that has taken its place: %v", err)
	}
	for _, id := range []deferred.ID{cancelled, expired} {
		if err := w.edit(deferred.Drop, id); err != nil {
			t.Fatal(err)
		}
	}
	put(deferred.Duplicate, third, deferred.Waiting)
	settle(third, deferred.Settlement{To: deferred.Waiting, Due: w.now, Attempt: true})
	if err := w.edit(deferred.Cancel, third); err != nil {
		t.Fatal(err)
	}
	w.again(true)
	put(deferred.Duplicate, third, deferred.Cancelled) // it was sent
	if err := w.edit(deferred.Drop, third); err != nil {
		t.Fatal(err)
	}
	alone := put(deferred.Accepted, deferred.ID{}, deferred.Waiting)
	w.pass(time.Hour)
	settle(alone, deferred.Settlement{To: deferred.Expired})
	if err := w.edit(deferred.Retry, alone); err != nil {
		t.Errorf("retry when nothing has taken its place: %v", err)
	}
	put(deferred.Duplicate, alone, deferred.Waiting)
}

// What was sent once still counts as sent after an operator has retried it: no other entry takes its
// place when it then expires or is cancelled.
func sentBeforeRetry(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	answered := deferred.Settlement{To: deferred.Failed, Attempt: true, Last: deferred.LastAttempt{At: start, Status: 500}}
	unknown := deferred.Settlement{To: deferred.Unknown, Attempt: true,
		Last: deferred.LastAttempt{At: start, Error: "no answer"}}
	expired := deferred.Settlement{To: deferred.Expired} // after a crash has cut the delivery off
	var scope byte
	for _, sent := range []deferred.Settlement{answered, unknown, expired} {
		for _, last := range []deferred.State{deferred.Cancelled, deferred.Expired} {
			scope++
			e := keyed(w.entry(fmt.Sprint("shop", scope)), scope, 1)
			id := w.accept(e)
			c := w.claims(id)[id]
			if sent.To == deferred.Expired {
				c = w.cutOff(id)
			}
			w.end(c, sent)
			if err := w.edit(deferred.Retry, id); err != nil {
				t.Fatal(err)
			}
			if last == deferred.Expired {
				w.pass(time.Hour)
				w.end(w.claims(id)[id], deferred.Settlement{To: deferred.Expired})
			} else if err := w.edit(deferred.Cancel, id); err != nil {
				t.Fatal(err)
			}
			w.again(scope%2 == 0)
			if known, err := w.q.Known(w.ctx, e.Scope); err != nil || !known {
				t.Errorf("%s, retried and %s: it is known: %t, %v", sent.To, last, known, err)
			}
			again := keyed(w.entry(e.LineKey), scope, 1)
			if s := w.put(again, 0); s.Outcome != deferred.Duplicate || s.ID != id || s.State != last {
				t.Errorf("%s, retried and %s: the same again is %s of %s, %s", sent.To, last, s.Outcome, s.ID, s.State)
				_ = w.edit(deferred.Cancel, again.ID)
			}
		}
	}
}

// end settles an entry, which is then kept.
func (w *world) end(c deferred.ClaimedEntry, s deferred.Settlement) {
	w.t.Helper()
	s.Lease, s.Keep = c.Lease, 100*time.Hour
	w.settled(s)
}

// cutOff crashes while an entry is being delivered, lets it expire, and claims it again.
func (w *world) cutOff(id deferred.ID) deferred.ClaimedEntry {
	w.t.Helper()
	w.again(true)
	if !w.place.Reopens() {
		w.pass(deferred.LeaseDuration)
	}
	w.claim(0)
	w.pass(time.Hour)
	return w.claims(id)[id]
}

func sameAtOnce(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	var entries []deferred.Entry
	for range 50 {
		entries = append(entries, keyed(w.entry("shop"), 1, 1))
	}
	stored := make([]deferred.PutResult, len(entries))
	atOnce(len(entries), func(i int) {
		stored[i] = testkit.Receive(t, w.putting(entries[i], 0), "the end of a put")
	})
	n := map[deferred.Outcome]int{}
	for _, s := range stored {
		n[s.Outcome]++
	}
	if n[deferred.Accepted] != 1 || n[deferred.Duplicate]+n[deferred.Storing] != 49 {
		t.Fatalf("of 50 at once: %v", n)
	}
	if all := w.list(deferred.Waiting, 10); len(all) != 1 {
		t.Fatalf("%d are waiting", len(all))
	}
}

// fills puts n entries, which must be accepted, and then one that must be refused because of
// bound.
func (w *world) fills(n int, bound deferred.ExceededBound, next func() deferred.Entry, perKey int) {
	w.t.Helper()
	for range n {
		if s := w.put(next(), perKey); s.Outcome != deferred.Accepted {
			w.t.Fatalf("below the bound: %s, bound %s, %v", s.Outcome, s.Bound, s.Err)
		}
	}
	if s := w.put(next(), perKey); s.Outcome != deferred.Full || s.Bound != bound {
		w.t.Fatalf("at the bound: %s, bound %s instead of %s", s.Outcome, s.Bound, bound)
	}
}

// leave makes one entry Done.
func (w *world) leave() {
	w.t.Helper()
	c := w.claim(1)
	if len(c) != 1 {
		w.t.Fatal("nothing is due")
	}
	w.settled(deferred.Settlement{Lease: c[0].Lease, To: deferred.Done})
	w.claim(0)
}

func boundEntries(t *testing.T, p Storage) {
	limits := roomy
	limits.Entries = 5
	w := newWorld(t, p, limits)
	next := func() deferred.Entry { return w.entry("") }
	w.fills(5, deferred.BoundEntries, next, 0)
	w.again(true)
	w.fills(0, deferred.BoundEntries, next, 0)
	w.leave()
	w.fills(1, deferred.BoundEntries, next, 0)
}

func boundBytes(t *testing.T, p Storage) {
	limits := roomy
	limits.Bytes = 30_000
	w := newWorld(t, p, limits)
	next := func() deferred.Entry {
		e := w.entry("")
		e.Body = bytes.Repeat([]byte("x"), 9000)
		return e
	}
	w.fills(3, deferred.BoundBytes, next, 0)
	w.again(true)
	w.fills(0, deferred.BoundBytes, next, 0)
	w.leave()
	w.fills(1, deferred.BoundBytes, next, 0)
	small := keyed(w.entry(""), 1, 1)
	w.accept(small)
	big := keyed(next(), 1, 1)
	if s := w.put(big, 0); s.Outcome != deferred.Duplicate { // a duplicate needs no room
		t.Errorf("the same request in a full queue: %s", s.Outcome)
	}
}

func boundLine(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	w.fills(3, deferred.BoundLine, func() deferred.Entry { return w.entry("a") }, 3)
	w.fills(3, deferred.BoundLine, func() deferred.Entry { return w.entry("b") }, 3)
	w.leave()
	w.leave()
	w.fills(1, deferred.BoundLine, func() deferred.Entry { return w.entry("a") }, 3)
	w.fills(1, deferred.BoundLine, func() deferred.Entry { return w.entry("b") }, 3)
}

func boundShare(t *testing.T, p Storage) {
	limits := roomy
	limits.Entries, limits.Share = 50, 0.1
	w := newWorld(t, p, limits)
	of := func(line, addr string) func() deferred.Entry {
		return func() deferred.Entry {
			e := w.entry(line)
			if addr != "" {
				e.Remote = netip.MustParseAddrPort(addr)
			}
			return e
		}
	}
	w.fills(5, deferred.BoundShare, of("a", ""), 0)
	w.fills(5, deferred.BoundShare, of("", "10.1.1.1:1"), 0)
	host := 0
	next := func() deferred.Entry { // of one network, each from a different address
		host++
		return of("", fmt.Sprintf("[2001:db8::%x]:1", host))()
	}
	w.fills(5, deferred.BoundShare, next, 0)
	w.again(true)
	w.fills(0, deferred.BoundShare, of("a", ""), 0)
	w.fills(0, deferred.BoundShare, of("", "10.1.1.1:2"), 0)
	w.fills(0, deferred.BoundShare, of("", "[64:ff9b::a01:101]:1"), 0) // 10.1.1.1 behind NAT64
	w.fills(0, deferred.BoundShare, next, 0)
	w.accept(of("", "[2001:db8:0:1::1]:1")())
	for range 6 { // lines without a key have no share
		w.accept(w.entry(""))
	}
}

// An entry with Follows is accepted when the queue is full, and one without a client counts for
// no client.
func follows(t *testing.T, p Storage) {
	limits := roomy
	limits.Entries, limits.Bytes, limits.Share = 40, 40_000, 0.1
	w := newWorld(t, p, limits)
	follower := func(line string, bytes int) (put deferred.PutRequest) {
		put = deferred.PutRequest{Entry: w.entry(line), Follows: true}
		put.Entry.Remote, put.Entry.Body = netip.AddrPort{}, make([]byte, bytes)
		return put
	}
	stored := func(put deferred.PutRequest) deferred.PutResult {
		t.Helper()
		done := make(chan deferred.PutResult, 1)
		put.Done = func(s deferred.PutResult) { done <- s }
		w.q.Put(w.now, &put)
		return testkit.Receive(t, done, "the end of a put")
	}
	for range 4 { // each from a different client
		w.accept(w.entry("a"))
	}
	w.fills(36, deferred.BoundEntries, func() deferred.Entry { return w.entry("") }, 0)
	first := follower("hook0", 10)
	for i := range 8 {
		put := first
		if i > 0 {
			put = follower(fmt.Sprint("hook", i), 10)
		}
		if s := stored(put); s.Outcome != deferred.Accepted {
			t.Fatalf("in a full queue: %s, bound %s, %v", s.Outcome, s.Bound, s.Err)
		}
	}
	for range 3 {
		if s := stored(follower("hook0", 10)); s.Outcome != deferred.Accepted {
			t.Fatalf("in a line with room: %s, bound %s, %v", s.Outcome, s.Bound, s.Err)
		}
	}
	w.again(true)
	if e, _ := w.read(first.Entry.ID, deferred.Waiting); e.Remote.IsValid() {
		t.Errorf("it was sent by %s", e.Remote)
	}
	if s := stored(follower("hook0", 10)); s.Outcome != deferred.Full || s.Bound != deferred.BoundShare {
		t.Errorf("beyond the share of a line: %s, bound %s", s.Outcome, s.Bound)
	}
	if s := stored(follower("hook1", 10_000)); s.Outcome != deferred.Full || s.Bound != deferred.BoundShare {
		t.Errorf("beyond the share of a line in bytes: %s, bound %s", s.Outcome, s.Bound)
	}
}

func closed(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	id := w.accept(w.entry("shop"))
	c := w.claims(id)[id]
	if err := w.q.Close(); err != nil {
		t.Fatal(err)
	}
	if s := w.put(w.entry("shop"), 0); s.Outcome != deferred.Unstored || !errors.Is(s.Err, deferred.ErrClosed) {
		t.Errorf("put: %s, %v", s.Outcome, s.Err)
	}
	if err := w.settle(deferred.Settlement{Lease: c.Lease, To: deferred.Done}); !errors.Is(err, deferred.ErrClosed) {
		t.Errorf("settle: %v", err)
	}
	calls := map[string]func(ctx context.Context) error{
		"claim": func(ctx context.Context) error { _, _, err := w.q.Claim(ctx, w.now, 1); return err },
		"renew": func(ctx context.Context) error {
			_, err := w.q.Renew(ctx, w.now, []deferred.Lease{c.Lease})
			return err
		},
		"known": func(ctx context.Context) error { _, err := w.q.Known(ctx, deferred.SHA256{1}); return err },
		"read":  func(ctx context.Context) error { _, _, err := w.q.Read(ctx, id); return err },
		"list":  func(ctx context.Context) error { _, err := w.q.List(ctx, deferred.Query{Limit: 1}); return err },
		"edit":  func(ctx context.Context) error { _, err := w.q.Edit(ctx, w.now, deferred.Edit{ID: id}); return err },
		"pause": func(ctx context.Context) error { return w.q.Pause(ctx, "orders", true) },
	}
	for name, call := range calls {
		if err := call(w.ctx); !errors.Is(err, deferred.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.q.Stats()
	if err := w.q.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// closedWhileStoring closes a queue that has much to store: each put is answered once, and every
// accepted entry is in the queue afterwards.
func closedWhileStoring(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	const n = 500
	stored := make(chan deferred.PutResult, 2*n)
	for range n {
		w.q.Put(w.now, &deferred.PutRequest{Entry: w.entry(""), Done: func(s deferred.PutResult) { stored <- s }})
		if w.serial == n/2 {
			go func(q deferred.Queue) { _ = q.Close() }(w.q)
		}
	}
	accepted := 0
	for range n {
		s := testkit.Receive(t, stored, "the end of a put")
		switch {
		case s.Outcome == deferred.Accepted:
			accepted++
		case s.Outcome != deferred.Unstored || !errors.Is(s.Err, deferred.ErrClosed):
			t.Fatalf("%s, %v", s.Outcome, s.Err)
		}
	}
	w.again(false)
	if there := w.counts()[deferred.Waiting]; there != accepted || len(stored) > 0 {
		t.Errorf("%d are accepted, %d are there, %d are answered again", accepted, there, len(stored))
	}
}
