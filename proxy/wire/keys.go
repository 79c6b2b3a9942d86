package wire

import (
	"time"

	"weir/proxy/sketch"
)

// Top returns the keys of a rule that were seen most and refused most lately, over all
// loops.
func (f *Front) Top(id string) (busiest, refused sketch.View) {
	type views struct{ busiest, refused sketch.View }
	found := make(chan views, len(f.sides))
	f.sides.each(func(s *side, now time.Time) {
		var v views
		v.busiest, v.refused = s.tally.Keys(now, id)
		found <- v
	})
	var busy, no []sketch.View
	for {
		select {
		case v := <-found:
			busy, no = append(busy, v.busiest), append(no, v.refused)
			continue
		default:
		}
		return sketch.Merge(busy...), sketch.Merge(no...)
	}
}
