package decide

import (
	"net/netip"
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// A Decided is what the store was asked about a request, and its answer. All of it
// is borrowed.
type Decided struct {
	Policy *Policy
	Asked  []Counted
	Answer *store.Answer
	// Postponed: the request is refused, and may be delivered later. Whether it is, is known when
	// it is stored.
	Postponed bool
}

// Judged reports whether counter i of Asked had a part in the decision, and whether it has
// refused. What another counter alone has refused was not charged to it.
func (d *Decided) Judged(i int) (took, refused bool) {
	refused = d.Answer.Granted == 0 && (i >= len(d.Answer.Decisions) || !d.Answer.Decisions[i].Allowed)
	return refused || d.Answer.Granted > 0, refused
}

// Postpones reports whether all rules that have refused the request have it delivered later, as its
// client prefers or not, and it can pass at all.
func (d *Decided) Postpones(prefers bool) bool {
	for i := range d.Asked {
		if _, refused := d.Judged(i); !refused {
			continue
		}
		terms := d.Asked[i].Rule.Defer
		if terms == nil || !terms.Wants(prefers) || i >= len(d.Answer.Decisions) || d.Answer.Decisions[i].RetryAfter == limit.Never {
			return false
		}
	}
	return true
}

// A Verdict is what the store's answer means for a request, and what its client learns
// about the limits.
type Verdict struct {
	Policy *Policy
	By     *Counted     // the tightest; borrowed
	Rule   *rule.Rule   // its rule; nil: there is no answer
	Limit  *limit.Limit // likewise
	State  limit.Decision
	Mode   store.Mode
}

// Judge makes it what an answer means.
func (v *Verdict) Judge(d *Decided) {
	v.Policy, v.By, v.Mode = d.Policy, &d.Asked[0], d.Answer.Mode
	v.State = limit.Decision{}
	if tightest := d.Answer.Tightest; len(d.Answer.Decisions) > 0 {
		v.State, v.By = d.Answer.Decisions[tightest], &d.Asked[tightest]
	}
	v.Rule, v.Limit = v.By.Rule, v.By.Limit
}

// A Refusal is what a 429 says, and why. Key is borrowed.
type Refusal struct {
	Rule    *rule.Rule
	Limit   *limit.Limit
	Cost    int64
	Key     []byte
	Client  netip.Addr
	Version string // of the configuration
	Request []byte // its id, nil without
	limit.Decision
}

// Refusal is the verdict as one, about a client's request with an id, or nil.
func (v *Verdict) Refusal(client netip.Addr, request []byte) Refusal {
	return Refusal{Rule: v.Rule, Limit: v.Limit, Cost: v.By.Cost, Key: v.By.Key, Client: client, Version: v.Policy.Version, Request: request, Decision: v.State}
}

// Tells reports whether there is a limit, and a count, to be told.
func (v *Verdict) Tells() bool {
	known := v.Mode == store.Exact || v.Mode == store.Cached || v.Mode == store.Local
	return known && v.Limit != nil && v.Limit.Algorithm() != limit.Off
}

// Families are kinds of fields that tell of limits.
type Families uint8

// The kinds there are: those in common use, those of
// draft-ietf-httpapi-ratelimit-headers-10, and those of envoyproxy/ratelimit, which are
// from draft 3.
const (
	Legacy   Families = 1 << iota // X-RateLimit-*
	Standard                      // RateLimit, RateLimit-Policy
	Envoy                         // RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset
)

// AppendFields appends the fields of some families that tell a client where it
// stands.
func (v *Verdict) AppendFields(dst []byte, f Families) []byte {
	if !v.Tells() {
		return dst
	}
	global := v.Rule == &v.Policy.global
	var room [20]byte
	remaining := strconv.AppendInt(room[:0], v.State.Remaining, 10)
	if f&Legacy != 0 {
		if global {
			dst = append(dst, v.Policy.legacy...)
		} else {
			dst = http1.AppendFieldInt(dst, "X-RateLimit-Limit", v.State.Limit)
		}
		dst = http1.AppendField(dst, "X-RateLimit-Remaining", remaining)
	}
	if f&Envoy != 0 {
		dst = http1.AppendFieldInt(dst, "RateLimit-Limit", v.State.Limit)
		dst = http1.AppendField(dst, "RateLimit-Remaining", remaining)
		dst = http1.AppendFieldInt(dst, "RateLimit-Reset", Seconds(v.State.ResetAfter))
	}
	if f&Standard == 0 {
		return dst
	}
	if global {
		dst = append(dst, v.Policy.fields...)
	} else {
		dst = appendPolicy(dst, v.Rule.ID, v.Limit)
	}
	dst = append(dst, remaining...)
	dst = append(dst, ";t="...)
	dst = strconv.AppendInt(dst, Seconds(v.State.ResetAfter), 10)
	return append(dst, "\r\n"...)
}

// Seconds is a span in whole seconds, rounded up.
func Seconds(span time.Duration) int64 { return int64((span-1)/time.Second) + 1 }
