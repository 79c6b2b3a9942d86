package store

import (
	"context"
	"time"

	"weir/proxy/limit"
)

// A Backend is a database that keeps what proxies share, as package store/lane uses it:
// it sends and understands, and remembers nothing about who asked. Everything that comes
// before and behind (gathering, groups, refusals from memory, failure modes) is the
// lane's.
//
// Its methods wait, so they are called by goroutines beside the loops, many at a time.
// Each ends when its context does, soon after Close at the latest. Nothing is sent twice
// unless it is certain that it has not run. No method logs.
type Backend interface {
	// Probe finds out whether the store decides, that is whether it may write; it
	// connects when there is no connection. It is called at the start and while the store
	// counts as unavailable, one call at a time, and bounds its own time.
	Probe(ctx context.Context) error
	// Decide gives back what the batch's releases say and then decides its groups, each all
	// or nothing and in their order, so that the first of them are served first.
	Decide(ctx context.Context, b *Batch)

	// Forget removes a key under all kinds of limits, and reports whether there was one.
	// Add gives it n > 0 permits more than it has now under each, at most until it is as
	// new, and reports whether it could use some; see [limit.State.Add]. Both count as an
	// edit afterwards, also when there was nothing to do.
	Forget(ctx context.Context, rule string, key []byte) (bool, error)
	Add(ctx context.Context, rule string, key []byte, n int64) (bool, error)
	// Edits returns a text that is another after every edit by any proxy.
	Edits(ctx context.Context) (string, error)

	// Lease takes the lease called name for owner, or keeps it, for ttl from when the server
	// was asked, and reports whether owner holds it; a ttl of 0 gives it back.
	Lease(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)

	// Marks returns for each document a text that is another when the document is,
	// without reading all of it. Read and CompareAndSet are as in [Store]; the version
	// returned by CompareAndSet is 0 when it has not written. These three bound their
	// own time and use another connection than the rest, so that no document delays
	// decisions.
	Marks(ctx context.Context, names []string) ([]string, error)
	Read(ctx context.Context, name string) (Document, error)
	CompareAndSet(ctx context.Context, name string, version int64, body []byte) (int64, error)

	// Classify says what an error that one of the others returned means. It is nil for nil.
	Classify(err error) Fault
	// Close ends all connections. Nothing is called afterwards.
	Close()
}

// A Batch is what a lane sends at once.
//
// Owned by who calls Decide, which writes what came of it.
type Batch struct {
	Groups   []*Group
	Releases []Release
}

// A Group is N requests that wait for the same counters.
type Group struct {
	Counters []Counter // of those that are off nothing is kept, and nothing need be asked
	N        int

	// What was decided. With Err nothing was charged, or it is not known what was; the
	// rest is without meaning then.
	Err     error
	Granted int                      // of N, the first ones
	At      [CountersMax]int64       // for each counter the server's time in µs when it was decided
	Before  [CountersMax]limit.State // the state that each counter's key had then
}

// A Release is a place in the queue of a leaky counter that is given back, if it is the
// last and its slot is still to come; see [limit.Limit.Release].
type Release struct {
	Counter Counter
	Slot    int64
}

// A Fault is what an error says about a store.
type Fault struct {
	Class     Class
	Code      string              // the store's own word for it; empty when the store itself has not answered
	Permanent *MisconfiguredError // only a person can end it; else nil
}

// A Class says how far a fault reaches.
type Class uint8

const (
	NoFault     Class = iota
	ItemFault         // this call cannot be decided, others may
	LateFault         // no answer in time; the call may have run
	OutageFault       // the connection broke, or the server says that it cannot decide for now
)
