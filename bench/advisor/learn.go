package advisor

import (
	"fmt"

	"weir/advisor/core"
	"weir/bench/closedloop"
)

// learn lets a core learn the history of a scenario, and keeps its memory for the
// contestants.
func learn(s *closedloop.Scenario) (err error) {
	if len(s.History) == 0 {
		return nil
	}
	c := core.New(s.Tuning())
	c.Import(s.History)
	if s.Memory, err = c.Parts(); err != nil {
		return fmt.Errorf("%s: write down what was learned: %w", s.Name, err)
	}
	return nil
}
