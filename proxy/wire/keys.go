package wire

import (
	"time"

	"weir/proxy/sketch"
)

// Top returns the keys of a rule that were seen most and refused most lately, over all
// loops.
func (f *Front) Top(id string) (busiest, refused sketch.View) {
	var busy, no []sketch.View
	for _, v := range gather(f.sides, func(s *side, now time.Time) [2]sketch.View {
		busiest, refused := s.tally.Keys(now, id)
		return [2]sketch.View{busiest, refused}
	}) {
		busy, no = append(busy, v[0]), append(no, v[1])
	}
	return sketch.Merge(busy...), sketch.Merge(no...)
}
