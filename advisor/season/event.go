package season

import (
	"fmt"
	"slices"
	"sort"
)

// calendar is the events by their start.
type calendar struct {
	spans   []span
	longest float64 // of a span with its ramps
}

// A span is an event in seconds: 1 from start to end, linear over ramp outside.
type span struct {
	name             int
	start, end, ramp float64
}

// newCalendar returns the events, and their names in alphabetical order.
func newCalendar(events []Event) (calendar, []string, error) {
	var names []string
	for i, e := range events {
		switch {
		case e.Name == "":
			return calendar{}, nil, fmt.Errorf("season: event %d: no name", i)
		case e.Start.IsZero() || e.End.Before(e.Start):
			return calendar{}, nil, fmt.Errorf("season: event %d (%s): must end at or after its start", i, e.Name)
		case e.Ramp < 0:
			return calendar{}, nil, fmt.Errorf("season: event %d (%s): ramp must be at least 0, is %s", i, e.Name, e.Ramp)
		}
		names = append(names, e.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > namesMax {
		return calendar{}, nil, fmt.Errorf("season: at most %d different names of events, are %d", namesMax, len(names))
	}
	var c calendar
	for _, e := range events {
		name, _ := slices.BinarySearch(names, e.Name)
		s := span{name, seconds(e.Start), seconds(e.End), e.Ramp.Seconds()}
		c.spans = append(c.spans, s)
		c.longest = max(c.longest, s.end-s.start+2*s.ramp)
	}
	slices.SortStableFunc(c.spans, func(a, b span) int {
		switch {
		case a.start-a.ramp < b.start-b.ramp:
			return -1
		case a.start-a.ramp > b.start-b.ramp:
			return 1
		}
		return a.name - b.name
	})
	return c, names, nil
}

// at returns how much of the event there is, 0 to 1.
func (s span) at(t float64) float64 {
	away := max(s.start-t, t-s.end)
	switch {
	case away <= 0:
		return 1
	case away >= s.ramp:
		return 0
	}
	return 1 - away/s.ramp
}

// each tells the events at t that are not 0. Two of one name at once are told
// twice.
func (c calendar) each(t float64, tell func(name int, value float64)) {
	next := sort.Search(len(c.spans), func(i int) bool { return c.spans[i].start-c.spans[i].ramp > t })
	for i := next - 1; i >= 0; i-- {
		s := c.spans[i]
		if s.start-s.ramp < t-c.longest {
			return
		}
		if v := s.at(t); v > 0 {
			tell(s.name, v)
		}
	}
}
