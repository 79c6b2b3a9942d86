package policy

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const stateVersion = 1

// State is everything a [Policy] has learned, for the state file and for looking
// at. It can be written as JSON and read back without loss.
type State struct {
	Version  int       `json:"version"`
	At       time.Time `json:"at"`    // newest snapshot
	Count    int       `json:"count"` // of snapshots
	Capacity Capacity  `json:"capacity"`
	Base     float64   `json:"base"` // p95 at low load in seconds (the reference's L0); 0: unknown
	Guard    Guard     `json:"guard"`
	LastGood *Limit    `json:"lastGood,omitempty"`
	Advised  Limit     `json:"advised"` // the newest recommendation
	Traffic  Traffic   `json:"traffic"`
	Slots    []Slot    `json:"slots"` // the last 24 h
	Belief   Belief    `json:"belief"`
}

// State returns a copy of what was learned.
func (p *Policy) State() State { return p.st.clone() }

func (s State) clone() State {
	if s.LastGood != nil {
		good := *s.LastGood
		s.LastGood = &good
	}
	s.Traffic.Rates = slices.Clone(s.Traffic.Rates)
	s.Traffic.Noise = slices.Clone(s.Traffic.Noise)
	s.Traffic.Spikes = slices.Clone(s.Traffic.Spikes)
	s.Slots = slices.Clone(s.Slots)
	s.Belief.Backlog = slices.Clone(s.Belief.Backlog)
	s.Belief.Weights = slices.Clone(s.Belief.Weights)
	for k, w := range s.Belief.Weights {
		s.Belief.Weights[k] = slices.Clone(w)
	}
	return s
}

// Restore goes on from s, or says what is wrong with it and changes nothing.
func (p *Policy) Restore(s State) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("restore policy: %w", err)
	}
	p.st = s.clone()
	p.odds = p.sum()
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
	case s.LastGood != nil && !s.LastGood.valid():
		return fmt.Errorf("lastGood %+v is no limit", *s.LastGood)
	case len(s.Slots) > slotsMax:
		return fmt.Errorf("%d slots, at most %d are allowed", len(s.Slots), slotsMax)
	case len(s.Traffic.Rates) > recent || len(s.Traffic.Noise) > recent || len(s.Traffic.Spikes) > spikesMax:
		return fmt.Errorf("traffic: too long")
	case b.Weights != nil:
		return b.validate()
	}
	return nil
}

func (b *Belief) validate() error {
	if len(b.Weights) != len(widths) || len(b.Backlog) != cells || !(math.Abs(b.First) < 100) {
		return fmt.Errorf("belief: want %d × %d weights", len(widths), cells)
	}
	sum := 0.0
	for k, w := range b.Weights {
		if len(w) != cells {
			return fmt.Errorf("belief: %d weights in row %d, want %d", len(w), k, cells)
		}
		for _, v := range w {
			if !within(v, 1) {
				return fmt.Errorf("belief: weight %v, want 0 to 1", v)
			}
			sum += v
		}
	}
	for _, v := range b.Backlog {
		if !within(v, backlogMax) {
			return fmt.Errorf("belief: backlog %v, want 0 to %v", v, backlogMax)
		}
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("belief: the weights sum to %v, want 1", sum)
	}
	return nil
}
