package advisor

import (
	"fmt"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/series"
	"weir/bench/closedloop"
)

// learn lets a forecaster see the history of a scenario, and keeps its memory for
// the contestants.
func learn(s *closedloop.Scenario) error {
	if len(s.History) == 0 {
		return nil
	}
	f := forecast.New(forecast.Settings{Location: time.UTC})
	var rows []series.Row
	last := time.Time{}
	step := s.Demand.Step
	for _, p := range s.History {
		if d := p.At.Sub(last); d < step || step < time.Minute {
			step = d
		}
		last = p.At
		rows = append(rows, series.Row{At: p.At, Interval: step, Rate: p.Rate, Coverage: 1})
	}
	f.Load(rows)
	memory, err := f.MarshalBinary()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := forecast.New(forecast.Settings{Location: time.UTC}).UnmarshalBinary(memory); err != nil {
		return fmt.Errorf("%s: what was learned cannot be read back: %w", s.Name, err)
	}
	s.Memory = memory
	return nil
}
