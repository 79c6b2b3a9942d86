package admin

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"weir/proxy/store"
)

// aheadMax is how far a stored change may be dated ahead of this proxy's clock
// without a warning. Changes that proxies make apart from each other are put in
// order by their clocks.
const aheadMax = time.Hour

// ErrAway: the store did not answer.
var ErrAway = errors.New("the store is away")

// A place is where the latest change known is.
type place uint8

const (
	placeNowhere place = iota // no change is known
	placeStore                // in the store, as it was last seen
	placeHere                 // made here, and has not reached the store: to be written
	placeLost                 // was in the store, which holds none or an earlier one: to be put back
	placeCovered              // was in the store, which holds what cannot be understood: left alone
)

// String returns the name for tests and debugging.
func (p place) String() string {
	return [...]string{"nowhere", "store", "here", "lost", "covered"}[p]
}

// A finding is what a document turned out to be, seen from what is known here.
type finding uint8

const (
	findingSame       finding = iota // the latest change known, or nothing, and none is known
	findingLater                     // a later change: is in force now
	findingEarlier                   // an earlier change, or nothing, but one is known
	findingUnreadable                // not understood: what is in force stays
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
// change: nobody writes them, and everything goes before them. Going back to them
// by Delete is one.
func (l *Limits) Observe(now time.Time, doc store.Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.settle(now, doc) // has warned
}

// Sync observes by itself: it reads the document, and writes what could not be
// written while the store was away. To be called once a second or so; it costs one
// read, and when the store is away nothing happens.
func (l *Limits) Sync(now time.Time) {
	if doc, err := l.docs.Read(ConfigName); err == nil {
		l.Observe(now, doc)
	}
}

// Reload reads the store again. The error is ErrAway, or says why the document
// cannot be understood; then what is in force stays.
func (l *Limits) Reload(now time.Time) (*Active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	doc, err := l.docs.Read(ConfigName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	l.ignored = nil // who asks is told again
	if err := l.settle(now, doc); err != nil {
		return nil, err
	}
	return l.Active(), nil
}

// settle brings the store, which holds doc, and this proxy to the later of what
// the two know. The error says why doc cannot be understood. mu is held.
func (l *Limits) settle(now time.Time, doc store.Document) error {
	for range writeTriesMax {
		found, err := l.take(now, doc)
		if found != findingEarlier && (found != findingUnreadable || l.place != placeHere) {
			return err
		}
		next, written, err := l.docs.CompareAndSet(ConfigName, l.seen, l.known.body)
		switch {
		case err != nil:
			l.notWritten(err)
			return nil
		case written:
			l.written(next.Version)
			return nil
		}
		doc = next
	}
	l.notWritten(ErrConflict)
	return nil
}

// take looks at what the store holds. It changes what is in force, and never the
// store. The error is why the document is unreadable. mu is held.
func (l *Limits) take(now time.Time, doc store.Document) (finding, error) {
	first := !l.looked
	l.looked, l.seen = true, doc.Version
	before := l.ignored
	l.ignored = nil
	if doc.Version == 0 {
		if l.known == nil {
			return findingSame, nil
		}
		return findingEarlier, nil
	}
	if l.known != nil && doc.Version > 0 && bytes.Equal(doc.Body, l.known.body) {
		l.kept(doc.Version)
		return findingSame, nil
	}
	e, err := readEntry(doc)
	var next *Active
	if err == nil {
		next, err = l.activate(e, doc.Version)
	}
	if err != nil {
		return findingUnreadable, l.ignore(doc, before, err)
	}
	if !e.laterThan(l.known) {
		return findingEarlier, nil
	}
	overSettings := first && l.known == nil && !e.Deleted
	l.known, l.place = e, placeStore
	l.enforce(l.Active(), next)
	if overSettings {
		l.config.Warn("Stored config goes before the settings", "source", e.Source)
	}
	if ahead := e.UpdatedAt.Sub(now); ahead > aheadMax {
		l.config.Warn("Stored config is dated ahead of this clock", "ahead", ahead)
	}
	return findingLater, nil
}

// ignore leaves a document alone that cannot be understood, and warns unless it
// is the one ignored before. mu is held.
func (l *Limits) ignore(doc store.Document, before *store.Document, cause error) error {
	err := fmt.Errorf("read %s: %w", ConfigName, cause)
	if l.place == placeStore || l.place == placeLost {
		l.place = placeCovered
		l.show(l.Active().Version, false)
	}
	l.ignored = before
	if before == nil || before.Version != doc.Version || !bytes.Equal(before.Body, doc.Body) {
		l.ignored = &store.Document{Version: doc.Version, Body: bytes.Clone(doc.Body)}
		l.config.Warn("Stored config ignored, what is in force stays", "reason", err)
	}
	return err
}

// written notes that known has been written. mu is held.
func (l *Limits) written(version int64) {
	if l.place == placeHere {
		l.config.Info("Config stored", "version", version)
	} else {
		l.config.Warn("Config was lost from the store, put back", "version", version)
	}
	l.seen = version
	l.kept(version)
}

// notWritten notes that known could not be written, which Sync will try again.
// mu is held.
func (l *Limits) notWritten(cause error) {
	if l.place == placeHere || l.place == placeLost {
		return // no news
	}
	l.place = placeLost
	l.show(l.Active().Version, false)
	l.config.Warn("Config was lost from the store, not put back yet", "reason", cause)
}

// kept notes that the store holds known as version. mu is held.
func (l *Limits) kept(version int64) {
	l.place = placeStore
	l.show(version, !l.known.Deleted)
}

// show corrects what Active says about the store. mu is held.
func (l *Limits) show(version int64, stored bool) {
	a := *l.Active()
	if a.Version == version && a.Stored == stored {
		return
	}
	a.Version, a.Stored = version, stored
	l.active.Store(&a)
}
