package deferred

import (
	"fmt"
	"slices"
	"strings"
)

// A State is the state of an entry.
type State uint8

const (
	Waiting    State = iota // in its line
	Delivering              // claimed; the target may or may not have received it
	Done                    // the target gave a final, good answer
	Failed                  // given up after the last attempt, or the final answer was an error
	Expired                 // it expired before it could be delivered
	Unknown                 // sent without an answer, and it was not safe to send it again
	Cancelled               // by its client or an operator
	statesEnd
)

// StateCount is the number of states.
const StateCount = int(statesEnd)

var stateNames = [...]string{"waiting", "delivering", "done", "failed", "expired", "unknown", "cancelled"}

// String returns the word used in JSON, metrics and logs.
func (s State) String() string {
	if s >= statesEnd {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// ParseState returns the state with that name.
func ParseState(name string) (State, error) {
	if s := slices.Index(stateNames[:], name); s >= 0 {
		return State(s), nil
	}
	return 0, fmt.Errorf("must be one of %s, is %q", strings.Join(stateNames[:], ", "), name)
}

// Final reports whether the entry has left its line.
func (s State) Final() bool { return s >= Done && s < statesEnd }

// Dead reports whether an operator may retry the entry.
func (s State) Dead() bool { return s == Failed || s == Expired || s == Unknown }

// CanBecome reports whether an entry may change from s to another state:
//
//	waiting    ─▶ delivering, cancelled
//	delivering ─▶ waiting (retried, refused, or its lease expired), done, failed, expired, unknown
//	failed, expired, unknown ─▶ waiting (retried by an operator)
func (s State) CanBecome(to State) bool {
	switch s {
	case Waiting:
		return to == Delivering || to == Cancelled
	case Delivering:
		return to == Waiting || to == Done || to == Failed || to == Expired || to == Unknown
	}
	return s.Dead() && to == Waiting
}
