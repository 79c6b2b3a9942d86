package deferred

import (
	"encoding/base32"
	"errors"
	"net/netip"
	"time"
)

// An ID names an entry: 128 random bits, so that it cannot be guessed.
type ID [16]byte

// idText writes an ID as 26 characters that are safe in a path.
var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// errID is the error of a text that is no ID.
var errID = errors.New("must be 26 of the characters 0-9 and a-z without i, l, o, u")

// String returns the text of the ID as it is in paths, JSON and logs.
func (id ID) String() string { return idText.EncodeToString(id[:]) }

// ParseID reads what String writes; each ID has exactly one text.
func ParseID(text string) (id ID, err error) {
	if len(text) != 26 {
		return id, errID
	}
	if _, err := idText.Decode(id[:], []byte(text)); err != nil || id.String() != text {
		return ID{}, errID
	}
	return id, nil
}

// A Hash is a SHA-256; all zero means that there is none.
type Hash [32]byte

// An Order says which entries of a line may be delivered at the same time.
type Order uint8

const (
	OrderKey  Order = iota // one after the other, in the order in which they were accepted
	OrderNone              // several at a time
)

// An Entry is a request that is delivered later, and what has become of it. Its times have
// whole microseconds.
type Entry struct {
	ID       ID
	Rule     string // the rule whose line it waits in
	Line     string // the rule's key; empty when the rule counts all requests alike
	Order    Order
	Parallel int // OrderNone: how many of the line may be delivered at a time; at least 1

	Accepted time.Time
	Expires  time.Time
	Remote   netip.AddrPort // of the client; not valid: no client has sent it
	TLS      bool           // the client's connection
	Trusted  bool           // a trusted proxy has sent the request for the client

	// Scope is of the rule, its key, method, path and Idempotency-Key; without that key it is
	// zero, and the entry is never delivered again after it may have reached the target.
	// Fingerprint is of method, target and body.
	Scope       Hash
	Fingerprint Hash

	Head     []byte // as parsed
	Body     []byte
	Callback string // a URL, or empty

	State    State
	Due      time.Time // waiting: not delivered before
	Attempts int       // that have ended, or were cut off by a crash
	Last     Last
	Result   *Result // of the target's last answer; nil: none
}

// Keyed says whether the request has an Idempotency-Key, so that it may be sent again.
func (e *Entry) Keyed() bool { return e.Scope != Hash{} }

// AtOnce is how many entries of the line may be delivering at a time.
func (e *Entry) AtOnce() int {
	if e.Order == OrderKey {
		return 1
	}
	return max(1, min(e.Parallel, parallelMax))
}

// Size is how many bytes the entry counts for in the bounds of a queue.
func (e *Entry) Size() int64 {
	n := len(e.Rule) + len(e.Line) + len(e.Head) + len(e.Body) + len(e.Callback) + len(e.Last.Error) + entryOverhead
	if e.Result != nil {
		n += len(e.Result.Head) + len(e.Result.Body)
	}
	return int64(n)
}

// entryOverhead is about what a queue keeps of an entry beside its texts.
const entryOverhead = 256

// Last is how the last attempt ended.
type Last struct {
	At     time.Time
	Status int    // of the target's answer; 0: none
	Error  string // empty when there is an answer
}

// A Result is the target's answer as it is kept.
type Result struct {
	Status    int
	Head      []byte // as parsed
	Body      []byte
	Bytes     int64 // of the whole body
	Truncated bool  // Body is only its beginning
}
