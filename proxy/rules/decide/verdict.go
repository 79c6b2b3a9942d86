package decide

import (
	"net/netip"
	"strconv"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/limit"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A CounterResults is what the store was asked about a request, and its answer. It is borrowed.
type CounterResults struct {
	Policy *Policy
	Asked  []ChargedCounter
	Answer *store.Answer
	// Postponed says that the request is refused and may be delivered later, which is
	// decided when it is stored.
	Postponed bool
}

// Judged reports whether counter i of Asked took part in the decision, and whether it
// refused. If only other counters refused, nothing was charged to it.
func (d *CounterResults) Judged(i int) (took, refused bool) {
	refused = d.Answer.Granted == 0 && (i >= len(d.Answer.Decisions) || !d.Answer.Decisions[i].Allowed)
	return refused || d.Answer.Granted > 0, refused
}

// Defers reports whether all rules that refused the request allow delivering it later,
// given the client's preference, and the limits can admit it at all.
func (d *CounterResults) Defers(prefers bool) bool {
	for i := range d.Asked {
		if _, refused := d.Judged(i); !refused {
			continue
		}
		terms := d.Asked[i].Rule.Defer
		if terms == nil || !terms.Stores(prefers) || i >= len(d.Answer.Decisions) ||
			d.Answer.Decisions[i].RetryAfter == limit.Never {
			return false
		}
	}
	return true
}

// A Verdict is what the store's answer means for a request and for its client.
type Verdict struct {
	Policy *Policy
	By     *ChargedCounter // the tightest counter; borrowed
	Rule   *rule.Rule      // rule of By, or nil if there is no answer
	Limit  *limit.Limit    // limit of By, likewise
	State  limit.Decision
	Mode   store.Mode
}

// Judge sets v to the meaning of an answer.
func (v *Verdict) Judge(d *CounterResults) {
	v.Policy, v.By, v.Mode = d.Policy, &d.Asked[0], d.Answer.Mode
	v.State = limit.Decision{}
	if tightest := d.Answer.Tightest; len(d.Answer.Decisions) > 0 {
		v.State, v.By = d.Answer.Decisions[tightest], &d.Asked[tightest]
	}
	v.Rule, v.Limit = v.By.Rule, v.By.Limit
}

// A Refusal is the content of a 429 and its reason. Key is borrowed.
type Refusal struct {
	Rule    *rule.Rule
	Limit   *limit.Limit
	Cost    int64
	Key     []byte
	Client  netip.Addr
	Version string // of the configuration
	Request []byte // request id, or nil
	limit.Decision
}

// Refusal returns the verdict as a refusal of a request of the given client.
func (v *Verdict) Refusal(client netip.Addr, request []byte) Refusal {
	return Refusal{Rule: v.Rule, Limit: v.Limit, Cost: v.By.Cost, Key: v.By.Key, Client: client,
		Version: v.Policy.Version, Request: request, Decision: v.State}
}

// Limits reports whether there is a limit to describe to the client.
func (v *Verdict) Limits() bool {
	known := v.Mode == store.Exact || v.Mode == store.Cached || v.Mode == store.Local
	return known && v.Limit != nil && v.Limit.Algorithm() != limit.Off
}

// LimitFields are kinds of fields that describe limits.
type LimitFields uint8

// The families: those in common use, those of draft-ietf-httpapi-ratelimit-headers-10,
// and those of envoyproxy/ratelimit, which follow draft 3.
const (
	XRateLimit LimitFields = 1 << iota // X-RateLimit-*
	Standard                           // RateLimit, RateLimit-Policy
	Envoy                              // RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset
)

// AppendFields appends the fields of the given families that show the client's standing.
func (v *Verdict) AppendFields(dst []byte, f LimitFields) []byte {
	if !v.Limits() {
		return dst
	}
	global := v.Rule == &v.Policy.global
	var room [20]byte
	remaining := strconv.AppendInt(room[:0], v.State.Remaining, 10)
	if f&XRateLimit != 0 {
		if global {
			dst = append(dst, v.Policy.legacy...)
		} else {
			dst = appendLegacy(dst, v.State.Limit)
		}
		dst = append(append(dst, remaining...), "\r\n"...)
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

// Seconds returns span in whole seconds, rounded up.
func Seconds(span time.Duration) int64 { return int64((span-1)/time.Second) + 1 }
