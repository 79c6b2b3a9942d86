package deferred

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A Queue stores entries. Put and Settle do not block and may be called on an event loop; the
// result is passed to Done on a goroutine of the queue, which Done must not block. All other
// methods wait for a disk or a network, so they are called by goroutines other than the loops.
// They return when ctx ends, unless they wait for a disk of this machine, and soon after Close.
// Times passed as now may step back.
//
// Safe for concurrent use.
type Queue interface {
	// Put stores an entry. Done is called once, before Put returns or later; the outcome is
	// Accepted only if the entry is durable. When the queue cannot be written, it is Unstored of all
	// puts, also of those that wait already: nobody waits for the end of an outage. State, Attempts,
	// Last and Result of the entry are ignored.
	Put(now time.Time, p *PutRequest)

	// Claim returns at most n entries that are due, as [Delivering] with a lease of LeaseDuration. next
	// is the latest time to ask again if nothing is put, settled or edited before; zero means
	// unknown. The new states are durable when Claim returns. Of a line with OneAtATime only the
	// first entry is claimed, and only if none is delivering. Entries that have expired
	// ([Entry.Expires] has passed) are claimed too, in their turn; they must be settled as Expired
	// without an attempt. Lines of paused rules and of the rules in except are not claimed and do
	// not count for next.
	Claim(ctx context.Context, now time.Time, n int, except ...string) (claimed []ClaimedEntry, next time.Time, err error)
	// Renew extends leases to LeaseDuration from now. It returns the leases that are lost: the entry
	// was settled, or the lease expired and was taken back, which Claim does. A Keyed entry that is
	// taken back waits again, with one more attempt; another becomes Unknown. Leases in a queue that
	// belongs to one proxy do not expire while it is open, because the clock may be set forward.
	// Without leases it only finds out whether the queue answers.
	Renew(ctx context.Context, now time.Time, leases []Lease) (lost []Lease, err error)
	// Settle records the outcome of a claimed entry. The line does not change until that is
	// durable. A failed write is retried, so Done may be called late.
	Settle(now time.Time, s *Settlement)

	// Known reports whether there is an entry with a Scope, unless its NeverSent is true: a PutRequest with this
	// Scope would be answered Duplicate or Conflict. It returns when ctx ends.
	Known(ctx context.Context, scope SHA256) (bool, error)
	// Read returns an entry with its position in its line, counted from 1, or 0 if it is in none.
	// The error is ErrNotFound if there is no such entry.
	Read(ctx context.Context, id ID) (e *Entry, position int, err error)
	// List returns entries without Head and Body, and results without Head and Body.
	List(ctx context.Context, q Query) (Page, error)
	// Edit changes entries for an operator or a client, and returns how many were changed. For an
	// Edit with an ID the error is ErrNotFound, or ErrState if the state of the entry does not
	// allow it.
	Edit(ctx context.Context, now time.Time, e Edit) (n int, err error)
	// Pause pauses or resumes the lines of a rule. The change is durable when it returns.
	Pause(ctx context.Context, rule string, paused bool) error

	// Stats returns the content of the queue. It does not block.
	Stats() Stats
	// Close closes the queue; another process can open it within CloseTimeout. Entries that are
	// being stored are either stored or reported as Unstored. Entries that are delivering keep
	// that state, and return to their lines as if their leases had expired.
	Close() error
}

// Bounds of all queues.
const (
	LeaseDuration = time.Minute
	CloseTimeout  = time.Second
	ListMax       = 1000 // entries of one page
	parallelMax   = 1024 // entries at the head of a line that are considered
)

// LeaseExpired is the Last.Error of a delivery whose lease has expired.
const LeaseExpired = "the delivery was cut off"

