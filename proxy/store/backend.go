package store

import (
	"context"
	"time"

	"weir/proxy/limit"
)

// A Backend is a database that stores what proxies share, in the form that package store/lane
// uses. It only sends requests and reads answers, and keeps no state about callers. The lane does
// the rest: batching, grouping, remembered refusals, and failure modes.
//
// Its methods block, so they are called by goroutines outside the loops, many at a time.
// Each returns when its context ends, and soon after Close at the latest. A request is
// sent again only if it certainly has not been executed. No method logs.
type Backend interface {
	// Probe reports whether the store can decide, that is, whether it accepts writes. It
	// connects if there is no connection. It is called at the start and while the store
	// counts as unavailable, one call at a time, and bounds its own time.
	Probe(ctx context.Context) error
	// Decide carries out the batch's refunds and then decides its groups in order, each
	// all or nothing, so that the first are served first.
	Decide(ctx context.Context, b *Batch)

	// Forget removes a key under all kinds of limits, and reports whether there was one.
	// Add gives the key n > 0 more permits under each kind, but no more than a new key
	// has, and reports whether it could use any; see [limit.State.Add]. Both count as an
	// edit, even if there was nothing to do.
	Forget(ctx context.Context, rule string, key []byte) (bool, error)
	Add(ctx context.Context, rule string, key []byte, n int64) (bool, error)
	// Edits returns a text that changes with every edit by any proxy, and when the store may have
	// lost keys.
	Edits(ctx context.Context) (string, error)

	// Lease takes or renews the named lease for owner, for ttl from when the server was
	// asked, and reports whether owner holds it. A ttl of 0 releases it.
	Lease(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)

	// Marks returns for each document a text that changes when the document changes,
	// without reading the whole document. Read and CompareAndSet are as in [Store],
	// except that CompareAndSet returns version 0 if it has not written. These three
	// bound their own time and use a separate connection, so that documents do not delay
	// decisions.
	Marks(ctx context.Context, names []string) ([]string, error)
	Read(ctx context.Context, name string) (Document, error)
	CompareAndSet(ctx context.Context, name string, version int64, body []byte) (int64, error)

	// Classify classifies an error returned by another method. The Fault is zero for nil, and for
	// an error caused by this side giving up, which says nothing about the store.
	Classify(err error) Fault
	// Close closes all connections. No method is called afterwards.
	Close()
}

// DocumentTimeout bounds a backend's call about documents of that many bytes: 2 s, and for large
// ones the time that a link of 128 KiB per second needs.
func DocumentTimeout(bytes int) time.Duration {
	return 2*time.Second + time.Duration(bytes)*time.Second/(128<<10)
}

// A Batch is what a lane sends in one call.
//
// Owned by the caller of Decide, which fills in the results.
type Batch struct {
	Groups  []*Group
	Refunds []Refund
}

// A Group is N requests that wait for the same counters.
type Group struct {
	Counters []Counter // no state is kept for those that are off
	N        int

	// The result. If Err is not nil, nothing was charged, or it is unknown what was, and
	// the rest is meaningless.
	Err     error
	Alone   bool                     // decided by the master without its store, so nothing can be given back
	Granted int                      // how many of N, counted from the first
	At      [CountersMax]int64       // by counter, the server's time of the decision, in µs
	Before  [CountersMax]limit.State // by counter, the state of the key before the decision
}

// A Refund gives back what a request was charged; see [limit.Limit.Refund]. There is none for a
// limit that does not refund.
type Refund struct {
	Counter Counter
	Instant int64 // of the charge by the store's clock; leaky: of the slot that was booked
}

// A Fault classifies an error of a store.
type Fault struct {
	Class     ErrorClass
	Code      string              // the store's error code; empty if the store itself has not answered
	Permanent *MisconfiguredError // set if only an operator can repair it
}

// An ErrorClass is the scope of an error.
type ErrorClass uint8

const (
	NoFault      ErrorClass = iota
	ItemFault               // this call cannot be decided; others may be
	TimeoutFault            // no answer in time; the call may have been executed
	OutageFault             // the connection broke, or the server cannot decide for now
)
