package terms

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"weir/internal/http1"
	"weir/proxy/deferred"
)

// The fields that matter to deferral.
const (
	PreferField  = "Prefer"
	KeyField     = "Idempotency-Key"
	AttemptField = "X-Weir-Deferred" // tells the target which delivery it is
)

// keyBytesMax bounds an Idempotency-Key.
const keyBytesMax = 255

// Wants reports whether a refused request is kept whose client prefers that, or does not.
func (d *Defer) Wants(prefers bool) bool { return prefers || d.When == Always }

// Prefers reports whether the client of a request prefers an answer at once, and the
// target's later (RFC 7240 section 4.1).
func Prefers(h *http1.Head) bool {
	for i := range h.Fields {
		if f := &h.Fields[i]; f.ID == http1.FieldOther && http1.EqualFold(f.Name, "prefer") && asksAsync(f.Value) {
			return true
		}
	}
	return false
}

// asksAsync reports whether a list of preferences has respond-async.
func asksAsync(list []byte) bool {
	for element := range bytes.SplitSeq(list, []byte(",")) {
		name, _, _ := bytes.Cut(element, []byte(";"))
		if http1.EqualFold(bytes.TrimSpace(name), "respond-async") {
			return true
		}
	}
	return false
}

// CheckKey says what is wrong with the values of Idempotency-Key that a request has; empty:
// nothing.
func (d *Defer) CheckKey(values [][]byte) (fault string) {
	switch {
	case len(values) == 0 && d.Idempotency == Required:
		return "the rule needs an Idempotency-Key"
	case len(values) == 0:
		return ""
	case len(values) > 1:
		return "Idempotency-Key must be given once"
	case len(values[0]) == 0 || len(values[0]) > keyBytesMax || bytes.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' }):
		return "Idempotency-Key must be 1 to 255 visible ASCII characters"
	}
	return ""
}

// A Request is what tells a repeated request from another one.
type Request struct {
	Method, Target, Body []byte
	Key                  []byte // Idempotency-Key
}

// Scope is what the Idempotency-Key holds for: a rule with one of its keys, method and path.
func (r *Request) Scope(rule, line string) deferred.Hash {
	path, _, _ := bytes.Cut(r.Target, []byte("?"))
	return digest([]byte(rule), []byte(line), r.Method, path, r.Key)
}

// Fingerprint differs where requests with the same Idempotency-Key are not the same.
func (r *Request) Fingerprint() deferred.Hash { return digest(r.Method, r.Target, r.Body) }

// digest hashes parts, each with its length.
func digest(parts ...[]byte) (sum deferred.Hash) {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}
