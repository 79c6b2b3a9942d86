package exchange

import (
	"bytes"
	"math"

	"weir/internal/http1"
	"weir/proxy/decide"
)

// families are those that answers carry.
func (set *Settings) families() (f decide.Families) {
	if set.LegacyFields {
		f |= decide.Legacy
	}
	if set.StandardFields {
		f |= decide.Standard
	}
	return f
}

// replaces reports whether a target's field has the name of one that the proxy
// sets: two of them would contradict each other. What is tighter stands.
func (x *Exchange) replaces(name []byte) bool {
	if !x.verdict.Tells() {
		return false
	}
	ours := x.env.Settings.families() &^ x.theirs
	switch len(name) {
	case len("RateLimit"), len("RateLimit-Policy"):
		return ours&decide.Standard != 0 && (equalFold(name, "ratelimit") || equalFold(name, "ratelimit-policy"))
	case len("X-RateLimit-Limit"), len("X-RateLimit-Remaining"):
		return ours&decide.Legacy != 0 && (equalFold(name, "x-ratelimit-limit") || equalFold(name, "x-ratelimit-remaining"))
	}
	return false
}

// tighter returns the families of fields in which the target leaves the client
// less than the proxy does. What cannot be read counts as less: it is told as
// the target has it.
func (x *Exchange) tighter(h *http1.Head) (theirs decide.Families) {
	if !x.verdict.Tells() {
		return 0
	}
	ours := x.verdict.State.Remaining
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.ID != http1.FieldOther {
			continue
		}
		switch {
		case len(f.Name) == len("X-RateLimit-Remaining") && equalFold(f.Name, "x-ratelimit-remaining"):
			if n, ok := leadingInt(f.Value); !ok || n < ours {
				theirs |= decide.Legacy
			}
		case len(f.Name) == len("RateLimit") && equalFold(f.Name, "ratelimit"):
			if leastRemaining(f.Value) < ours {
				theirs |= decide.Standard
			}
		}
	}
	return theirs
}

// leastRemaining is the smallest r of a RateLimit field's items; 0 when there is
// one without.
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

// leadingInt reads the digits that b begins with.
func leadingInt(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' || n > 1<<53 {
			break
		}
		n, ok = n*10+int64(c-'0'), true
	}
	return n, ok
}

// equalFold compares a field name with a lower-case one.
func equalFold(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
