package deferred

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A Queue keeps entries. Put and Settle do not wait and may be called on an event loop: the
// result is passed to Done on a goroutine of the queue, which must not be held up.
// All other methods wait for a disk or a network, so they are called by goroutines beside
// the loops; they end when ctx does, and soon after Close. Times in `now` may step back.
//
// Safe for concurrent use.
type Queue interface {
	// Put has entries kept. Done is called once, before Put returns or later; with Accepted
	// only when the entry is durable. State, Attempts, Last and Result of the entry are ignored.
	Put(now time.Time, p *Put)

	// Claim returns at most n entries that are due, as [Delivering] under a lease of LeaseFor,
	// and when to ask again at the latest if nothing is put, settled or edited before; zero: not
	// known. Their states are durable when Claim returns. Of a line with OrderKey only the first
	// entry is claimed, and only when none is delivering. An entry that has expired is claimed,
	// too, if its turn has come: [Entry.Expires] has passed, and it is settled as Expired without
	// an attempt. Lines of a paused rule are not claimed, nor are those of the rules in except:
	// next is that of the others, too.
	Claim(ctx context.Context, now time.Time, n int, except ...string) (claimed []Claimed, next time.Time, err error)
	// Renew extends the leases to LeaseFor from now. It returns those that are lost: the entry
	// has been settled, or its lease has passed and was taken back. When a lease passes, the entry
	// waits again if it is Keyed, with an attempt more, and else becomes Unknown. Leases of a queue
	// that belongs to one proxy do not pass while it is open, as the clock may be set forward.
	Renew(ctx context.Context, now time.Time, leases []Lease) (lost []Lease, err error)
	// Settle says what became of a claimed entry. Until it is durable the line stays as it
	// is; a write that fails is tried again, so Done may come late.
	Settle(now time.Time, s *Settlement)

	// Read returns an entry with its place in its line, counted from 1, 0 when it is in none;
	// ErrNotFound when there is none.
	Read(ctx context.Context, id ID) (e *Entry, position int, err error)
	// List returns entries without Head, Body and the Result's Head and Body.
	List(ctx context.Context, q Query) (Page, error)
	// Edit changes entries as an operator or a client wants, and returns how many. One that
	// names an ID returns ErrNotFound, or ErrState when the entry is in no state for it.
	Edit(ctx context.Context, now time.Time, e Edit) (n int, err error)
	// Pause has the lines of a rule wait, or go on; durable when it returns.
	Pause(ctx context.Context, rule string, paused bool) error

	// Stats returns what the queue holds; it does not wait.
	Stats() Stats
	// Close lets others open the queue within CloseWithin. What is being stored is stored or
	// answered Unstored; entries that are delivering stay so, and return to their lines as if
	// their lease had passed.
	Close() error
}

// Bounds of every queue.
const (
	LeaseFor    = time.Minute
	CloseWithin = time.Second
	ListMax     = 1000 // entries of one page
	parallelMax = 1024 // entries at the head of a line that are looked at
)

// CutOff is the Last.Error of a delivery whose lease has passed.
const CutOff = "the delivery was cut off"

// What the methods return.
var (
	ErrNotFound = errors.New("there is no such entry")
	ErrState    = errors.New("the entry is in no state for that")
	ErrLease    = errors.New("the lease is lost: it has passed, or the entry was settled before")
	ErrClosed   = errors.New("the queue is closed")
	// ErrInUse is the error of opening a queue that belongs to another proxy. A successor tries
	// again until its predecessor has closed it.
	ErrInUse = errors.New("it is used by another proxy")
	// ErrTaken is the error of a Put whose ID is that of another entry.
	ErrTaken = errors.New("there is an entry with this ID")
)

// Limits bound what a queue holds.
type Limits struct {
	Entries int   // that wait or are delivering, of all rules
	Bytes   int64 // of all that is kept, final ones too
	// Share is how much of both one client address or one line with a key may have; 0 means 0.1.
	// It is at least one entry. Lines of rules that count all requests alike have no share of their own,
	// and entries without [Entry.Remote] count for no client.
	Share float64
	// DeadKeep is how long entries are kept that were cancelled, or were delivering without a
	// key when their lease passed.
	DeadKeep time.Duration
}

// shareDefault is Limits.Share when it is not set.
const shareDefault = 0.1

// Most is how many entries and bytes one client or line may have.
func (l *Limits) Most() (entries, bytes int64) {
	share := cmp.Or(l.Share, shareDefault)
	return max(1, int64(float64(l.Entries)*share)), int64(float64(l.Bytes) * share)
}

// What Stored.Scope may be.
const (
	ScopeProxy  = "proxy"  // one proxy has the queue
	ScopeShared = "shared" // all proxies that use it
)

// A Put is an entry to be kept.
type Put struct {
	Entry  Entry // the queue keeps Head and Body until Done is called, and nothing afterwards
	PerKey int   // the longest line; 0: no bound
	// Follows: the entry is put because another is about to leave its line. Limits.Entries and
	// Limits.Bytes do not hold for it, the other bounds do.
	Follows bool
	Done    func(Stored) // never nil
}

