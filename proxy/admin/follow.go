package admin

import (
	"time"

	"weir/proxy/store"
)

// Observe tells what the store holds now; version 0: nothing. It is for the
// store's watcher; an old observation, or one that was told before, does no harm.
// Together with Sync it brings all proxies to the latest change:
//
//   - a later change than the one known here is put in force;
//   - if the store has an earlier one or none (it was emptied, or was away when
//     the change was made), the one known here is written, on top of what was
//     observed, so that of several proxies that do so one wins, and the others find
//     what they know;
//   - what cannot be understood is left alone with one warning, and what is in
//     force stays. Only changes made by the API or the advisor take its place.
//
// Later is what has the later UpdatedAt, and that of a change is later than that
// of the change which it replaces, whatever the clocks. Versions would say the same
// as long as the store loses nothing, and nothing when it does. The settings are no
// change: nobody writes them, and everything overrides them. Going back to them
// by Delete is one.
func (l *Limits) Observe(now time.Time, doc store.Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.ledger.settle(now, doc) // has warned
}

// Sync observes by itself: it reads the document, and writes what could not be
// written while the store was away. When that is away, nothing happens.
func (l *Limits) Sync(now time.Time) {
	if doc, err := l.ledger.docs.Read(ConfigName); err == nil {
		l.Observe(now, doc)
	}
}

// syncPending writes what could not be written before.
func (l *Limits) syncPending(now time.Time) {
	l.mu.Lock()
	pending := l.ledger.pending()
	l.mu.Unlock()
	if pending {
		l.Sync(now)
	}
}

// Reload reads the store again. The error is ErrAway, or says why the document
// cannot be understood; then what is in force stays.
func (l *Limits) Reload(now time.Time) (*Active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ledger.reload(now); err != nil {
		return nil, err
	}
	return l.Active(), nil
}

// show corrects what Active says about the store. mu is held.
func (l *Limits) show(version int64, stored bool) {
	a := *l.Active()
	stored = stored && a.Source != SourceDefault
	if a.Version == version && a.Stored == stored {
		return
	}
	a.Version, a.Stored = version, stored
	l.active.Store(&a)
}
