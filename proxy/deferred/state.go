package deferred

import (
	"fmt"
	"strings"
)

// A State is where an entry is on its way.
type State uint8

const (
	Waiting    State = iota // in its line
	Delivering              // claimed: the target may have it or not
	Done                    // the target gave a final answer
	Failed                  // given up after the last attempt, or the answer was final and bad
	Expired                 // its time passed before it could be delivered
	Unknown                 // sent, no answer, and sending again was not safe
	Cancelled               // by its client, or by an operator
	statesEnd
)

// StatesCount is how many states there are.
const StatesCount = int(statesEnd)

var stateNames = [...]string{"waiting", "delivering", "done", "failed", "expired", "unknown", "cancelled"}

// String returns the word used in JSON, metrics and logs.
func (s State) String() string {
	if s >= statesEnd {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// ParseState returns the state called name.
func ParseState(name string) (State, error) {
	for s, n := range stateNames {
		if n == name {
			return State(s), nil
		}
	}
	return 0, fmt.Errorf("must be one of %s, is %q", strings.Join(stateNames[:], ", "), name)
}

// Final says whether the entry has left its line.
func (s State) Final() bool { return s >= Done && s < statesEnd }

// Dead says whether an operator may play the entry again.
func (s State) Dead() bool { return s == Failed || s == Expired || s == Unknown || s == Cancelled }

// May says whether an entry may go from s to another state:
//
//	waiting    ─▶ delivering, cancelled
//	delivering ─▶ waiting (retried, refused, or its lease passed), done, failed, expired, unknown
//	failed, expired, unknown, cancelled ─▶ waiting (played again)
func (s State) May(to State) bool {
	switch s {
	case Waiting:
		return to == Delivering || to == Cancelled
	case Delivering:
		return to == Waiting || to == Done || to == Failed || to == Expired || to == Unknown
	}
	return s.Dead() && to == Waiting
}
