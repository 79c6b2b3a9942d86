package store

import (
	"fmt"
	"time"
)

// A Store decides asks and keeps documents and leases for the proxies that share it.
//
// Safe for concurrent use: by its implementations. Methods that return an error wait for
// the store and are not for loops; the error is that it is unavailable or does not answer
// in time, and then it is unknown whether what was asked has happened.
type Store interface {
	// NewLane returns a lane for a loop; post has a function called on that loop.
	NewLane(post func(func(now time.Time))) Lane
	// Name is the word for the kind of store in health and metrics.
	Name() string
	// Mode is how asks are answered now: Exact, or the failure mode.
	Mode() Mode
	// Forgetful makes all lanes forget the refusals that they remember. It is called after
	// every change of rules or limits.
	Forgetful()
	// Epoch is another number after refusals were forgotten, for whatever reason.
	Epoch() uint64

	// Forget removes a key under all kinds of limits, so that it is as one never seen, and
	// has all proxies forget their refusals, this one at once. It reports whether there
	// was one.
	Forget(rule string, key []byte) (bool, error)
	// Add gives a key n ≥ 0 permits more than it has now by the store's clock, under every
	// kind of limits and at most until it is as new, and has refusals forgotten as Forget
	// does. It reports whether the key could use some; see [limit.State.Add].
	Add(rule string, key []byte, n int64) (bool, error)

	Documents
	// Watch has changed called with the document called name as it is now, and again
	// within a second of each change by anybody, one call at a time. A change may be told
	// twice.
	Watch(name string, changed func(Document))

	// Lease takes the lease called name for owner, a word that nobody else has, or keeps
	// it, for at least a millisecond from before the call. It reports whether owner holds
	// it; at any time at most one does, unless the store loses it. Release gives it back.
	Lease(name, owner string, ttl time.Duration) (held bool, err error)
	Release(name, owner string) error

	// Close ends what runs in the background. Close the lanes first.
	Close()
}

// Documents are small values under names such as ratelimiter:config.
type Documents interface {
	// Read returns the document called name; one that was never written has version 0 and
	// no body, one that no proxy has written has version Foreign. The body must not be
	// changed.
	Read(name string) (Document, error)
	// CompareAndSet makes body, which must be JSON, the document called name if its
	// version still is version: 0 for one that was never written, Foreign for one that no
	// proxy has written. It returns the document as it is then, and whether it was written.
	// The error may be a [SizeError].
	CompareAndSet(name string, version int64, body []byte) (Document, bool, error)
}

// A Lane is one event loop's way to a store.
//
// Owned by its loop.
type Lane interface {
	// Ask has the store decide. It returns true when ans holds the answer already. Otherwise
	// done is called later on the loop, once; see Next.
	Ask(now time.Time, ask *Ask, ans *Answer, done Done) bool
	// Release gives back the place that a request had booked in the queue of a leaky
	// counter, whose client has left: if it was the last and its slot, limit.Decision.Slot
	// of the answer of that mode, is still to come. Nobody is told what comes of it. When it
	// is lost the place stays booked and nobody takes it.
	Release(now time.Time, c *Counter, slot int64, mode Mode)
	// Next returns when Expire wants to be called; zero: never.
	Next() time.Time
	// Expire answers asks whose deadline has passed by the failure mode.
	Expire(now time.Time)
	// Close waits until what is under way has come back. Asks that still wait get no answer.
	// It is called after the loop has ended, or on it.
	Close()
}

// Done is told the answer of an ask, on the loop. The answer is valid during the call.
type Done func(now time.Time, ans *Answer)

// ParseFailureMode returns the mode that a setting's word means.
func ParseFailureMode(word string) (Mode, error) {
	switch word {
	case "open":
		return FailOpen, nil
	case "local":
		return Local, nil
	case "closed":
		return Closed, nil
	}
	return 0, fmt.Errorf("must be one of open, local, closed, is %q", word)
}
