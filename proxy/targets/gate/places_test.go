package gate_test

import (
	"testing"

	"weir/proxy/targets/gate"
)

// Every request takes a place, of whichever loop. Streams take no more than a quarter of
// the places.
func TestPlaces(t *testing.T) {
	var p gate.Places
	if p.Limit() != 0 {
		t.Errorf("before there is a limit it is %d", p.Limit())
	}
	p.SetLimit(8)
	var has [2]gate.LoopUse
	becomes := func(loop int, use gate.LoopUse) {
		p.Change(has[loop], use)
		has[loop] = use
	}
	for _, step := range []struct {
		loop            int
		use             gate.LoopUse
		taken, atTarget int
	}{
		{0, gate.LoopUse{Streams: 1}, 1, 1},
		{1, gate.LoopUse{Streams: 4}, 2, 2},
		{0, gate.LoopUse{Streams: 1, Short: 3}, 5, 5},
		{1, gate.LoopUse{Streams: 4, Short: 3, Waiting: 2}, 8, 6},
		{0, gate.LoopUse{Short: 5}, 10, 8},
		{1, gate.LoopUse{Short: 1}, 6, 6},
		{0, gate.LoopUse{}, 1, 1},
	} {
		becomes(step.loop, step.use)
		free, atTarget := p.Now()
		if p.Taken() != step.taken || p.Free() != 8-step.taken || free != p.Free() || atTarget != step.atTarget {
			t.Errorf("%+v: %d places are taken, %d free, %d at the target; want %d and %d", has, p.Taken(), p.Free(),
				atTarget, step.taken, step.atTarget)
		}
	}
	if p.SetLimit(0); p.Limit() != 1 {
		t.Errorf("the least limit is %d", p.Limit())
	}
}
