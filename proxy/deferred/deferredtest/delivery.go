package deferredtest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"weir/proxy/deferred"
)

func putRead(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	e := keyed(w.entry("shop"), 1, 1)
	e.Trusted = true
	e.TLS, e.Callback, e.Order, e.Parallel = true, "https://x/", deferred.SeveralAtATime, 8
	e.State, e.Attempts, e.Last = deferred.Failed, 7, deferred.LastAttempt{Status: 500} // ignored
	w.accept(e)
	for range 2 {
		got, position := w.read(e.ID, deferred.Waiting)
		want := e
		want.State, want.Attempts, want.Last = deferred.Waiting, 0, deferred.LastAttempt{}
		if !alike(got, &want) || position != 1 {
			t.Fatalf("read at %d\n%+v, put was\n%+v", position, got, &want)
		}
		w.again(false)
	}
	if _, _, err := w.q.Read(w.ctx, deferred.ID{9}); !errors.Is(err, deferred.ErrNotFound) {
		t.Errorf("read what is not there: %v", err)
	}
}

func orderByKey(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	var ids []deferred.ID
	for i := range 4 {
		e := w.entry("shop")
		if s := w.put(e, 0); s.Position != i+1 {
			t.Fatalf("entry %d is stored at position %d", i, s.Position)
		}
		ids = append(ids, e.ID)
	}
	first := w.claims(ids[0])[ids[0]]
	w.claims() // no second one is claimed
	w.settled(deferred.Settlement{Lease: first.Lease, To: deferred.Waiting, Due: w.now.Add(time.Second), Attempt: true})
	w.claims() // the second does not overtake the first
	w.pass(time.Second)
	for i, id := range ids {
		w.again(i%2 == 0)
		if _, position := w.read(id, deferred.Waiting); position != 1 {
			t.Fatalf("the next is at position %d", position)
		}
		w.settled(deferred.Settlement{Lease: w.claims(id)[id].Lease, To: deferred.Done, Attempt: true, Keep: time.Hour})
	}
	w.claims()
}

func noOrder(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	var ids []deferred.ID
	for range 5 {
		e := w.entry("shop")
		e.Order, e.Parallel = deferred.SeveralAtATime, 3
		ids = append(ids, w.accept(e))
	}
	claimed := w.claims(ids[0], ids[1], ids[2])
	w.settled(deferred.Settlement{Lease: claimed[ids[1]].Lease, To: deferred.Done, Attempt: true, Keep: time.Hour})
	w.claims(ids[3])
	w.settled(deferred.Settlement{Lease: claimed[ids[0]].Lease, To: deferred.Failed, Attempt: true, Keep: time.Hour})
	w.claims(ids[4])
	// After a retry in a line that has ended, they are delivered at the same time as before.
	ids = nil
	for range 3 {
		e := w.entry("other")
		e.Order, e.Parallel = deferred.SeveralAtATime, 3
		ids = append(ids, w.accept(e))
	}
	for _, c := range w.claims(ids...) {
		w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Failed, Attempt: true, Keep: time.Hour})
	}
	for _, id := range ids {
		if err := w.edit(deferred.Retry, id); err != nil {
			t.Fatal(err)
		}
	}
	w.claims(ids...)
}

func due(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	e := w.entry("shop")
	e.Due = w.now.Add(10 * time.Second)
	w.accept(e)
	if claimed, next, err := w.q.Claim(w.ctx, w.now, 10); err != nil || len(claimed) > 0 || next.IsZero() ||
		next.After(e.Due) {
		t.Fatalf("claimed %d entries, %v, and the next is due %v, not %v", len(claimed), err, next, e.Due)
	}
	w.pass(10*time.Second - time.Microsecond)
	w.claims()
	w.pass(time.Microsecond)
	c := w.claims(e.ID)[e.ID]
	// A delivery that the limit has refused is no attempt; a retry is one.
	w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Waiting, Due: w.now.Add(time.Second)})
	if got, _ := w.read(e.ID, deferred.Waiting); got.Attempts != 0 || !got.Due.Equal(w.now.Add(time.Second)) {
		t.Fatalf("refused: %d attempts, due %v", got.Attempts, got.Due)
	}
	w.pass(time.Second)
	c = w.claims(e.ID)[e.ID]
	last := deferred.LastAttempt{At: w.now, Status: 503}
	w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Waiting, Due: w.now, Attempt: true, Last: last})
	if c := w.claims(e.ID)[e.ID]; c.Entry.Attempts != 1 || c.Entry.Last != last {
		t.Fatalf("claimed again after %d attempts, last %+v", c.Entry.Attempts, c.Entry.Last)
	}
}

