package store

import "time"

// A Store decides asks, and keeps documents and leases for the proxies that share it.
//
// Implementations are safe for concurrent use. Methods that return an error block and
// must not be called on loops. The error means that the store is unavailable or does not
// answer in time, and that it is unknown whether the call has taken effect.
type Store interface {
	// NewLane returns a lane; post calls a function on its goroutine. Use lane.ForLoop for a loop: it
	// also keeps the deadlines of asks.
	NewLane(post func(func(now time.Time))) Lane
	// Name returns the kind of store for health and metrics.
	Name() string
	// Mode returns how asks are currently answered: Exact, or the failure mode.
	Mode() Mode
	// ForgetRefusals makes all lanes forget their remembered refusals. It is called after
	// every change of rules or limits.
	ForgetRefusals()
	// Epoch returns a number that changes whenever remembered refusals are forgotten, for whatever
	// reason.
	Epoch() uint64

	// Forget removes a key under all kinds of limits, so that it is as new, and makes all
	// proxies forget their refusals, this one at once. It reports whether there was a
	// key.
	Forget(rule string, key []byte) (bool, error)
	// Add gives a key n ≥ 0 more permits by the store's clock, under every kind of limit,
	// but no more than a new key has, and makes proxies forget refusals as Forget does.
	// It reports whether the key could use any; see [limit.State.Add].
	Add(rule string, key []byte, n int64) (bool, error)

	DocumentStore
	// Watch calls changed with the current document of that name, and again within a second of
	// each change by any proxy, one call at a time. A change may be reported twice.
	Watch(name string, changed func(Document))

	// Lease takes or renews the named lease for owner, which must be unique among proxies, for at
	// least a millisecond, counted from before the call. It reports whether owner holds it. At
	// most one owner does at any time, unless the store loses data. Release gives it back.
	Lease(name, owner string, ttl time.Duration) (held bool, err error)
	Release(name, owner string) error

	// Close ends background work. Close the lanes first.
	Close()
}

// A DocumentStore keeps small values under names such as ratelimiter:config.
type DocumentStore interface {
	// Read returns the named document. One that was never written has version 0 and no
	// body; one that something other than a proxy has written has version UnknownVersion. The
	// caller must not modify the body.
	Read(name string) (Document, error)
	// CompareAndSet writes body, which must be JSON, as the named document if its version
	// is still version: 0 for one never written, UnknownVersion for one that something other
	// than a proxy has written. It returns the document as it is afterwards, and whether
	// it was written. The error may be a [SizeError].
	CompareAndSet(name string, version int64, body []byte) (Document, bool, error)
}

// A Lane is one event loop's access to a store.
//
// Owned by its loop.
type Lane interface {
	// Ask asks the store to decide. If it returns true, ans holds the answer. Otherwise
	// done is called once, later, on the loop.
	Ask(now time.Time, ask *Ask, ans *Answer, done Done) bool
	// Refund gives back what a request was charged and has not used; see
	// limit.Limit.Refund. instant is Answer.At of the answer of that mode; for leaky it is
	// limit.Decision.Slot. It is called at most once for a request. There is no answer. If
	// the refund is lost, the request stays charged.
	Refund(now time.Time, c *Counter, instant int64, mode Mode)
	// Close waits until pending calls have returned. Waiting asks get no answer. It is
	// called after the loop has ended, or on it.
	Close()
}

// A Done receives the answer of an ask, on the loop. The answer is valid during the call.
type Done func(now time.Time, ans *Answer)
