package adaptive

import (
	"fmt"
	"strings"

	"weir/proxy/guard"
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
	Away                    // the store is unavailable and its failure mode in effect, or it is unknown which proxy is the leader
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
func decide(s situation, v *guard.Verdict) (Result, string) {
	switch {
	case s.shadow:
		return Shadowed, "ADAPTIVE_MODE is shadow"
	case s.mode != store.Exact:
		return Away, fmt.Sprintf("the store is unavailable, mode %v is in force", s.mode)
	case s.pinned:
		return Pinned, "the limit is pinned until it is changed or deleted"
	case !s.leader && s.taken:
		return Following, "another proxy of this store applies recommendations"
	case !s.leader:
		return Away, "it is not known yet which proxy applies recommendations"
	case v.Same:
		return Unchanged, ""
	}
	return Applied, ""
}

// describe formats an update for the log.
func describe(v *guard.Verdict, reason string) string {
	algorithm, numbers, _ := strings.Cut(v.Config.String(), ", ")
	text := fmt.Sprintf("%s, limit from %s/s to %s/s", algorithm, guard.Number(v.From), guard.Number(v.To))
	if numbers != "" {
		text += ", " + numbers
	}
	if reason != "" {
		text += ", reason: " + reason
	}
	return text
}
