package decide

import (
	"bytes"
	"math"

	"weir/internal/net/http1"
)

// limitFields lists the fields that describe limits, by family.
var limitFields = [...]struct {
	name   string
	family LimitFields
}{
	{"ratelimit", Standard}, {"ratelimit-policy", Standard},
	{"x-ratelimit-limit", XRateLimit}, {"x-ratelimit-remaining", XRateLimit},
	{"ratelimit-limit", Envoy}, {"ratelimit-remaining", Envoy}, {"ratelimit-reset", Envoy},
}

// Replaces reports whether a target's field has the name of a field that the proxy sends
// in the given families. Two of them would contradict each other.
func (v *Verdict) Replaces(name []byte, ours LimitFields) bool {
	if !v.Limits() {
		return false
	}
	for i := range limitFields {
		if t := &limitFields[i]; len(name) == len(t.name) && bytes.EqualFold(name, []byte(t.name)) {
			return ours&t.family != 0
		}
	}
	return false
}

// Tighter returns the families of fields in which a target's answer leaves the client
// less than the verdict does. Fields that cannot be parsed count as less and are
// forwarded unchanged.
func (v *Verdict) Tighter(h *http1.Head) (theirs LimitFields) {
	if !v.Limits() {
		return 0
	}
	ours := v.State.Remaining
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.ID != http1.FieldOther || f.Hop { // not forwarded to the client
			continue
		}
		switch {
		case len(f.Name) == len("X-RateLimit-Remaining") && bytes.EqualFold(f.Name, []byte("x-ratelimit-remaining")):
			if n, ok := leadingInt(f.Value); !ok || n < ours {
				theirs |= XRateLimit
			}
		case len(f.Name) == len("RateLimit-Remaining") && bytes.EqualFold(f.Name, []byte("ratelimit-remaining")):
			if n, ok := leadingInt(f.Value); !ok || n < ours {
				theirs |= Envoy
			}
		case len(f.Name) == len("RateLimit") && bytes.EqualFold(f.Name, []byte("ratelimit")):
			if leastRemaining(f.Value) < ours {
				theirs |= Standard
			}
		}
	}
	return theirs
}

// leastRemaining returns the smallest r of a RateLimit field's items, or 0 if an item has
// none.
func leastRemaining(list []byte) int64 {
	least := int64(math.MaxInt64)
	for item := range bytes.SplitSeq(list, []byte(",")) {
		remaining := int64(0)
		for i, parameter := range bytes.Split(item, []byte(";")) {
			if value, ok := bytes.CutPrefix(bytes.TrimSpace(parameter), []byte("r=")); ok && i > 0 {
				remaining, _ = leadingInt(value)
			}
		}
		least = min(least, remaining)
	}
	return least
}

// leadingInt parses the digits at the start of b.
func leadingInt(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' || n > 1<<53 {
			break
		}
		n, ok = n*10+int64(c-'0'), true
	}
	return n, ok
}
