package deferredtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/proxy/deferred"
)

func edits(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	first, second, third := w.accept(keyed(w.entry("shop"), 1, 1)), w.accept(w.entry("shop")), w.accept(w.entry("shop"))
	want := func(action deferred.Action, id deferred.ID, want error) {
		t.Helper()
		if err := w.edit(action, id); !errors.Is(err, want) {
			t.Fatalf("%v, not %v", err, want)
		}
	}
	want(deferred.Retry, first, deferred.ErrState)
	want(deferred.Drop, first, deferred.ErrState)
	want(deferred.Cancel, deferred.ID{1}, deferred.ErrNotFound)
	want(deferred.Cancel, second, nil)
	want(deferred.Cancel, second, deferred.ErrState)
	want(deferred.Retry, second, deferred.ErrState)
	c := w.claims(first)[first]
	want(deferred.Cancel, first, deferred.ErrState)
	if _, position := w.read(third, deferred.Waiting); position != 2 {
		t.Fatalf("behind one that is delivering: position %d", position)
	}
	w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Failed, Attempt: true,
		Last: deferred.LastAttempt{Status: 400},
		Keep: time.Hour})
	w.pass(10 * time.Minute)
	want(deferred.Retry, first, nil) // now behind the third
	if e, position := w.read(first, deferred.Waiting); position != 2 || e.Attempts != 0 ||
		!e.Expires.Equal(w.now.Add(time.Hour)) || len(e.Body) == 0 {
		t.Fatalf("played again at %d, %d attempts, expires %v, body %q", position, e.Attempts, e.Expires, e.Body)
	}
	if s := w.put(keyed(w.entry("shop"), 1, 1), 0); s.Outcome != deferred.Duplicate {
		t.Fatalf("the same as the one that was played again: %s", s.Outcome)
	}
	w.again(true)
	for _, id := range []deferred.ID{third, first} {
		w.settled(deferred.Settlement{Lease: w.claims(id)[id].Lease, To: deferred.Done, Keep: time.Hour})
	}
	want(deferred.Retry, first, deferred.ErrState)
	want(deferred.Drop, first, nil)
	want(deferred.Drop, first, deferred.ErrNotFound)
	w.accept(keyed(w.entry("shop"), 1, 2)) // a dropped entry is deleted
}

func editsOfMany(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	other := w.entry("a")
	other.Rule = "returns"
	w.accept(other)
	accept := func() (ids []deferred.ID) {
		for i := range 20 {
			ids = append(ids, w.accept(w.entry(fmt.Sprint("a", i))))
		}
		return ids
	}
	accept()
	many := func(action deferred.Action, state deferred.State, want int) {
		t.Helper()
		n, err := w.q.Edit(w.ctx, w.now, deferred.Edit{Action: action, Rule: "orders", State: state})
		if err != nil || n != want {
			t.Fatalf("%d edited, not %d: %v", n, want, err)
		}
	}
	many(deferred.Drop, deferred.Waiting, 0)
	many(deferred.Cancel, deferred.Waiting, 20)
	many(deferred.Cancel, deferred.Waiting, 0)
	many(deferred.Retry, deferred.Cancelled, 0)
	many(deferred.Drop, deferred.Cancelled, 20)
	for id, c := range w.claims(append(accept(), other.ID)...) {
		to := deferred.Failed
		if id == other.ID {
			to = deferred.Waiting
		}
		w.settled(deferred.Settlement{Lease: c.Lease, To: to, Due: w.now, Keep: time.Hour})
	}
	many(deferred.Retry, deferred.Failed, 20)
	if all := w.list(deferred.Waiting, 7); len(all) != 21 {
		t.Fatalf("%d are waiting again", len(all))
	}
	many(deferred.Cancel, deferred.Waiting, 20)
	many(deferred.Drop, deferred.Cancelled, 20)
	if n := w.counts(); n[deferred.Waiting] != 1 || n[deferred.Cancelled] != 0 {
		t.Fatalf("%d are waiting, %d cancelled", n[deferred.Waiting], n[deferred.Cancelled])
	}
	w.read(other.ID, deferred.Waiting)
}

// A cancelled entry loses its request at once, and what earlier attempts have left. What its
// client needs in order to see it is kept instead.
func cancelled(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	e := keyed(w.entry("a"), 1, 1)
	e.Body = make([]byte, 100_000)
	w.accept(e)
	before := w.q.Stats().Bytes
	w.settled(deferred.Settlement{Lease: w.claim(1)[0].Lease, To: deferred.Waiting, Due: w.now.Add(time.Minute),
		Attempt: true,
		Last:    deferred.LastAttempt{At: w.now, Status: 503},
		Result:  &deferred.Result{Status: 503, Body: make([]byte, 50_000)}})
	kept := &deferred.Result{Head: []byte("POST /orders HTTP/1.1\r\n")}
	if n, err := w.q.Edit(w.ctx, w.now, deferred.Edit{Action: deferred.Cancel, ID: e.ID, Result: kept}); n != 1 ||
		err != nil {
		t.Fatalf("%d are cancelled, %v", n, err)
	}
	for range 2 {
		got, _ := w.read(e.ID, deferred.Cancelled)
		if len(got.Head) > 0 || len(got.Body) > 0 || got.Result == nil || string(got.Result.Head) != string(kept.Head) ||
			len(got.Result.Body) > 0 {
			t.Fatalf("it has %d and %d bytes of its request, and the result %+v", len(got.Head), len(got.Body), got.Result)
		}
		if freed := before - w.q.Stats().Bytes; freed < 100_000 || freed > int64(len(e.Head)+len(e.Body)) {
			t.Fatalf("it has left %d bytes", freed)
		}
		w.again(true)
	}
}

