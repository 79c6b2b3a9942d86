package deferred

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"

	"weir/internal/net/http1"
	"weir/proxy/deferred/callback"
)

// The fields that matter to deferral.
const (
	PreferField  = "Prefer"
	KeyField     = "Idempotency-Key"
	AttemptField = "X-Weir-Deferred" // number of the delivery, for the target
	// CallbackPreference is the preference whose value is the URL of a callback.
	CallbackPreference = "weir-callback"
)

// keyBytesMax bounds an Idempotency-Key.
const keyBytesMax = 255

// Stores reports whether to store a refused request; prefers says whether its client prefers that.
func (d *Defer) Stores(prefers bool) bool { return prefers || d.When == Always }

// PrefersAsync reports whether the client prefers an asynchronous answer (RFC 7240 section 4.1).
func PrefersAsync(h *http1.Head) bool {
	for i := range h.Fields {
		if f := &h.Fields[i]; f.ID == http1.FieldOther && http1.EqualFold(f.Name, "prefer") && asksAsync(f.Value) {
			return true
		}
	}
	return false
}

// asksAsync reports whether a list of preferences contains respond-async.
func asksAsync(list []byte) bool {
	for name := range preferences(list) {
		if http1.EqualFold(name, "respond-async") {
			return true
		}
	}
	return false
}

// preferences yields the names and values of a list of preferences, without parameters (RFC
// 7240 section 2).
func preferences(list []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for len(list) > 0 {
			var one []byte
			one, list = http1.CutUnquoted(list, ',')
			one, _ = http1.CutUnquoted(one, ';')
			name, value, _ := bytes.Cut(one, []byte("="))
			if !yield(bytes.TrimSpace(name), unquoted(bytes.TrimSpace(value))) {
				return
			}
		}
	}
}

// unquoted returns the text of a token or a quoted string (RFC 9110 section 5.6.4).
func unquoted(b []byte) []byte {
	n := len(b)
	if n < 2 || b[0] != '"' || b[n-1] != '"' {
		return b
	}
	text := make([]byte, 0, n-2)
	for i := 1; i < n-1; i++ {
		if b[i] == '\\' && i+1 < n-1 {
			i++
		}
		text = append(text, b[i])
	}
	return text
}

// Options are what a client specifies for a stored request.
type Options struct {
	Key         []byte // the Idempotency-Key; nil: there is none
	Credentials SHA256 // of Authorization and Cookie, if there is a Key
	Callback    string // the URL to which the outcome is reported; empty: none
}

// ParseOptions parses the fields of a request. Only hosts may be called back; nil means none. fault
// describes an invalid field, and is empty if there is none.
func (d *Defer) ParseOptions(
	hosts *callback.Hosts, values func(name string) iter.Seq[[]byte],
) (w Options, fault string) {
	var keys [][]byte
	for key := range values(KeyField) {
		keys = append(keys, key)
	}
	if fault = d.checkKey(keys); len(keys) == 1 {
		w.Key, w.Credentials = keys[0], credentials(values)
	}
	if hosts == nil || !d.Callback || fault != "" { // a preference that is not supported is ignored
		return w, fault
	}
	for list := range values(PreferField) {
		for name, value := range preferences(list) {
			if !http1.EqualFold(name, CallbackPreference) {
				continue
			}
			if _, err := hosts.Check(string(value)); err != nil {
				return w, CallbackPreference + " " + err.Error()
			}
			w.Callback = string(value)
			return w, "" // only the first counts
		}
	}
	return w, ""
}

// credentials returns the hash of what authenticates a request at the target.
func credentials(values func(name string) iter.Seq[[]byte]) SHA256 {
	authorization := digest(slices.Collect(values("Authorization"))...)
	cookies := digest(slices.Collect(values("Cookie"))...)
	return digest(authorization[:], cookies[:])
}

// AppliedPreferences returns the value of Preference-Applied; async says whether the client prefers an
// asynchronous answer.
func (o *Options) AppliedPreferences(async bool) string {
	switch {
	case o.Callback == "" && async:
		return "respond-async"
	case o.Callback == "":
		return ""
	case !async:
		return CallbackPreference
	}
	return "respond-async, " + CallbackPreference
}

// checkKey returns what is wrong with the values of Idempotency-Key, or "".
func (d *Defer) checkKey(values [][]byte) (fault string) {
	switch {
	case len(values) == 0 && d.Idempotency == Required:
		return "the rule needs an Idempotency-Key"
	case len(values) == 0:
		return ""
	case len(values) > 1:
		return "Idempotency-Key must be given once"
	case len(values[0]) == 0 || len(values[0]) > keyBytesMax ||
		bytes.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' }):
		return "Idempotency-Key must be 1 to 255 visible ASCII characters"
	}
	return ""
}

// A Request has the parts of a request that identify a repetition.
type Request struct {
	Method, Target, Body []byte
	Sender               string // the client, unless the rule's key identifies it
	Options
}

// Scope returns the scope of the Idempotency-Key: rule, client, method, path and credentials. The
// client is identified by the rule's key, which is that of the line, and by Sender. A request
// with other credentials is another request: the target may reject them, and one client must not
// see the result of another.
func (r *Request) Scope(rule, line string) SHA256 {
	path, _, _ := bytes.Cut(r.Target, []byte("?"))
	return digest([]byte(rule), []byte(line), []byte(r.Sender), r.Method, path, r.Key, r.Credentials[:])
}

// Fingerprint differs between different requests with the same Idempotency-Key.
func (r *Request) Fingerprint() SHA256 {
	if r.Callback != "" {
		return digest(r.Method, r.Target, r.Body, []byte(r.Callback))
	}
	return digest(r.Method, r.Target, r.Body)
}

// digest hashes parts, each with its length.
func digest(parts ...[]byte) (sum SHA256) {
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
