package admin

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/metric"
	"weir/proxy/store"
)

// aheadMax is how far a stored change may be dated ahead of this proxy's clock
// without a warning. Changes that proxies make apart from each other are put in
// order by their clocks.
const aheadMax = time.Hour

// ErrAway: the store did not answer.
var ErrAway = errors.New("the store is unavailable")

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

// An entry is a change that somebody has made to a document. Its body goes from proxy
// to proxy and back to the store as it is, so that all of them mean the same by it.
//
// Immutable after it is in force.
type entry struct {
	UpdatedAt time.Time // when, by his clock
	body      []byte    // as the store keeps it
	unknown   string    // of a stored document: a field that is not known, and is passed over
	// force puts it in force as a version, and notes whether the store holds it. An
	// error says why it cannot; then nothing has changed.
	force func(version int64, stored bool) error
}

// laterThan reports whether e is the later change; any is later than none.
// Different changes of the same instant have an order, too: which one does not
// matter, as long as all proxies agree.
func (e *entry) laterThan(known *entry) bool {
	if known == nil {
		return true
	}
	if order := e.UpdatedAt.Compare(known.UpdatedAt); order != 0 {
		return order > 0
	}
	return bytes.Compare(e.body, known.body) > 0
}

// A ledger knows the latest change of one document of the store, and brings store
// and proxy together, by the rules of [Limits.Observe]: whatever the two know, the
// change made last is in force on all proxies in the end.
//
// Owned by whoever holds the lock that guards it.
type ledger struct {
	name  string // of the document
	title string // in log lines: Stored <title> ignored
	lost  string // in log lines: <lost> lost from the store
	noun  string // in log lines: <noun> stored
	docs  store.Documents
	log   *slog.Logger
	// read understands a document of the store.
	read func(doc store.Document) (*entry, error)
	// show corrects what is told about the store.
	show func(version int64, stored bool)

	looked  bool            // the store has answered since the start
	first   bool            // and what is being looked at is its first answer
	seen    int64           // version of the document last read or written, whether it was understood or not
	version int64           // of what is in force
	known   *entry          // the latest change known, made here or by others; nil: none
	place   place           // where known is
	ignored *store.Document // what was seen last, if it was not understood
	unknown string          // the field not known that was warned about last

	// For metrics and health, which do not wait for the lock:
	unstored atomic.Bool // the store holds something else than what is in force
	misread  atomic.Bool // because it cannot be understood
}

// tell notes for metrics and health whether the store holds what is in force.
func (l *ledger) tell() {
	l.misread.Store(l.ignored != nil)
	l.unstored.Store(l.ignored != nil || l.place == placeHere || l.place == placeLost || l.place == placeCovered)
}

// registerMetrics adds the gauge of that.
func (l *ledger) registerMetrics(set *metric.Set) {
	set.Gauge("ratelimiter_config_unstored"+metric.Labels("document", strings.TrimPrefix(l.name, "ratelimiter:")), "1 while the store holds something else than what is in force here", func() float64 {
		if l.unstored.Load() {
			return 1
		}
		return 0
	})
}

// A basis is what a change rests on.
type basis struct {
	ifMatch    int64 // the version in force here; -1: any, also what another proxy has just written
	storedOnly bool  // nothing changes while the store is unavailable
}

// write stores the change that propose makes, for the time at which it counts as
// made, and puts it in force; while the store is unavailable on this proxy only. propose is
// asked again when another proxy was first. The error is its own, ErrConflict, ErrAway,
// store.ErrReadOnly, or a store.SizeError.
func (l *ledger) write(now time.Time, on basis, propose func(at time.Time) (*entry, error)) error {
	if on.ifMatch >= 0 && on.ifMatch != l.version {
		return ErrConflict
	}
	defer l.tell()
	for range writeTriesMax {
		c, err := propose(l.stamp(now))
		if err != nil {
			return err
		}
		if err := store.CheckSize(c.body); err != nil {
			return fmt.Errorf("write %s: %w", l.name, err)
		}
		doc, written, err := l.docs.CompareAndSet(l.name, l.seen, c.body)
		switch {
		case errors.Is(err, store.ErrReadOnly):
			return fmt.Errorf("write %s: %w", l.name, err)
		case err != nil && on.storedOnly:
			return fmt.Errorf("%w: %w", ErrAway, err)
		case err != nil:
			l.known, l.place, l.version = c, placeHere, max(0, l.seen, l.version)+1
			if err := c.force(l.version, false); err != nil {
				return err
			}
			l.log.Warn(l.noun+" not stored yet, in force on this proxy only", "reason", err)
			return nil
		case written:
			l.known, l.place, l.ignored = c, placeStore, nil
			l.seen, l.version = doc.Version, doc.Version
			return c.force(l.version, true)
		}
		found, _ := l.take(now, doc) // has warned
		if on.ifMatch >= 0 && (found == findingLater || found == findingUnreadable) {
			return ErrConflict
		}
	}
	return ErrConflict
}