// Errors of the methods of a Queue.
var (
	ErrNotFound = errors.New("there is no such entry")
	ErrState    = errors.New("the entry's state does not allow that")
	ErrLease    = errors.New("the lease is lost: it has expired, or the entry was settled before")
	ErrClosed   = errors.New("the queue is closed")
	// ErrInUse means that a queue is used by another proxy. After a take-over, opening is retried
	// until the predecessor has closed it.
	ErrInUse = errors.New("it is used by another proxy")
	// ErrDuplicateID is the error of a PutRequest whose ID belongs to another entry.
	ErrDuplicateID = errors.New("there is an entry with this ID")
)

// Limits bound the content of a queue.
type Limits struct {
	Entries int   // entries of all rules that wait or are delivering
	Bytes   int64 // total size of all entries, including final ones
	// Share is the share of both that one client ([Entry.Client]) or one line with a key may have; 0
	// means 0.1. It is at least one entry. Lines of rules with one counter for all requests have no
	// such bound, and entries in lines that are not from a client count for none. The share of a
	// client includes the bytes of its final entries. When these take more than half of it, see
	// FinalBytesMax, the oldest of them are deleted before their time, but never the only one; those
	// that are not from a client have one such bound in common.
	Share float64
	// DeadKeep is how long entries are kept that were cancelled, or that became Unknown because
	// their leases expired.
	DeadKeep time.Duration
}

// shareDefault is the default of Limits.Share.
const shareDefault = 0.1

// ShareMax returns the maximum number of entries and bytes of one client or line.
func (l *Limits) ShareMax() (entries, bytes int64) {
	share := cmp.Or(l.Share, shareDefault)
	return max(1, int64(float64(l.Entries)*share)), int64(float64(l.Bytes) * share)
}

// The values of PutResult.Scope.
const (
	ScopeOneProxy = "proxy"  // the queue belongs to one proxy
	ScopeShared   = "shared" // the queue is shared by all proxies that use it
)

// FinalBytesMax returns the maximum number of bytes of the final entries of one client.
func (l *Limits) FinalBytesMax() int64 {
	_, bytes := l.ShareMax()
	return bytes / 2
}

// A PutRequest is an entry to store.
type PutRequest struct {
	Entry  Entry // the queue reads Head and Body until it has called Done, and not afterwards
	PerKey int   // bound on the entries of the line; 0: none
	// Follows says that the entry is stored because another one is about to leave its line.
	// Limits.Entries and Limits.Bytes do not apply to it; the other bounds do.
	Follows bool
	Done    func(PutResult) // receives the result; never nil
}

// Fresh returns the entry as it is first stored.
func (p *PutRequest) Fresh() Entry {
	e := p.Entry
	e.State, e.Attempts, e.Last, e.Result = Waiting, 0, LastAttempt{}, nil
	return e
}

// PutResult is the result of a PutRequest.
type PutResult struct {
	Outcome Outcome
	// About the stored entry. With Duplicate and Conflict that is the earlier entry.
	ID         ID
	State      State
	Position   int       // in its line, counted from 1; 0: it is in none
	Due        time.Time // Full: when the first entry of the line is due; zero: there is none
	Expires    time.Time
	Durability string // "fsync", or what the store promises
	// ScopeOneProxy or ScopeShared: whose entries Position and the order of the line refer to; empty: unknown
	Scope string

	// Result is the target's answer if the earlier entry is Done. The proxy reads it; queues do not set it.
	Result *Result

	Bound ExceededBound // Full: the bound that was reached
	Err   error         // Unstored: the cause
}

// An Outcome is the outcome of a PutRequest.
type Outcome uint8

const (
	Accepted  Outcome = iota // it is durable
	Duplicate                // the same request was stored before, and NeverSent of its entry is false
	Conflict                 // another request with the same Scope was stored before
	Storing                  // a request with the same Scope is being stored; try again soon
	Full                     // a bound is reached
	Unstored                 // it could not be written
)

// String returns the word used in metrics.
func (o Outcome) String() string {
	return [...]string{"accepted", "duplicate", "conflict", "storing", "full", "unstored"}[o]
}

// An ExceededBound is a bound of a queue.
type ExceededBound uint8

