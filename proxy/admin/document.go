package admin

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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

// An entry is a change to a document. Its body goes from proxy
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

// Held describes the change that is in force.
type Held struct {
	// Version is that of the store's document, 0 when there is none. While a change has
	// not reached the store it is the next one: the store may give it another. With
	// RULES_FILE it is the Epoch.
	Version int64
	Source  string // one of the sources
	// UpdatedAt is when it was changed, by the clock of that proxy, and later than the change
	// before it; of settings the start, of a file when it was read.
	UpdatedAt time.Time
	Stored    bool // the store holds it, not only this proxy; false for the settings
}

// A document is one document of the store, which keeps it for all proxies and may be
// unavailable, and the T that it puts in force here. It knows the latest change, and
// brings store and proxy together: see [document.Observe].
//
// Safe for concurrent use: readers load one pointer; mu lets one writer work at a time.
// Methods that are not exported need mu, but for change, follow and those for metrics.
type document[T any] struct {
	// OnChange, unless nil, is called after each change of what is in force, one call at
	// a time, by whoever brought the change. It is set before any other use and must not
	// call a method that changes something.
	OnChange func()
	// InMemory: what the store holds ends with this process. It is set before any other
	// use.
	InMemory bool

	name  string          // of the document
	title string          // in log lines: Stored <title> ignored
	lost  string          // in log lines: <lost> lost from the store
	noun  string          // in log lines: <noun> stored
	docs  store.Documents // nil: nothing of this is stored
	log   *slog.Logger
	read  func(doc store.Document) (*entry, error) // understands a document of the store
	held  func(*T) *Held                           // the part of a T

	mu     sync.Mutex
	active atomic.Pointer[T]

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
func (d *document[T]) tell() {
	d.misread.Store(d.ignored != nil)
	d.unstored.Store(d.ignored != nil || d.place == placeHere || d.place == placeLost || d.place == placeCovered)
}

// registerMetrics adds the gauge of that.
func (d *document[T]) registerMetrics(set *metric.Set) {
	set.Gauge("ratelimiter_config_unstored"+metric.Labels("document", strings.TrimPrefix(d.name, "ratelimiter:")), "1 while the store holds something else than what is in force here", func() float64 {
		if d.unstored.Load() {
			return 1
		}
		return 0
	})
}

// show corrects what is said about the store.
func (d *document[T]) show(version int64, stored bool) {
	a := *d.Active()
	h := d.held(&a)
	stored = stored && h.Source != SourceDefault
	if h.Version == version && h.Stored == stored {
		return
	}
	h.Version, h.Stored = version, stored
	d.active.Store(&a)
}

// changed calls OnChange.
func (d *document[T]) changed() {
	if d.OnChange != nil {
		d.OnChange()
	}
}

// A basis is what a change rests on.
type basis struct {
	ifMatch    int64 // the version in force here; -1: any, also what another proxy has just written
	storedOnly bool  // nothing changes while the store is unavailable
}

// change is write without mu held, and returns what is in force then.
func (d *document[T]) change(now time.Time, on basis, propose func(at time.Time) (*entry, error)) (*T, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.write(now, on, propose); err != nil {
		return nil, err
	}
	return d.Active(), nil
}

// write stores the change that propose makes, for the time at which it counts as
// made, and puts it in force; while the store is unavailable on this proxy only. propose is
// asked again when another proxy was first. The error is its own, ErrConflict, ErrAway,
// store.ErrReadOnly, or a store.SizeError.
func (d *document[T]) write(now time.Time, on basis, propose func(at time.Time) (*entry, error)) error {
	if on.ifMatch >= 0 && on.ifMatch != d.version {
		return ErrConflict
	}
	defer d.tell()
	for range writeTriesMax {
		c, err := propose(d.stamp(now))
		if err != nil {
			return err
		}
		if err := store.CheckSize(c.body); err != nil {
			return fmt.Errorf("write %s: %w", d.name, err)
		}
		doc, written, err := d.docs.CompareAndSet(d.name, d.seen, c.body)
		switch {
		case errors.Is(err, store.ErrReadOnly):
			return fmt.Errorf("write %s: %w", d.name, err)
		case err != nil && on.storedOnly:
			return fmt.Errorf("%w: %w", ErrAway, err)
		case err != nil:
			d.known, d.place, d.version = c, placeHere, max(0, d.seen, d.version)+1
			if err := c.force(d.version, false); err != nil {
				return err
			}
			d.log.Warn(d.noun+" not stored yet, in force on this proxy only", "reason", err)
			return nil
		case written:
			d.known, d.place, d.ignored = c, placeStore, nil
			d.seen, d.version = doc.Version, doc.Version
			return c.force(d.version, true)
		}
		found, _ := d.take(now, doc) // has warned
		if on.ifMatch >= 0 && (found == findingLater || found == findingUnreadable) {
			return ErrConflict
		}
	}
	return ErrConflict
}

// stamp is when a change made now counts as made: later than the change before
// it, whatever the clocks of those who made the two say.
func (d *document[T]) stamp(now time.Time) time.Time {
	at := now.UTC().Round(0) // as it is stored: without the monotonic clock's reading
	if d.known != nil && !at.After(d.known.UpdatedAt) {
		return d.known.UpdatedAt.Add(1)
	}
	return at
}

// reload reads the store, and warns again of what cannot be understood. The error is
// ErrAway, or says why.
func (d *document[T]) reload(now time.Time) error {
	doc, err := d.docs.Read(d.name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	d.ignored = nil
	return d.settle(now, doc)
}

// pending reports whether something is to be written.
func (d *document[T]) pending() bool {
	return !d.looked || d.place == placeHere || d.place == placeLost
}

// settle brings the store, which holds doc, and this proxy to the later of what
// the two know. The error says why doc cannot be understood.
func (d *document[T]) settle(now time.Time, doc store.Document) error {
	defer d.tell()
	for range writeTriesMax {
		found, err := d.take(now, doc)
		if found != findingEarlier && (found != findingUnreadable || d.place != placeHere) {
			return err
		}
		next, written, err := d.docs.CompareAndSet(d.name, d.seen, d.known.body)
		switch {
		case err != nil:
			d.notWritten(err)
			return nil
		case written:
			d.written(next.Version)
			return nil
		}
		doc = next
	}
	d.notWritten(ErrConflict)
	return nil
}

// take looks at what the store holds. It changes what is in force, and never the
// store. The error is why the document is unreadable.
func (d *document[T]) take(now time.Time, doc store.Document) (finding, error) {
	d.first, d.looked, d.seen = !d.looked, true, doc.Version
	if doc.Version == 0 {
		d.ignored = nil
		if d.known == nil {
			return findingSame, nil
		}
		return findingEarlier, nil
	}
	if d.known != nil && doc.Version > 0 && bytes.Equal(doc.Body, d.known.body) {
		d.ignored = nil
		d.kept(doc.Version)
		return findingSame, nil
	}
	if d.ignored != nil && d.ignored.Version == doc.Version && bytes.Equal(d.ignored.Body, doc.Body) {
		return findingUnreadable, errIgnored
	}
	d.ignored = nil
	c, err := d.read(doc)
	if err == nil && !c.laterThan(d.known) {
		return findingEarlier, nil
	}
	if err == nil {
		err = c.force(doc.Version, true)
	}
	if err != nil {
		return findingUnreadable, d.ignore(doc, err)
	}
	d.known, d.place, d.version = c, placeStore, doc.Version
	if c.unknown != "" && c.unknown != d.unknown {
		d.unknown = c.unknown
		d.log.Warn("Stored "+d.title+" has a field that this version does not know, it is ignored", "reason", c.unknown)
	}
	if ahead := c.UpdatedAt.Sub(now); ahead > aheadMax {
		d.log.Warn("Stored "+d.title+" is dated ahead of this clock", "ahead", ahead)
	}
	return findingLater, nil
}

var errIgnored = errors.New("the stored document is still not understood")

// ignore leaves a document alone that cannot be understood, and warns.
func (d *document[T]) ignore(doc store.Document, cause error) error {
	err := fmt.Errorf("read %s: %w", d.name, cause)
	if d.place == placeStore || d.place == placeLost {
		d.place = placeCovered
		d.show(d.version, false)
	}
	d.ignored = &store.Document{Version: doc.Version, Body: bytes.Clone(doc.Body)}
	d.log.Warn("Stored "+d.title+" ignored, what is in force stays", "reason", err)
	return err
}

// written notes that known has been written.
func (d *document[T]) written(version int64) {
	if d.place == placeHere {
		d.log.Info(d.noun+" stored", "version", version)
	} else {
		d.log.Warn(d.lost+" lost from the store, put back", "version", version)
	}
	d.seen, d.ignored = version, nil
	d.kept(version)
}

// notWritten notes that known could not be written, which is tried again.
func (d *document[T]) notWritten(cause error) {
	if d.place == placeHere || d.place == placeLost {
		return // no news
	}
	d.place = placeLost
	d.show(d.version, false)
	d.log.Warn(d.lost+" lost from the store, not put back yet", "reason", cause)
}

// kept notes that the store holds known as version.
func (d *document[T]) kept(version int64) {
	d.place, d.version = placeStore, version
	d.show(version, true)
}
