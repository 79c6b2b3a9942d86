package adaptive

import (
	"fmt"
	"strings"

	"weir/proxy/guard"
	"weir/proxy/store"
)

// A Result is the result of an update.
type Result uint8

const (
	Failed    Result = iota // no answer, or none that can be used
	Applied                 // in force now
	Unchanged               // in force already
	Refused                 // by the guard rails
	Shadowed                // told and tried, as nothing is applied in mode shadow
	Following               // another proxy applies it
	Pinned                  // a person wants the limit left alone
	Conflict                // another writer was first
	Away                    // the store is unavailable, and the failure mode in force, or it has not said who applies
	resultCount
)

// String returns the word used in metrics and reports.
func (r Result) String() string {
	return [...]string{"failed", "applied", "unchanged", "refused", "shadow", "following", "pinned", "conflict", "away"}[r]
}

// MarshalText returns [Result.String].
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A situation is what a recommendation meets.
type situation struct {
	shadow bool       // nothing is applied
	away   bool       // the store
	mode   store.Mode // then
	leader bool
	taken  bool // another proxy is the leader
	pinned bool
}

// decide determines what to do with a recommendation that the guard allows, and why not
// more. Applied means that it is to be put in force.
func decide(s situation, v *guard.Verdict) (Result, string) {
	switch {
	case s.shadow:
		return Shadowed, "ADAPTIVE_MODE is shadow"
	case s.away:
		return Away, fmt.Sprintf("the store is unavailable, mode %v is in force", s.mode)
	case s.pinned:
		return Pinned, "the limit is pinned until it is changed or deleted"
	case !s.leader && s.taken:
		return Following, "another proxy of this store applies recommendations"
	case !s.leader:
		return Away, "the store has not said which proxy applies recommendations"
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