func endings(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	for _, to := range []deferred.State{deferred.Done, deferred.Failed, deferred.Expired, deferred.Unknown} {
		e := w.entry("shop " + to.String())
		w.accept(e)
		c := w.claims(e.ID)[e.ID]
		result := &deferred.Result{Status: 201, Head: []byte("HTTP/1.1 201 Created\r\n\r\n"), Body: []byte("made"),
			Bytes: 1000, Truncated: true}
		s := deferred.Settlement{Lease: c.Lease, To: to, Attempt: true, Last: deferred.LastAttempt{At: w.now, Status: 201},
			Result: result, Keep: time.Hour}
		w.settled(s)
		if err := w.settle(s); !errors.Is(err, deferred.ErrLease) {
			t.Fatalf("settled twice: %v", err)
		}
		w.again(true)
		got, position := w.read(e.ID, to)
		if !alike(&deferred.Entry{Result: got.Result}, &deferred.Entry{Result: result}) || got.Last != s.Last ||
			got.Attempts != 1 || position != 0 {
			t.Fatalf("%s at %d: %+v, %+v, %d attempts", to, position, got.Result, got.Last, got.Attempts)
		}
		if to != deferred.Done && string(got.Body) != string(e.Body) { // it may be retried by an operator
			t.Fatalf("%s has the body %q", to, got.Body)
		}
	}
	w.claims()
}

func lines(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	a, b := w.accept(w.entry("a")), w.accept(w.entry("b"))
	w.accept(w.entry("a"))
	other := w.entry("a")
	other.Rule = "returns"
	w.claims(a, b, w.accept(other))
}

// leftOut expects that entries of the excluded rules wait, and that those of other rules do not
// wait for them.
func leftOut(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	of := func(rule string, after time.Duration) deferred.ID {
		e := w.entry("shop")
		e.Rule, e.Due = rule, w.now.Add(after)
		return w.accept(e)
	}
	orders, returns := of("orders", 0), of("returns", time.Second)
	of("letters", 0)
	claimed, next, err := w.q.Claim(w.ctx, w.now, 10, "orders", "letters")
	if err != nil || len(claimed) != 0 || next.IsZero() || next.After(w.now.Add(time.Second)) {
		t.Fatalf("%d claimed, the next at %v, %v", len(claimed), next, err)
	}
	w.pass(time.Second)
	claimed, next, err = w.q.Claim(w.ctx, w.now, 10, "orders", "letters")
	if err != nil || len(claimed) != 1 || claimed[0].Entry.ID != returns || !next.IsZero() && !next.After(w.now) {
		t.Fatalf("%d claimed, the next at %v, %v", len(claimed), next, err)
	}
	claimed, _, err = w.q.Claim(w.ctx, w.now, 10, "letters")
	if err != nil || len(claimed) != 1 || claimed[0].Entry.ID != orders {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
}

func leases(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	if p.Reopens() {
		w.keepsLeases()
		return
	}
	plain, withKey, renewed, late := w.accept(w.entry("plain")), w.accept(keyed(w.entry("key"), 1, 1)),
		w.accept(w.entry("renewed")), w.accept(w.entry("late"))
	claimed := w.claims(plain, withKey, renewed, late)
	w.pass(deferred.LeaseDuration / 2)
	if lost, err := w.q.Renew(w.ctx, w.now, []deferred.Lease{claimed[renewed].Lease,
		{ID: plain, Token: claimed[plain].Lease.Token + 99}}); err != nil || len(lost) != 1 || lost[0].ID != plain {
		t.Fatalf("renew: lost %v, %v", lost, err)
	}
	if lost, err := w.q.Renew(w.ctx, w.now, nil); err != nil || len(lost) > 0 {
		t.Fatalf("renew nothing: lost %v, %v", lost, err)
	}
	w.claims()
	w.pass(deferred.LeaseDuration / 2)
	if lost, err := w.q.Renew(w.ctx, w.now, []deferred.Lease{claimed[late].Lease}); err != nil || len(lost) > 0 {
		t.Fatalf("renew a lease that has passed and was not taken back: lost %v, %v", lost, err)
	}
	again := w.claims(withKey)[withKey]
	if again.Entry.Attempts != 1 {
		t.Errorf("%d attempts after one whose lease has passed", again.Entry.Attempts)
	}
	w.read(plain, deferred.Unknown)
	w.read(renewed, deferred.Delivering)
	for _, id := range []deferred.ID{plain, withKey} {
		if err := w.settle(deferred.Settlement{Lease: claimed[id].Lease, To: deferred.Done,
			Keep: time.Hour}); !errors.Is(err, deferred.ErrLease) {
			t.Errorf("settled under a lease that has passed: %v", err)
		}
	}
	w.settled(deferred.Settlement{Lease: again.Lease, To: deferred.Done, Keep: time.Hour})
	for _, id := range []deferred.ID{renewed, late} {
		w.settled(deferred.Settlement{Lease: claimed[id].Lease, To: deferred.Done, Keep: time.Hour})
	}
}

// keepsLeases expects that leases do not expire while their owner has the queue open: the clock
// may be set forward.
func (w *world) keepsLeases() {
	w.t.Helper()
	plain, withKey := w.accept(w.entry("plain")), w.accept(keyed(w.entry("key"), 1, 1))
	claimed := w.claims(plain, withKey)
	w.pass(deferred.LeaseDuration + time.Second)
	w.claims()
	w.pass(time.Hour)
	w.claims()
	if lost, err := w.q.Renew(w.ctx, w.now,
		[]deferred.Lease{claimed[plain].Lease, {ID: withKey, Token: claimed[withKey].Lease.Token + 99}}); err != nil ||
		len(lost) != 1 || lost[0].ID != withKey {
		w.t.Fatalf("renew: lost %v, %v", lost, err)
	}
	for _, c := range claimed {
		w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Done, Keep: time.Hour})
		if err := w.settle(deferred.Settlement{Lease: c.Lease, To: deferred.Done, Keep: time.Hour}); !errors.Is(err,
			deferred.ErrLease) {
			w.t.Errorf("settled twice: %v", err)
		}
	}
}

