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

	"weir/internal/program/metric"
	"weir/proxy/store"
)

// aheadMax is how far a stored change may be dated ahead of this proxy's clock without a
// warning. Clocks determine the order of changes that proxies make independently.
const aheadMax = time.Hour

// ErrUnavailable means that the store is unavailable.
var ErrUnavailable = errors.New("the store is unavailable")

// An entry is a change to a document. Its body is passed between proxies and store
// unchanged, so that all of them interpret it alike.
//
// Immutable after it is in force.
type entry struct {
	UpdatedAt time.Time // by the clock of the proxy that made it
	body      []byte    // as stored
	unknown   string    // of a stored document: an unknown field, which is ignored
	// force puts the entry in force as the given version; stored says whether the store
	// has it. If it returns an error, nothing has changed.
	force func(version int64, stored bool) error
}

// laterThan reports whether e is the later change; any change is later than none.
// Different changes of the same instant are ordered too, in any way that all proxies
// agree on.
func (e *entry) laterThan(known *entry) bool {
	if known == nil {
		return true
	}
	if order := e.UpdatedAt.Compare(known.UpdatedAt); order != 0 {
		return order > 0
	}
	return bytes.Compare(e.body, known.body) > 0
}

// ChangeInfo describes the change in force.
type ChangeInfo struct {
	// Version is that of the store's document, or 0 if there is none. While a change has
	// not reached the store it is the next version, but the store may assign another.
	// With RULES_FILE it is the Epoch.
	Version int64
	Source  string // one of the sources
	// UpdatedAt is when the change was made, by the clock of that proxy, and later than
	// the change before it. For the settings it is the start, for a file when it was
	// read.
	UpdatedAt time.Time
	Stored    bool // in the store, not only in this proxy; false for the settings
}

// A document is one document of the store, which may be unavailable, and the T that it puts in
// force on this proxy. It has the latest known change, and synchronizes store and proxy: see
// [document.Observe].
//
// Safe for concurrent use: readers load one pointer; mu admits one writer at a time. Unexported
// methods need mu, except those for metrics.
type document[T any] struct {
	// OnChange, if not nil, is called after each change of what is in force, one call at a time,
	// on the goroutine that made the change. It is set before any other use and must not call a
	// method that changes something.
	OnChange func()
	// InMemory says that the content of the store ends with this process. It is set
	// before any other use.
	InMemory bool

	name  string              // name of the document
	title string              // in log lines: Stored <title> ignored
	lost  string              // in log lines: <lost> lost from the store
	noun  string              // in log lines: <noun> stored
	docs  store.DocumentStore // nil: nothing is stored
	log   *slog.Logger
	read  func(doc store.Document) (*entry, error) // parses a document of the store
	info  func(*T) *ChangeInfo                     // returns the ChangeInfo of a T

	mu     sync.Mutex
	active atomic.Pointer[T]

	looked    bool            // the store has answered since the start
	first     bool            // what is being processed is its first answer
	seen      int64           // version of the document last read or written, readable or not
	version   int64           // version in force
	known     *entry          // latest known change, made here or elsewhere, or nil
	situation situation       // see moves
	ignored   *store.Document // the unreadable document that was last warned about
	unknown   string          // the unknown field that was last warned about

	// For metrics and health, which must not wait for the lock:
	unstored atomic.Bool // the store has something other than what is in force
	misread  atomic.Bool // because it is unreadable
}

// handle moves to the situation after an event, and shows it. The caller has recorded what is
// known, seen and in force since.
func (d *document[T]) handle(e event) {
	d.situation = d.situation.after(e)
	if !d.situation.in(situationsUnreadable) {
		d.ignored = nil
	}
	d.misread.Store(d.situation.in(situationsUnreadable))
	d.unstored.Store(!d.situation.in(situationNowhere | situationStore))
	d.show(d.situation == situationStore)
}

// registerMetrics adds a gauge of unstored.
func (d *document[T]) registerMetrics(set *metric.Set) {
	set.Gauge("ratelimiter_config_unstored"+metric.Labels("document", strings.TrimPrefix(d.name, "ratelimiter:")),
		"1 while the store holds something other than what is in force here", func() float64 {
			return metric.Bool(d.unstored.Load())
		})
}

// show corrects the version and stored of what is in force.
func (d *document[T]) show(stored bool) {
	a := *d.Active()
	h := d.info(&a)
	stored = stored && h.Source != SourceDefault
	if h.Version == d.version && h.Stored == stored {
		return
	}
	h.Version, h.Stored = d.version, stored
	d.active.Store(&a)
}

func (d *document[T]) changed() {
	if d.OnChange != nil {
		d.OnChange()
	}
}

// A basis is what a change is based on.
type basis struct {
	ifMatch    int64 // the version in force here; -1: any, including what another proxy has just written
	storedOnly bool  // change nothing while the store is unavailable
}

