package admin

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/strictjson"
	"weir/proxy/store"
)

// A revision is a document as somebody changed it. The body goes from proxy to proxy
// and back to the store as it is, so that all of them mean the same change by it.
//
// Immutable after New.
type revision struct {
	revised
	body []byte // as the store keeps it
}

// revised is the JSON that the store keeps.
type revised struct {
	Document  strictjson.Raw `json:"document"`
	UpdatedAt time.Time      `json:"updatedAt"`
}

// newRevision is the revision to document made at.
func newRevision(at time.Time, document []byte) (*revision, error) {
	c := &revision{revised: revised{document, at}}
	var err error
	c.body, err = json.Marshal(c.revised)
	return c, err
}

// readRevision is the revision that a document of the store holds.
func readRevision(doc store.Document) (*revision, error) {
	if doc.Version < 0 {
		return nil, errForeign
	}
	c := &revision{body: bytes.Clone(doc.Body)}
	return c, strictjson.Decode(c.body, &c.revised)
}

// laterThan is as of [entry].
func (c *revision) laterThan(known *revision) bool {
	if known == nil {
		return true
	}
	if order := c.UpdatedAt.Compare(known.UpdatedAt); order != 0 {
		return order > 0
	}
	return bytes.Compare(c.body, known.body) > 0
}

// A ledger knows the latest change of one document of the store, and brings store
// and proxy together, by the rules of [Limits.Observe]: whatever the two know, the
// change made last is in force on all proxies in the end.
//
// Owned by whoever holds the lock that guards it.
type ledger struct {
	name string // of the document
	noun string // what log lines call it
	docs Documents
	log  *slog.Logger
	// adopt puts a change in force that the store holds as version. An error says
	// why it cannot; then nothing has changed.
	adopt func(c *revision, version int64) error
	// show corrects what is told about the store.
	show func(version int64, stored bool)

	looked  bool            // the store has answered since the start
	seen    int64           // version of the document last read or written, whether it was understood or not
	version int64           // of what is in force
	known   *revision       // the latest change known; nil: none
	place   place           // where known is
	ignored *store.Document // what was seen last, if it was not understood
}

// write stores a change to document, dates it, and has force put it in force; when
// the store is away too. ifMatch is the version that it is based on; -1: any. The
// error is ErrConflict.
func (l *ledger) write(now time.Time, ifMatch int64, document []byte, force func(c *revision, version int64, stored bool)) error {
	if ifMatch >= 0 && ifMatch != l.version {
		return ErrConflict
	}
	for range writeTriesMax {
		c, err := newRevision(l.stamp(now), document)
		if err != nil {
			return fmt.Errorf("write %s: %w", l.name, err)
		}
		doc, written, err := l.docs.CompareAndSet(l.name, l.seen, c.body)
		switch {
		case err != nil:
			l.known, l.place, l.version = c, placeHere, max(0, l.seen, l.version)+1
			force(c, l.version, false)
			l.log.Warn(l.noun+" not stored yet, in force on this proxy only", "reason", err)
			return nil
		case written:
			l.known, l.place, l.ignored = c, placeStore, nil
			l.seen, l.version = doc.Version, doc.Version
			force(c, l.version, true)
			return nil
		}
		found, _ := l.take(now, doc) // has warned
		if ifMatch >= 0 && (found == findingLater || found == findingUnreadable) {
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
	l.looked, l.seen = true, doc.Version
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
	c, err := readRevision(doc)
	if err == nil && !c.laterThan(l.known) {
		return findingEarlier, nil
	}
	if err == nil {
		err = l.adopt(c, doc.Version)
	}
	if err != nil {
		return findingUnreadable, l.ignore(doc, err)
	}
	l.known, l.place, l.version = c, placeStore, doc.Version
	if ahead := c.UpdatedAt.Sub(now); ahead > aheadMax {
		l.log.Warn("Stored "+l.name+" is dated ahead of this clock", "ahead", ahead)
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
	l.log.Warn("Stored "+l.name+" ignored, what is in force stays", "reason", err)
	return err
}

// written notes that known has been written.
func (l *ledger) written(version int64) {
	if l.place == placeHere {
		l.log.Info(l.noun+" stored", "version", version)
	} else {
		l.log.Warn(l.noun+" were lost from the store, put back", "version", version)
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
	l.log.Warn(l.noun+" were lost from the store, not put back yet", "reason", cause)
}

// kept notes that the store holds known as version.
func (l *ledger) kept(version int64) {
	l.place, l.version = placeStore, version
	l.show(version, true)
}
