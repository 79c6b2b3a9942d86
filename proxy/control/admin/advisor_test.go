package admin

import (
	"errors"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store/simredis"
)

// advised is a change as the advisor makes it, based on what is in force.
func advised(l *Limits, permits int64) LimitChange {
	return LimitChange{Config: limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: 1}, Source: SourceAdvisor,
		IfMatch: l.Active().Version, Basis: l.Active(), StoredOnly: true}
}

// What is pinned the advisor cannot change, on whatever proxy, until a person does.
func TestPinKeepsTheAdvisorOut(t *testing.T) {
	docs := new(simredis.DocumentStore)
	a, b := start(t, docs), start(t, docs)
	pin := change(sliding500)
	pin.Pin = true
	a.must(pin)
	b.Sync(epoch.Add(time.Second))
	for name, r := range map[string]*rig{"who pinned it": a, "who follows": b} {
		before := r.Active()
		if !before.Pinned {
			t.Errorf("%s: not pinned", name)
		}
		if _, err := r.Apply(epoch.Add(time.Minute), advised(r.Limits, 7)); !errors.Is(err, ErrPinned) ||
			r.Active() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Delete(epoch.Add(time.Hour), -1); err != nil {
		t.Fatal(err)
	}
	if next, err := a.Apply(epoch.Add(2*time.Hour), advised(a.Limits, 7)); err != nil ||
		next.Source != SourceAdvisor || next.Pinned {
		t.Errorf("after the pin: %+v, %v", next, err)
	}
}

// A pin that this proxy does not know of yet goes before the advisor, too.
func TestPinOfAnotherProxy(t *testing.T) {
	docs := new(simredis.DocumentStore)
	a, b := start(t, docs), start(t, docs)
	ch := advised(b.Limits, 7)
	pin := change(sliding500)
	pin.Pin = true
	a.must(pin)
	if _, err := b.Apply(epoch.Add(time.Minute), ch); !errors.Is(err, ErrConflict) {
		t.Errorf("based on what was before: %v", err)
	}
	b.inForce("algorithm=sliding, limit=500, window=60 source=api version=1")
	ch.IfMatch, ch.Basis = -1, nil
	if _, err := b.Apply(epoch.Add(time.Minute), ch); !errors.Is(err, ErrPinned) {
		t.Errorf("based on anything: %v", err)
	}
}

// Two changes that were made while the store was away from one of the proxies have the
// same version. What the advisor bases on the one does not go over the other.
func TestAdviceOnWhatLostItsVersion(t *testing.T) {
	k := &link{store: newSharedStore()}
	a, b := startOver(t, k), startOver(t, &link{store: k.store})
	k.set(reachNone)
	a.must(change(sliding500))
	ch := advised(a.Limits, 7)
	other := sliding500
	other.Limit = 900
	if _, err := b.Apply(epoch.Add(time.Minute), change(other)); err != nil {
		t.Fatal(err)
	}
	k.set(reachAll)
	a.Sync(epoch.Add(2 * time.Minute))
	if v := a.Active().Version; v != ch.IfMatch {
		t.Fatalf("the version is %d, was %d", v, ch.IfMatch)
	}
	if _, err := a.Apply(epoch.Add(2*time.Minute), ch); !errors.Is(err, ErrConflict) {
		t.Errorf("based on what has gone: %v", err)
	}
	a.inForce("algorithm=sliding, limit=900, window=60 source=api version=1")
	if _, err := a.Apply(epoch.Add(2*time.Minute), advised(a.Limits, 7)); err != nil {
		t.Errorf("based on what is in force: %v", err)
	}
}

// It is the same change when it has reached the store.
func TestAdviceOnWhatIsStoredMeanwhile(t *testing.T) {
	k := &link{store: newSharedStore()}
	r := startOver(t, k)
	k.set(reachNone)
	r.must(change(sliding500))
	ch := advised(r.Limits, 7)
	k.set(reachAll)
	r.Sync(epoch.Add(time.Second))
	if a := r.Active(); a == ch.Basis || !a.Stored {
		t.Fatalf("in force %+v", a)
	}
	if next, err := r.Apply(epoch.Add(time.Minute), ch); err != nil || !next.Stored {
		t.Errorf("%+v, %v", next, err)
	}
}

// What the advisor wants waits for the store: alone it changes nothing, here or
// later.
func TestStoredOnly(t *testing.T) {
	shared := newSharedStore()
	k := &link{store: shared}
	r := startOver(t, k)
	k.set(reachNone)
	before := r.Active()
	if _, err := r.Apply(epoch, advised(r.Limits, 7)); !errors.Is(err, ErrUnavailable) || r.Active() != before {
		t.Errorf("while the store is away: %v", err)
	}
	k.set(reachLost)
	if _, err := r.Apply(epoch.Add(1), advised(r.Limits, 8)); !errors.Is(err, ErrUnavailable) || r.Active() != before {
		t.Errorf("when the answer is lost: %v", err)
	}
	k.set(reachAll)
	r.Sync(epoch.Add(time.Second))
	r.inForce("algorithm=fixed, limit=8, window=1 source=advisor version=1") // it was written, and holds on every proxy
	if next, err := r.Apply(epoch.Add(time.Minute), advised(r.Limits, 9)); err != nil || !next.Stored {
		t.Errorf("with the store: %+v, %v", next, err)
	}
}
