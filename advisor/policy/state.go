package policy

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const stateVersion = 2

// State is everything a [Policy] has learned, for the state file and for looking
// at. It can be written as JSON and read back without loss.
type State struct {
	Version  int       `json:"version"`
	At       time.Time `json:"at"`    // newest snapshot
	Count    int       `json:"count"` // of snapshots
	Capacity Capacity  `json:"capacity"`
	Base     float64   `json:"base"`     // p95 at low load in seconds; 0: unknown
	BaseLoad float64   `json:"baseLoad"` // 0 to 1, share of the capacity that was used when Base was learned
	Good     float64   `json:"good"`     // good answers per second, of the last half minute
	Idle     float64   `json:"idle"`     // seconds since a gate held back much
	Full     float64   `json:"full"`     // seconds for which a gate has held back more than passing crowds
	Guard    Guard     `json:"guard"`
	Advised  Limit     `json:"advised"` // the newest recommendation
	Slots    []Slot    `json:"slots"`   // the last 24 h
	Belief   Belief    `json:"belief"`
}

// State returns a copy of what was learned.
func (p *Policy) State() State { return p.st.clone() }

func (s State) clone() State {
	s.Slots = slices.Clone(s.Slots)
	return s
}

// Restore goes on from s, or says what is wrong with it and changes nothing.
func (p *Policy) Restore(s State) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("restore policy: %w", err)
	}
	p.st = s.clone()
	return nil
}

func (s *State) validate() error {
	switch b := &s.Belief; {
	case s.Version != stateVersion:
		return fmt.Errorf("version %d, want %d", s.Version, stateVersion)
	case s.Count < 0 || s.Count > 0 && s.At.Year() < 1970:
		return fmt.Errorf("%d snapshots until %v", s.Count, s.At)
	case !within(s.Base, delayMax.Seconds()):
		return fmt.Errorf("base %v, want seconds", s.Base)
	case !within(s.BaseLoad, 1):
		return fmt.Errorf("base load %v, want a share", s.BaseLoad)
	case !within(s.Good, numberMax) || !within(s.Idle, idleMax) || !within(s.Full, idleMax):
		return fmt.Errorf("good %v, want a rate; idle %v and full %v, want up to %v seconds", s.Good, s.Idle, s.Full, idleMax)
	case len(s.Slots) > slotsMax+1:
		return fmt.Errorf("%d slots, at most %d are allowed", len(s.Slots), slotsMax+1)
	case !within(b.Variance, 100) || !within(math.Abs(b.Mean), 100):
		return fmt.Errorf("belief %+v, want the logarithm of a rate and its variance", *b)
	}
	for _, slot := range s.Slots {
		if !within(slot.Proven, numberMax) {
			return fmt.Errorf("slot of %v: proven %v, want a rate", slot.At, slot.Proven)
		}
	}
	return nil
}