// stamp is when a change made now counts as made: later than the change before
// it, whatever the clocks of those who made the two say.
func (l *ledger) stamp(now time.Time) time.Time {
	at := now.UTC().Round(0) // as it is stored: without the monotonic clock's reading
	if l.known != nil && !at.After(l.known.UpdatedAt) {
		return l.known.UpdatedAt.Add(1)
	}
	return at
}

// reload reads the store, and tells again what cannot be understood. The error is
// ErrAway, or says why.
func (l *ledger) reload(now time.Time) error {
	doc, err := l.docs.Read(l.name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	l.ignored = nil
	return l.settle(now, doc)
}

// pending reports whether something is to be written.
func (l *ledger) pending() bool { return !l.looked || l.place == placeHere || l.place == placeLost }

// settle brings the store, which holds doc, and this proxy to the later of what
// the two know. The error says why doc cannot be understood.
func (l *ledger) settle(now time.Time, doc store.Document) error {
	defer l.tell()
	for range writeTriesMax {
		found, err := l.take(now, doc)
		if found != findingEarlier && (found != findingUnreadable || l.place != placeHere) {
			return err
		}
		next, written, err := l.docs.CompareAndSet(l.name, l.seen, l.known.body)
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
// store. The error is why the document is unreadable.
func (l *ledger) take(now time.Time, doc store.Document) (finding, error) {
	l.first, l.looked, l.seen = !l.looked, true, doc.Version
	if doc.Version == 0 {
		l.ignored = nil
		if l.known == nil {
			return findingSame, nil
		}
		return findingEarlier, nil
	}
	if l.known != nil && doc.Version > 0 && bytes.Equal(doc.Body, l.known.body) {
		l.ignored = nil
		l.kept(doc.Version)
		return findingSame, nil
	}
	if l.ignored != nil && l.ignored.Version == doc.Version && bytes.Equal(l.ignored.Body, doc.Body) {
		return findingUnreadable, errIgnored
	}
	l.ignored = nil
	c, err := l.read(doc)
	if err == nil && !c.laterThan(l.known) {
		return findingEarlier, nil
	}
	if err == nil {
		err = c.force(doc.Version, true)
	}
	if err != nil {
		return findingUnreadable, l.ignore(doc, err)
	}
	l.known, l.place, l.version = c, placeStore, doc.Version
	if c.unknown != "" && c.unknown != l.unknown {
		l.unknown = c.unknown
		l.log.Warn("Stored "+l.title+" has a field that this version does not know, it is ignored", "reason", c.unknown)
	}
	if ahead := c.UpdatedAt.Sub(now); ahead > aheadMax {
		l.log.Warn("Stored "+l.title+" is dated ahead of this clock", "ahead", ahead)
	}
	return findingLater, nil
}

var errIgnored = errors.New("the stored document is still not understood")

// ignore leaves a document alone that cannot be understood, and warns.
func (l *ledger) ignore(doc store.Document, cause error) error {
	err := fmt.Errorf("read %s: %w", l.name, cause)
	if l.place == placeStore || l.place == placeLost {
		l.place = placeCovered
		l.show(l.version, false)
	}
	l.ignored = &store.Document{Version: doc.Version, Body: bytes.Clone(doc.Body)}
	l.log.Warn("Stored "+l.title+" ignored, what is in force stays", "reason", err)
	return err
}

// written notes that known has been written.
func (l *ledger) written(version int64) {
	if l.place == placeHere {
		l.log.Info(l.noun+" stored", "version", version)
	} else {
		l.log.Warn(l.lost+" lost from the store, put back", "version", version)
	}
	l.seen, l.ignored = version, nil
	l.kept(version)
}

// notWritten notes that known could not be written, which is tried again.
func (l *ledger) notWritten(cause error) {
	if l.place == placeHere || l.place == placeLost {
		return // no news
	}
	l.place = placeLost
	l.show(l.version, false)
	l.log.Warn(l.lost+" lost from the store, not put back yet", "reason", cause)
}

// kept notes that the store holds known as version.
func (l *ledger) kept(version int64) {
	l.place, l.version = placeStore, version
	l.show(version, true)
}
