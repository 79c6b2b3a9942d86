package deferred

import (
	"encoding/base32"
	"errors"
	"net/netip"
	"time"

	"weir/internal/net/share"
)

// An ID identifies an entry. It has 128 random bits, so that it cannot be guessed.
type ID [16]byte

// idText encodes an ID as 26 characters that are safe in a path.
var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// errID is the error of a text that is not an ID.
var errID = errors.New("must be 26 of the characters 0-9 and a-z without i, l, o, u")

// String returns the ID as text, as used in paths, JSON and logs.
func (id ID) String() string { return idText.EncodeToString(id[:]) }

// ParseID parses the text of String. Each ID has exactly one text.
func ParseID(text string) (id ID, err error) {
	if len(text) != 26 {
		return id, errID
	}
	if _, err := idText.Decode(id[:], []byte(text)); err != nil || id.String() != text {
		return ID{}, errID
	}
	return id, nil
}

// A SHA256 is a digest by SHA-256. The zero SHA256 means that there is none.
type SHA256 [32]byte

// A Concurrency determines which entries of a line may be delivered at the same time.
type Concurrency uint8

const (
	OneAtATime     Concurrency = iota // one after another, in the order of acceptance
	SeveralAtATime                    // several at a time, in any order
)

// An Entry is a request that is delivered later, with its state and result. Its times are in
// whole microseconds.
type Entry struct {
	ID       ID
	Rule     string // id of the rule in whose line it waits
	LineKey  string // the rule's key; empty if the rule has one counter for all requests
	Order    Concurrency
	Parallel int // SeveralAtATime: how many entries of the line may be delivered at the same time; at least 1

	Accepted time.Time
	Expires  time.Time
	Remote   netip.AddrPort // address of the client; invalid: the entry is not from a client
	TLS      bool           // the client's connection used TLS
	Trusted  bool           // the request was sent by a trusted proxy

	// Scope is the hash of the rule, the client, its credentials, method, path and Idempotency-Key.
	// Without an Idempotency-Key it is zero, and the entry is never delivered again after it may have
	// reached the target. Fingerprint is the hash of method, target and body.
	Scope       SHA256
	Fingerprint SHA256

	Head     []byte // request line and fields, as parsed
	Body     []byte
	Callback string // URL to call back; empty: none

	State    State
	Due      time.Time // waiting: not delivered before this time
	Attempts int       // number of attempts that have ended, or were cut off by a crash
	Last     LastAttempt
	Result   *Result // the target's last answer; nil: none
}

// Keyed reports whether the request has an Idempotency-Key, so that it may be sent again.
func (e *Entry) Keyed() bool { return e.Scope != SHA256{} }

// NeverSent reports whether the entry is final and no attempt was made to send it, also not before an
// operator retried it: a retry resets Attempts, but not Last. Its Scope is free for another entry, and
// once that is stored, it cannot be retried.
func (e *Entry) NeverSent() bool {
	return (e.State == Expired || e.State == Cancelled) && e.Attempts == 0 && e.Last == (LastAttempt{})
}

// Client returns whose share the entry counts in. It is the zero Client if the entry is not from
// a client.
func (e *Entry) Client() share.Client { return share.ClientOf(e.Remote.Addr()) }

// ParallelMax returns how many entries of the line may be delivering at the same time.
func (e *Entry) ParallelMax() int {
	if e.Order == OneAtATime {
		return 1
	}
	return max(1, min(e.Parallel, parallelMax))
}

// Size returns the number of bytes for which the entry counts in the bounds of a queue.
func (e *Entry) Size() int64 {
	n := len(e.Rule) + len(e.LineKey) + len(e.Head) + len(e.Body) + len(e.Callback) + len(e.Last.Error) + entryOverhead
	return int64(n) + e.Result.Size()
}

// entryOverhead is about the size of an entry in a queue without its texts, in bytes.
const entryOverhead = 256

// LastAttempt is the outcome of the last attempt.
type LastAttempt struct {
	At     time.Time
	Status int    // of the target's answer; 0: none
	Error  string // empty if there was an answer
}

// A Result is the target's answer as stored.
type Result struct {
	Status    int
	Head      []byte // the line of the request and the fields of the answer, as parsed
	Body      []byte
	Bytes     int64 // length of the whole body
	Truncated bool  // Body is only the beginning
}

// Size returns the number of bytes of Head and Body. It is 0 for nil.
func (r *Result) Size() int64 {
	if r == nil {
		return 0
	}
	return int64(len(r.Head) + len(r.Body))
}

// Brief returns the result without Head and Body.
func (r *Result) Brief() *Result {
	return &Result{Status: r.Status, Bytes: r.Bytes, Truncated: r.Truncated}
}
