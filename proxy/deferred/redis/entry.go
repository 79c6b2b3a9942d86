package redis

import (
	"errors"
	"strconv"
	"time"

	"weir/proxy/deferred"
)

// errReply is the error of an answer that does not have the form of the script's.
var errReply = errors.New("the script's reply has an unexpected form")

// A codec encodes entries for Redis, and decodes them.
//
// Immutable after New.
type codec struct{ seal deferred.Sealer }

// A sealed part of an entry is bound to the entry's ID and to one of these words.
const (
	sealedFixed   = "m"
	sealedRequest = "h"
	sealedResult  = "ra"
)

// fixed encodes the parts of an entry that never change, without its request.
func (c codec) fixed(e *deferred.Entry) string {
	f := *e
	f.Accepted, f.Expires, f.Due = time.Time{}, time.Time{}, time.Time{}
	f.State, f.Attempts, f.Last, f.Result, f.Head, f.Body = deferred.Waiting, 0, deferred.LastAttempt{}, nil, nil, nil
	return string(c.seal.SealPart(sealedFixed, e.ID, &f))
}

// request encodes head and body of an entry.
func (c codec) request(e *deferred.Entry) string {
	return string(c.seal.SealPart(sealedRequest, e.ID, &deferred.Entry{Head: e.Head, Body: e.Body}))
}

// result encodes head and body of a result; it is empty if there are none.
func (c codec) result(r *deferred.Result, id deferred.ID) string {
	if r.Size() == 0 {
		return ""
	}
	return string(c.seal.SealPart(sealedResult, id, &deferred.Entry{Result: &deferred.Result{Head: r.Head, Body: r.Body}}))
}

// key returns an identifier of the encryption key, or "" if there is none.
func (c codec) key() string {
	if !c.seal.Encrypts() {
		return ""
	}
	d := c.seal.Digest("key")
	return string(d[:])
}

// entry reads the fields BRIEF or ROW of lua/common.lua.
func (c codec) entry(id deferred.ID, values any) (*deferred.Entry, error) {
	r := reader{list(values)}
	state, seq := r.int(), r.int()
	accepted, expires, due := r.time(), r.time(), r.time()
	attempts := r.int()
	last := deferred.LastAttempt{At: r.time(), Status: int(r.int()), Error: r.text()}
	answered := len(r.left) > 0 && r.left[0] != nil
	result := &deferred.Result{Status: int(r.int()), Bytes: r.int(), Truncated: r.text() == "1"}
	fixed := r.text()
	if seq == 0 || state >= int64(deferred.StateCount) {
		return nil, deferred.ErrNotFound // it was removed between two calls
	}
	e, err := c.seal.OpenPart(sealedFixed, id, []byte(fixed))
	if err != nil {
		return nil, err
	}
	e.State, e.Accepted, e.Expires, e.Due, e.Attempts, e.Last = deferred.State(state), accepted, expires, due,
		int(attempts), last
	if answered {
		e.Result = result
	}
	return e, c.bodies(e, &r)
}

// bodies reads request and result of an entry, if present.
func (c codec) bodies(e *deferred.Entry, r *reader) error {
	if request := r.text(); request != "" {
		h, err := c.seal.OpenPart(sealedRequest, e.ID, []byte(request))
		if err != nil {
			return err
		}
		e.Head, e.Body = h.Head, h.Body
	}
	if result := r.text(); result != "" && e.Result != nil {
		a, err := c.seal.OpenPart(sealedResult, e.ID, []byte(result))
		if err != nil {
			return err
		}
		if a.Result == nil {
			return deferred.ErrDamaged
		}
		e.Result.Head, e.Result.Body = a.Result.Head, a.Result.Body
	}
	return nil
}

// A reader removes values from the beginning of a list. Missing values are zero.
type reader struct{ left []any }

func (r *reader) value() any {
	if len(r.left) == 0 {
		return nil
	}
	v := r.left[0]
	r.left = r.left[1:]
	return v
}

func (r *reader) text() string {
	text, _ := r.value().(string)
	return text
}

func (r *reader) int() int64 {
	switch v := r.value().(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			f, _ := strconv.ParseFloat(v, 64) // a score
			n = int64(f)
		}
		return n
	}
	return 0
}

func (r *reader) id() (id deferred.ID) {
	copy(id[:], r.text())
	return id
}

func (r *reader) time() time.Time { return deferred.FromUnixMicros(r.int()) }

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func decimal[N int | int64 | uint64](n N) string { return strconv.FormatInt(int64(n), 10) }

// bit returns a boolean as an argument of scripts.
func bit(is bool) string {
	if is {
		return "1"
	}
	return "0"
}
