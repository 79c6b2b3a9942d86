package adaptive

import (
	"fmt"
	"strings"
	"time"

	"weir/proxy/limit/rails"
	"weir/proxy/store"
)

// A Result is the outcome of an update.
type Result uint8

const (
	Failed    Result = iota // no answer, or none that can be used
	Applied                 // put in force
	Unchanged               // already in force
	Refused                 // the guard rails do not allow it
	Shadowed                // reported and tried, because nothing is applied in mode shadow
	Following               // another proxy applies recommendations
	Pinned                  // an operator has pinned the limit
	Conflict                // another writer has changed the configuration first
	// the store is unavailable and its failure mode in effect, or it is unknown which proxy is the leader
	Unavailable
	resultCount
)

// String returns the word used in metrics and reports.
func (r Result) String() string {
	return [...]string{"failed", "applied", "unchanged", "refused", "shadow", "following", "pinned", "conflict", "away"}[r]
}

// MarshalText returns [Result.String].
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A situation is what decides whether a recommendation is applied.
type situation struct {
	shadow bool       // nothing is applied
	mode   store.Mode // of the store; unless Exact it is unavailable
	leader bool
	taken  bool // another proxy is the leader
	pinned bool
}

// decide determines what to do with a recommendation that the guard allows, and the reason if it
// is not applied. Applied means that it must be put in force.
func decide(s situation, v *rails.Result) (Result, string) {
	switch {
	case s.shadow:
		return Shadowed, "ADAPTIVE_MODE is shadow"
	case s.mode != store.Exact:
		return Unavailable, fmt.Sprintf("the store is unavailable, mode %v is in force", s.mode)
	case s.pinned:
		return Pinned, "the limit is pinned until it is changed or deleted"
	case !s.leader && s.taken:
		return Following, "another proxy of this store applies recommendations"
	case !s.leader:
		return Unavailable, "it is not known yet which proxy applies recommendations"
	case v.Unchanged:
		return Unchanged, ""
	}
	return Applied, ""
}

// describe formats an update for the log.
func describe(v *rails.Result, reason string) string {
	algorithm, numbers, _ := strings.Cut(v.Config.String(), ", ")
	text := fmt.Sprintf("%s, limit from %s/s to %s/s", algorithm, rails.FormatRate(v.From), rails.FormatRate(v.To))
	if numbers != "" {
		text += ", " + numbers
	}
	if reason != "" {
		text += ", reason: " + reason
	}
	return text
}

const (
	leaseName = "ratelimiter:adaptive-leader" // of the proxy that applies recommendations
	// leaseTime bounds how long no proxy applies recommendations after the holder has died. The
	// lease is renewed three times in that time, whatever the interval of updates.
	leaseTime  = 3 * time.Second
	leasePause = leaseTime / 3
)

// A lease is the right to apply recommendations. A proxy whose store is not shared always has it.
//
// Owned by the goroutine of its Follower.
type lease struct {
	store  store.Store
	shared bool // other proxies share the store
	owner  string
	until  time.Time // when it ends, unless it is renewed; zero: this proxy does not hold it
	taken  bool      // another proxy holds it, according to the store's last answer
}

// renew takes or renews the lease. If the store does not answer, an earlier grant is valid until
// its end; after that it is unknown which proxy holds the lease.
func (l *lease) renew(now time.Time) {
	held, err := l.store.Lease(leaseName, l.owner, leaseTime)
	l.taken = err == nil && !held
	switch {
	case l.taken:
		l.until = time.Time{}
	case err == nil:
		l.until = now.Add(leaseTime) // earlier than the end in the store, which counts from later
	}
}

// held reports whether this proxy holds the lease at now.
func (l *lease) held(now time.Time) bool { return !l.shared || now.Before(l.until) }

// release releases the lease, so that another proxy need not wait for its end.
func (l *lease) release(now time.Time) {
	if l.held(now) {
		_ = l.store.Release(leaseName, l.owner) // on failure the lease expires
	}
	l.until = time.Time{}
}