func crashDelivering(t *testing.T, p Storage) {
	for _, crash := range []bool{true, false} {
		w := newWorld(t, p, roomy)
		name := "closed"
		if crash {
			w.serial, name = 1000, "crashed"
		}
		plain, withKey := w.accept(w.entry("plain "+name)), w.accept(keyed(w.entry("key "+name), byte(len(name)), 1))
		claimed := make(map[deferred.ID]deferred.ClaimedEntry)
		for _, c := range w.claim(10) {
			claimed[c.Entry.ID] = c
		}
		w.again(crash)
		if !p.Reopens() {
			w.pass(deferred.LeaseDuration)
		}
		var again deferred.ClaimedEntry
		for _, c := range w.claim(10) {
			if c.Entry.ID == withKey {
				again = c
			}
		}
		if again.Entry == nil || again.Entry.Attempts != 1 {
			t.Fatalf("with a key it is claimed again as %+v", again.Entry)
		}
		w.read(plain, deferred.Unknown)
		if given := w.q.Stats().GivenUp; given[deferred.GivenUpLabels{Rule: "orders", To: deferred.Unknown}] != 1 ||
			len(given) != 1 {
			t.Errorf("given up: %v, want the one without a key", given)
		}
		if err := w.settle(deferred.Settlement{Lease: claimed[withKey].Lease,
			To: deferred.Done}); again.Lease != claimed[withKey].Lease && !errors.Is(err, deferred.ErrLease) {
			t.Errorf("settled under a lease of before: %v", err)
		}
		_ = w.q.Close()
	}
}

func expiry(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	first, second := w.entry("shop"), w.entry("shop")
	first.Due = w.now.Add(2 * time.Hour) // later than its expiry
	w.accept(first)
	w.accept(second)
	w.pass(time.Hour)
	c := w.claims(first.ID)[first.ID]
	if c.Entry.Expires.After(w.now) {
		t.Fatalf("expires %v", c.Entry.Expires)
	}
	w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Expired, Keep: time.Hour})
	w.read(first.ID, deferred.Expired)
	// It was never sent, so it is not Unknown after a crash.
	w.claims(second.ID)
	w.again(true)
	if !p.Reopens() {
		w.pass(deferred.LeaseDuration)
	}
	c = w.claims(second.ID)[second.ID]
	w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Expired, Keep: time.Hour})
}

func clockBack(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	waiting, delivering := w.accept(w.entry("a")), w.accept(keyed(w.entry("b"), 1, 1))
	claimed := w.claims(waiting, delivering)
	w.settled(deferred.Settlement{Lease: claimed[waiting].Lease, To: deferred.Waiting, Due: w.now.Add(time.Minute),
		Attempt: true})
	w.pass(-24 * time.Hour)
	young := w.accept(w.entry("c"))
	got := w.claim(10)
	if n := w.counts(); n[deferred.Waiting]+n[deferred.Delivering] != 3 {
		t.Fatalf("%d waiting and %d delivering of 3", n[deferred.Waiting], n[deferred.Delivering])
	}
	if len(got) == 0 || got[len(got)-1].Entry.ID != young {
		t.Fatalf("claimed %d entries, and not the one put after the clock was set back", len(got))
	}
	w.pass(25 * time.Hour) // at the latest when the clock has reached the previous time again
	w.settled(deferred.Settlement{Lease: got[len(got)-1].Lease, To: deferred.Done, Keep: time.Hour})
	seen := map[deferred.ID]bool{}
	if p.Reopens() { // the lease has not expired
		w.settled(deferred.Settlement{Lease: claimed[delivering].Lease, To: deferred.Waiting, Due: w.now})
	}
	for _, c := range w.claim(10) {
		seen[c.Entry.ID] = true
	}
	if !seen[waiting] || !seen[delivering] {
		t.Errorf("what was accepted before the clock was set back is not claimed: %v", seen)
	}
}

// alike reports whether two entries are equal in everything that is stored.
func alike(a, b *deferred.Entry) bool {
	return bytes.Equal(deferred.AppendEntry(nil, a), deferred.AppendEntry(nil, b))
}
