package policy

import (
	"fmt"
	"math"
	"time"
)

const stateVersion = 2

// State is everything a [Policy] has learned, for the state file and for display. It can
// be written as JSON and read back without loss.
type State struct {
	Version  int       `json:"version"`
	At       time.Time `json:"at"`    // newest snapshot
	Count    int       `json:"count"` // of snapshots
	Capacity Capacity  `json:"capacity"`
	Base     float64   `json:"base"`   // p95 at low load in seconds; 0: unknown
	Good     float64   `json:"good"`   // good answers per second over the last half minute
	Proven   float64   `json:"proven"` // highest of them while the target was healthy; half-life of a day
	Takes    float64   `json:"takes"`  // mean answer time without a queue in seconds; 0: unknown
	// most requests that a healthy target has worked on at a time; half-life of a week
	AtWork   float64        `json:"atWork"`
	Employed int            `json:"employed"` // snapshots that AtWork is from
	Full     float64        `json:"full"`     // seconds for which a gate has recently held back much
	Guard    OverloadPeriod `json:"guard"`
	Advised  Limit          `json:"advised"` // the newest recommendation
	Belief   Belief         `json:"belief"`
}

// State returns what was learned.
func (p *Policy) State() State { return p.st }

// Restore continues from s, or reports what is wrong with it and changes nothing.
func (p *Policy) Restore(s State) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("restore policy: %w", err)
	}
	p.st = s
	return nil
}

func (s *State) validate() error {
	switch b := &s.Belief; {
	case s.Version != stateVersion:
		return fmt.Errorf("version %d, want %d", s.Version, stateVersion)
	case s.Count < 0 || s.Employed < 0 || s.Count > 0 && s.At.Year() < 1970:
		return fmt.Errorf("%d snapshots until %v, %d for the number at work", s.Count, s.At, s.Employed)
	case !within(s.Base, delayMax.Seconds()):
		return fmt.Errorf("base %v, want seconds", s.Base)
	case !within(s.Good, numberMax) || !within(s.Proven, numberMax) || !within(s.Full, numberMax):
		return fmt.Errorf("good %v and proven %v, want rates; full %v, want seconds", s.Good, s.Proven, s.Full)
	case !within(s.Takes, numberMax) || !within(s.AtWork, numberMax):
		return fmt.Errorf("takes %v, want seconds; at work %v, want a number", s.Takes, s.AtWork)
	case !within(b.Variance, 100) || !within(math.Abs(b.Mean), 100):
		return fmt.Errorf("belief %+v, want the logarithm of a rate and its variance", *b)
	}
	return nil
}