// write stores the change that propose makes, dated with the given time, puts it in force, and
// returns what is in force then. While the store is unavailable that happens on this proxy
// only. propose is called again if another proxy wrote first. The error is that of propose,
// ErrConflict, ErrUnavailable, store.ErrReadOnly, or a store.SizeError.
func (d *document[T]) write(now time.Time, on basis, propose func(at time.Time) (*entry, error)) (*T, error) {
	if on.ifMatch >= 0 && on.ifMatch != d.version {
		return nil, ErrConflict
	}
	for range writeTriesMax {
		c, err := propose(d.stamp(now))
		if err != nil {
			return nil, err
		}
		if err := store.CheckSize(c.body); err != nil {
			return nil, fmt.Errorf("write %s: %w", d.name, err)
		}
		doc, written, err := d.docs.CompareAndSet(d.name, d.seen, c.body)
		switch {
		case errors.Is(err, store.ErrReadOnly):
			return nil, fmt.Errorf("write %s: %w", d.name, err)
		case err != nil && on.storedOnly:
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		case err != nil:
			d.known, d.version = c, max(0, d.seen, d.version)+1
			if err := c.force(d.version, false); err != nil {
				return nil, err
			}
			d.handle(eventUnstored)
			d.log.Warn(d.noun+" not stored yet, in force on this proxy only", "reason", err)
			return d.Active(), nil
		case written:
			d.known, d.seen, d.version = c, doc.Version, doc.Version
			err = c.force(d.version, true)
			d.handle(eventChanged)
			return d.Active(), err
		}
		found, _ := d.take(now, doc) // already logged
		if on.ifMatch >= 0 && (found == eventLater || found == eventUnreadable) {
			return nil, ErrConflict
		}
	}
	return nil, ErrConflict
}

// stamp returns the date of a change made now. It is later than the date of the previous change,
// even if that is ahead of this proxy's clock.
func (d *document[T]) stamp(now time.Time) time.Time {
	at := now.UTC().Round(0) // as stored: without the monotonic clock reading
	if d.known != nil && !at.After(d.known.UpdatedAt) {
		return d.known.UpdatedAt.Add(1)
	}
	return at
}

// reload reads the store, and warns again about an unreadable document. The error is
// ErrUnavailable, or says why.
func (d *document[T]) reload(now time.Time) error {
	doc, err := d.docs.Read(d.name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	d.ignored = nil
	return d.settle(now, doc)
}

// settle brings the store, which holds doc, and this proxy to the later of the two
// changes. The error says why doc is unreadable.
func (d *document[T]) settle(now time.Time, doc store.Document) error {
	for range writeTriesMax {
		_, err := d.take(now, doc)
		if !d.situation.in(situationsUnwritten) {
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

// take handles the content of the store, and puts a later change in force. It never changes the
// store. The error says why the document is unreadable.
func (d *document[T]) take(now time.Time, doc store.Document) (event, error) {
	e, err := d.compare(now, doc)
	d.handle(e)
	return e, err
}

// compare compares the content of the store with what is known.
func (d *document[T]) compare(now time.Time, doc store.Document) (event, error) {
	d.first, d.looked, d.seen = !d.looked, true, doc.Version
	switch {
	case doc.Version == 0 && d.known == nil:
		return eventSame, nil
	case doc.Version == 0:
		return eventEarlier, nil
	case d.known != nil && doc.Version > 0 && bytes.Equal(doc.Body, d.known.body):
		d.version = doc.Version
		return eventSame, nil
	case d.ignored != nil && d.ignored.Version == doc.Version && bytes.Equal(d.ignored.Body, doc.Body):
		return eventUnreadable, errors.New("the stored document is still unreadable")
	}
	c, err := d.read(doc)
	if err == nil && !c.laterThan(d.known) {
		return eventEarlier, nil
	}
	if err == nil {
		err = c.force(doc.Version, true)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", d.name, err)
		d.ignored = &store.Document{Version: doc.Version, Body: bytes.Clone(doc.Body)}
		d.log.Warn("Stored "+d.title+" ignored, the current one stays in force", "reason", err)
		return eventUnreadable, err
	}
	d.known, d.version = c, doc.Version
	if c.unknown != "" && c.unknown != d.unknown {
		d.unknown = c.unknown
		d.log.Warn("Stored "+d.title+" has an unknown field, which is ignored", "reason", c.unknown)
	}
	if ahead := c.UpdatedAt.Sub(now); ahead > aheadMax {
		d.log.Warn("Stored "+d.title+" is dated ahead of this clock", "ahead", ahead)
	}
	return eventLater, nil
}

// written records that known has been written again.
func (d *document[T]) written(version int64) {
	if d.situation.in(situationHere | situationBlocked) {
		d.log.Info(d.noun+" stored", "version", version)
	} else {
		d.log.Warn(d.lost+" lost from the store, written again", "version", version)
	}
	d.seen, d.version = version, version
	d.handle(eventWritten)
}

// notWritten records that known could not be written again. It will be tried again.
func (d *document[T]) notWritten(cause error) {
	if d.situation == situationMissing { // otherwise already logged
		d.log.Warn(d.lost+" lost from the store, not written again yet", "reason", cause)
	}
	d.handle(eventNotWritten)
}
