package deferredtest

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir/proxy/deferred"
)

// narrow are limits of which one client may have 10,000 bytes, half of them in final entries.
var narrow = deferred.Limits{Entries: 1000, Bytes: 100_000, Share: 0.1, DeadKeep: 168 * time.Hour}

// from returns an entry of a client, with a body of that length, in a line of its own.
func (w *world) from(client string, bytes int) deferred.Entry {
	e := w.entry(fmt.Sprintf("line %04d", w.serial))
	e.Body = make([]byte, bytes)
	e.Remote = netip.AddrPort{}
	if client != "" {
		e.Remote = netip.MustParseAddrPort(client)
	}
	return e
}

// ends puts an entry and settles it, or cancels it.
func (w *world) ends(e deferred.Entry, to deferred.State, result *deferred.Result) deferred.ID {
	w.t.Helper()
	w.accept(e)
	if to == deferred.Cancelled {
		if err := w.edit(deferred.Cancel, e.ID); err != nil {
			w.t.Fatal(err)
		}
	} else {
		c := w.claims(e.ID)[e.ID]
		w.settled(deferred.Settlement{Lease: c.Lease, To: to, Attempt: true, Result: result, Keep: 168 * time.Hour})
	}
	w.pass(time.Second)
	w.claims()
	return e.ID
}

// kept reports whether an entry is there.
func (w *world) kept(id deferred.ID) bool {
	w.t.Helper()
	_, _, err := w.q.Read(w.ctx, id)
	if err != nil && !errors.Is(err, deferred.ErrNotFound) {
		w.t.Fatal(err)
	}
	return err == nil
}

// A repetition that is refused does not take the place of the entry that was never sent: that one can
// still be retried, and then counts as the same request.
func refusedAnew(t *testing.T, p Storage) {
	limits := roomy
	limits.Entries = 1
	w := newWorld(t, p, limits)
	id := w.accept(keyed(w.entry("shop"), 1, 1))
	w.pass(time.Hour)
	w.end(w.claims(id)[id], deferred.Settlement{To: deferred.Expired})
	other := w.accept(w.entry("other"))
	if s := w.put(keyed(w.entry("shop"), 1, 1), 0); s.Outcome != deferred.Full || s.Bound != deferred.BoundEntries {
		t.Fatalf("in a full queue: %s, bound %s, %v", s.Outcome, s.Bound, s.Err)
	}
	w.again(true)
	if err := w.edit(deferred.Retry, id); err != nil {
		t.Errorf("retry beside a repetition that was refused: %v", err)
	}
	if s := w.put(keyed(w.entry("shop"), 1, 1), 0); s.Outcome != deferred.Duplicate || s.ID != id {
		t.Errorf("the same request after the retry: %s of %s, want %s", s.Outcome, s.ID, id)
	}
	w.read(other, deferred.Waiting)
}

// However much a client stores that fails, expires, is delivered or cancelled, it takes no more than
// its share, and the room of others stays as it is: its oldest final entries are deleted.
func finalShare(t *testing.T, p Storage) {
	w := newWorld(t, p, narrow)
	other := w.ends(w.from("10.9.9.9:1", 3000), deferred.Failed, nil)
	reported := w.ends(w.from("", 3000), deferred.Failed, nil)
	base := w.q.Stats().Bytes
	for to := deferred.Done; int(to) < deferred.StateCount; to++ {
		var ids []deferred.ID
		for range 30 {
			var result *deferred.Result
			if to == deferred.Done {
				result = &deferred.Result{Status: 200, Body: make([]byte, 4000)}
			}
			ids = append(ids, w.ends(w.from("[2001:db8::1]:1", 4000), to, result))
		}
		if took, most := w.q.Stats().Bytes-base, narrow.FinalBytesMax(); took > most {
			t.Errorf("%s: one client takes %d bytes, may take %d", to, took, most)
		}
		if !w.kept(ids[len(ids)-1]) || to != deferred.Cancelled && w.kept(ids[0]) {
			t.Errorf("%s: the newest is kept: %t, the oldest: %t", to, w.kept(ids[len(ids)-1]), w.kept(ids[0]))
		}
		w.again(to == deferred.Failed)
	}
	for range 30 { // entries without a client share one bound
		w.ends(w.from("", 3000), deferred.Failed, nil)
	}
	if !w.kept(other) || w.kept(reported) {
		t.Errorf("the entry of another client is kept: %t, that of none: %t", w.kept(other), w.kept(reported))
	}
	if n := w.counts(); n[deferred.Failed] > 3 {
		t.Errorf("%d failed entries are counted", n[deferred.Failed])
	}
}

// As many final entries are kept as take no more than their bound, and one more has the oldest
// deleted. What a client has of them counts in what it may store.
func finalBound(t *testing.T, p Storage) {
	w := newWorld(t, p, narrow)
	// One that is larger than the bound is kept until there is another one.
	large := w.ends(w.from("10.1.1.3:1", 6000), deferred.Failed, nil)
	w.read(large, deferred.Failed)
	w.ends(w.from("10.1.1.3:1", 10), deferred.Failed, nil)
	if w.kept(large) {
		t.Error("the older one is kept")
	}
	const client = "10.1.1.1:1"
	first := w.ends(w.from(client, 1000), deferred.Failed, nil)
	e, _ := w.read(first, deferred.Failed)
	fit := int(narrow.FinalBytesMax() / e.Size())
	ids := []deferred.ID{first}
	for range fit - 1 {
		ids = append(ids, w.ends(w.from(client, 1000), deferred.Failed, nil))
	}
	for _, id := range ids {
		w.read(id, deferred.Failed)
	}
	evicted := w.q.Stats().Evicted
	ids = append(ids, w.ends(w.from(client, 1000), deferred.Failed, nil))
	evicted = w.q.Stats().Evicted - evicted
	if w.kept(first) || !w.kept(ids[1]) || evicted != 1 {
		t.Errorf("the oldest is kept: %t, the next: %t, %d are deleted", w.kept(first), w.kept(ids[1]), evicted)
	}
	w.fills((10_000/int(e.Size()))-fit, deferred.BoundShare, func() deferred.Entry { return w.from(client, 1000) }, 0)
	w.accept(w.from("10.1.1.2:1", 1000))
	// What is retried is no longer final, and what is dropped leaves room.
	if err := w.edit(deferred.Retry, ids[1]); err != nil {
		t.Fatal(err)
	}
	w.fills(0, deferred.BoundShare, func() deferred.Entry { return w.from(client, 1000) }, 0)
	if err := w.edit(deferred.Drop, ids[2]); err != nil {
		t.Fatal(err)
	}
	w.fills(1, deferred.BoundShare, func() deferred.Entry { return w.from(client, 1000) }, 0)
}