const (
	NoBound      ExceededBound = iota
	BoundEntries               // Limits.Entries
	BoundBytes                 // Limits.Bytes
	BoundLine                  // PutRequest.PerKey
	BoundShare                 // Limits.Share
	BoundRate                  // entries per second; not checked by queues
)

// String returns the name used in logs.
func (b ExceededBound) String() string {
	return [...]string{"none", "entries", "bytes", "line", "share", "rate"}[b]
}

// A Lease is the right to deliver an entry.
type Lease struct {
	ID    ID
	Token uint64 // different for each claim
}

// A ClaimedEntry is an entry to deliver, with its lease.
type ClaimedEntry struct {
	Lease Lease
	Entry *Entry
}

// A Settlement is the outcome of a claimed entry.
type Settlement struct {
	Lease Lease
	To    State // Done, Failed, Expired, Unknown; or Waiting, to deliver it later

	Due     time.Time     // to Waiting: not delivered before this time
	Attempt bool          // there was an attempt; a delivery refused by a limit is none
	Last    LastAttempt   // zero: unchanged
	Result  *Result       // nil: unchanged
	Keep    time.Duration // to a final state: how long the entry is kept, counted from now
	// Done is called once: when the settlement is durable, with ErrLease, or with ErrClosed if it
	// could not be written before Close. It may be nil.
	Done func(error)
}

// Check panics unless the settlement is possible for an entry that is delivering.
func (s *Settlement) Check() {
	if !Delivering.CanBecome(s.To) {
		panic("bug: an entry that is delivering cannot become " + s.To.String())
	}
}

// A Query selects entries.
type Query struct {
	Rule  string // empty: any
	State State
	After string // Page.Next of the previous page; empty: from the beginning
	Limit int    // 1 to ListMax
}

// Start returns the sequence number after which the page begins. The error names the invalid
// field.
func (q *Query) Start() (after uint64, err error) {
	if q.After != "" {
		if after, err = strconv.ParseUint(q.After, 10, 63); err != nil {
			return 0, fmt.Errorf("after: must be the value that the previous page has, is %q", q.After)
		}
	}
	if q.Limit < 1 || q.Limit > ListMax {
		return 0, fmt.Errorf("limit: must be 1 to %d, is %d", ListMax, q.Limit)
	}
	return after, nil
}

// A Page is a part of the entries that a Query selects, in the order of acceptance.
type Page struct {
	Entries []*Entry
	Next    string // empty: this is the last page
}

// Stats is the content of a queue.
type Stats struct {
	Rules      []RuleStats   // sorted by Rule
	Bytes      int64         // total size of all entries
	Unreadable int           // entries that cannot be read and are set aside
	Durability string        // "fsync", or the guarantee of the store
	Err        error         // why the queue cannot be written; nil: it can
	GivenUp    GivenUpCounts // entries given up since the queue was opened
	Evicted    uint64        // final entries that this proxy deleted before their time, see Limits.Share
}

// GivenUpCounts counts entries that a queue gave up without a settlement: as Failed those that cannot be
// read, as Unknown those without a key whose leases have expired.
type GivenUpCounts map[GivenUpLabels]uint64

// GivenUpLabels are the rule of an entry and the state that the queue gave it.
type GivenUpLabels struct {
	Rule string
	To   State
}

// RuleStats is the content of a queue for one rule.
type RuleStats struct {
	Rule   string
	Paused bool
	States [StateCount]EntryCount
	Oldest time.Time // acceptance of the oldest entry that is waiting or delivering; zero: none
}

// Totals returns how many entries are in lines, and how many are dead.
func (s *Stats) Totals() (open, dead int) {
	for _, r := range s.Rules {
		for state, c := range r.States {
			switch s := State(state); {
			case !s.Final():
				open += c.Entries
			case s.Dead():
				dead += c.Entries
			}
		}
	}
	return open, dead
}

// An EntryCount is a number of entries and their total size in bytes.
type EntryCount struct {
	Entries int
	Bytes   int64
}