// Fresh returns the entry as it is stored.
func (p *Put) Fresh() Entry {
	e := p.Entry
	e.State, e.Attempts, e.Last, e.Result = Waiting, 0, Last{}, nil
	return e
}

// Stored says what came of a Put.
type Stored struct {
	Outcome Outcome
	// Of the entry that was stored, now or (Duplicate, Conflict) before.
	ID         ID
	State      State
	Position   int       // in its line, from 1; 0 when it is in none
	Due        time.Time // Full: when the first of the line is due; zero: there is none
	Expires    time.Time
	Durability string // "fsync", or what the store promises
	Scope      string // "proxy" or "shared": whose entries Position and the order of the line count; empty: not known

	Bound Bound // Full: which bound
	Err   error // Unstored: why
}

// An Outcome says what came of a Put.
type Outcome uint8

const (
	Accepted  Outcome = iota // it is durable
	Duplicate                // the same request is there already
	Conflict                 // another request has the same Scope
	Storing                  // the same Scope is just being stored, ask again in a moment
	Full                     // a bound is reached
	Unstored                 // it could not be written
)

// String returns the word used in metrics.
func (o Outcome) String() string {
	return [...]string{"accepted", "duplicate", "conflict", "storing", "full", "unstored"}[o]
}

// A Bound is what may be reached.
type Bound uint8

const (
	NoBound      Bound = iota
	BoundEntries       // Limits.Entries
	BoundBytes         // Limits.Bytes
	BoundLine          // Put.PerKey
	BoundShare         // Limits.Share
	BoundRate          // too many entries in a second; queues have no such bound
)

// String returns the bound as it is named in logs.
func (b Bound) String() string {
	return [...]string{"none", "entries", "bytes", "line", "share", "rate"}[b]
}

// A Lease is the right to deliver an entry.
type Lease struct {
	ID    ID
	Token uint64 // another with each claim
}

// A Claimed is an entry that is to be delivered.
type Claimed struct {
	Lease Lease
	Entry *Entry
}

// A Settlement says what became of a claimed entry.
type Settlement struct {
	Lease Lease
	To    State // Done, Failed, Expired, Unknown; Waiting: it is delivered later

	Due     time.Time     // To Waiting: not before
	Attempt bool          // it was an attempt; a delivery that the limit refused is none
	Last    Last          // zero: as it was
	Result  *Result       // nil: as it was
	Keep    time.Duration // To a final state: how long the entry is kept from now
	// Done is called once when the settlement is durable, or with ErrLease, or with ErrClosed
	// when it could not be written before Close; nil: it is not called.
	Done func(error)
}

// Check panics unless the settlement is one of an entry that is delivering.
func (s *Settlement) Check() {
	if !Delivering.May(s.To) {
		panic("bug: an entry that is delivering cannot become " + s.To.String())
	}
}

// A Query selects entries.
type Query struct {
	Rule  string // empty: any
	State State
	After string // Page.Next of the page before; empty: from the beginning
	Limit int    // 1 to ListMax
}

// Start returns the number behind which the page begins. Its error says which field is wrong.
func (q *Query) Start() (after uint64, err error) {
	if q.After != "" {
		if after, err = strconv.ParseUint(q.After, 10, 63); err != nil {
			return 0, fmt.Errorf("after: must be what the page before says, is %q", q.After)
		}
	}
	if q.Limit < 1 || q.Limit > ListMax {
		return 0, fmt.Errorf("limit: must be 1 to %d, is %d", ListMax, q.Limit)
	}
	return after, nil
}

// A Page is some of the entries that a Query selects, the first accepted first.
type Page struct {
	Entries []*Entry
	Next    string // empty: there are no more
}

// An Edit is what an operator or a client wants done: to one entry, or, without an ID, to all
// of a rule that are in a state, at most ListMax at a time.
type Edit struct {
	Action Action
	ID     ID // zero: Rule and State select
	Rule   string
	State  State
}

// An Action is what is done to an entry.
type Action uint8

const (
	Cancel Action = iota // waiting: it becomes Cancelled and is kept for DeadKeep
	Retry                // dead: it waits again, at the end of its line, as if it were accepted now
	Drop                 // final: it is forgotten
)

// Stats is what a queue holds.
type Stats struct {
	Rules      []RuleStats // by Rule
	Bytes      int64       // of all entries
	Unreadable int         // entries that are set aside because they cannot be read
	Durability string      // "fsync", or what the store promises
	Err        error       // why the queue cannot be written; nil: it can
	GivenUp    Losses      // since the queue was opened
}

// Losses count entries that a queue gave up by itself, which no settlement says: as Failed those
// that cannot be read, as Unknown those without a key whose lease has passed.
type Losses map[Loss]uint64

// A Loss is the rule of an entry and the state that the queue gave it.
type Loss struct {
	Rule string
	To   State
}

// RuleStats is what a queue holds of one rule.
type RuleStats struct {
	Rule   string
	Paused bool
	States [StatesCount]Count
	Oldest time.Time // when the oldest that is waiting or delivering was accepted; zero: none
}

// Held returns how many entries are in lines, and how many are dead.
func (s *Stats) Held() (open, dead int) {
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

// A Count is how many entries there are, and their bytes.
type Count struct {
	Entries int
	Bytes   int64
}