func pause(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	id := w.accept(w.entry("a"))
	other := w.entry("a")
	other.Rule = "returns"
	set := func(paused bool) {
		t.Helper()
		if err := w.q.Pause(w.ctx, "orders", paused); err != nil {
			t.Fatal(err)
		}
	}
	set(true)
	w.accept(w.entry("b"))
	w.again(true)
	w.claims(w.accept(other))
	for _, r := range w.q.Stats().Rules {
		if r.Paused != (r.Rule == "orders") {
			t.Errorf("%s is paused: %v", r.Rule, r.Paused)
		}
	}
	set(false)
	if n := len(w.claim(10)); n != 2 {
		t.Fatalf("%d are claimed when the rule goes on", n)
	}
	w.read(id, deferred.Delivering)
}

func lists(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	var ids []deferred.ID
	for range 25 {
		w.pass(time.Millisecond)
		ids = append(ids, w.accept(w.entry("a")))
	}
	var got []deferred.ID
	for _, e := range w.list(deferred.Waiting, 10) {
		if got = append(got, e.ID); e.Head != nil || e.Body != nil {
			t.Fatal("listed with head and body")
		}
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("%d are listed, or not in their order", len(got))
	}
	page, err := w.q.List(w.ctx, deferred.Query{Rule: "returns", State: deferred.Waiting, Limit: 10})
	if err != nil || len(page.Entries) != 0 {
		t.Fatalf("%d of another rule are listed, %v", len(page.Entries), err)
	}
	for _, q := range []deferred.Query{{Limit: 0}, {Limit: deferred.ListMax + 1}, {Limit: 1, After: "x"}} {
		if _, err := w.q.List(w.ctx, q); err == nil {
			t.Errorf("%+v is listed", q)
		}
	}
	c := w.claims(ids[0])[ids[0]]
	if all := w.list(deferred.Delivering, 10); len(all) != 1 || all[0].ID != ids[0] {
		t.Fatalf("%d are listed as delivering", len(all))
	}
	result := &deferred.Result{Status: 200, Head: []byte("head"), Body: []byte("body"), Bytes: 4}
	w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Done, Result: result, Keep: time.Hour})
	if all := w.list(deferred.Done, 10); len(all) != 1 || all[0].ID != ids[0] || all[0].Result == nil ||
		all[0].Result.Head != nil || all[0].Result.Bytes != 4 {
		t.Fatalf("%d are listed as done", len(all))
	}
}

func forgetting(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	first, second := w.accept(w.entry("a")), w.accept(w.entry("b"))
	for id, c := range w.claims(first, second) {
		keep := time.Minute
		if id == second {
			keep = time.Hour
		}
		w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Failed, Keep: keep})
	}
	w.pass(time.Minute)
	w.again(true)
	w.claims()
	if _, _, err := w.q.Read(w.ctx, first); !errors.Is(err, deferred.ErrNotFound) {
		t.Errorf("after its time: %v", err)
	}
	w.read(second, deferred.Failed)
	w.pass(time.Hour)
	w.claims()
	if s := w.q.Stats(); s.Bytes != 0 || len(w.list(deferred.Failed, 10)) != 0 {
		t.Errorf("%d bytes are left of what is forgotten", s.Bytes)
	}
}

func figures(t *testing.T, p Storage) {
	w := newWorld(t, p, roomy)
	oldest := w.now
	var ids []deferred.ID
	for _, line := range []string{"a", "b", "c", "d"} {
		ids = append(ids, w.accept(w.entry(line)))
		w.pass(time.Second)
	}
	if err := w.edit(deferred.Cancel, ids[3]); err != nil {
		t.Fatal(err)
	}
	for id, c := range w.claims(ids[:3]...) {
		if id == ids[2] {
			w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Failed, Last: deferred.LastAttempt{Error: "no"},
				Keep: time.Hour})
		} else {
			w.settled(deferred.Settlement{Lease: c.Lease, To: deferred.Waiting, Due: w.now.Add(time.Minute), Attempt: true})
		}
	}
	before := w.q.Stats()
	r := before.Rules[0]
	if len(before.Rules) != 1 || r.States[deferred.Waiting].Entries != 2 || r.States[deferred.Failed].Entries != 1 ||
		r.States[deferred.Cancelled].Entries != 1 || !r.Oldest.Equal(oldest) || before.Durability == "" {
		t.Fatalf("%+v", before)
	}
	bytes := int64(0)
	for _, id := range ids {
		e, _, err := w.q.Read(w.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		bytes += e.Size()
	}
	if before.Bytes != bytes {
		t.Errorf("%d bytes, the entries have %d", before.Bytes, bytes)
	}
	w.again(true)
	after := w.q.Stats()
	if after.Bytes != before.Bytes || after.Rules[0].States != before.Rules[0].States ||
		!after.Rules[0].Oldest.Equal(oldest) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
