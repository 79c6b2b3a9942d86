package gatetest

import (
	"time"

	"weir/proxy/gate"
	"weir/proxy/upstream"
)

// A side is a proxy.
type side struct {
	index    int
	gate     *gate.Gate
	inFlight int
	lanes    []*lane
}

// A lane is a loop of a side.
type lane struct {
	*side
	line   *upstream.Line[*request]
	called bool // by another loop
}

// free is how many places are free.
func (s *side) free() int {
	if s.gate == nil {
		return 1
	}
	return s.gate.Limit() - s.inFlight
}

// lane draws the loop that a request comes to.
func (r *run) lane() *lane {
	s := r.sides[r.rng.IntN(len(r.sides))]
	if len(s.lanes) == 1 {
		return s.lanes[0]
	}
	if first := r.w.First; first > 0 && r.rng.Float64() < first {
		return s.lanes[0]
	} else if first > 0 {
		return s.lanes[1+r.rng.IntN(len(s.lanes)-1)]
	}
	return s.lanes[r.rng.IntN(len(s.lanes))]
}

func anyLoop(int) bool { return true }

// wakeTime is how long it takes until a loop that another one has called looks at its line.
const wakeTime = 100 * time.Microsecond

// admit sends those who wait as far as there is room, or calls the loop whose turn it is.
func (r *run) admit(l *lane) {
	for served := true; !l.line.Idle() && l.free() > 0; {
		rank := upstream.Ranks
		if served {
			rank = l.line.Rank()
		}
		if rival := l.line.Rival(rank, anyLoop); rival >= 0 {
			r.call(l.lanes[rival])
			return
		}
		if rank == upstream.Ranks {
			return
		}
		w := l.line.Next(r.clock())
		if served = w != nil; served {
			r.send(w.Value, true)
		}
	}
}

// call has a loop look at its line.
func (r *run) call(l *lane) {
	if l.called {
		return
	}
	l.called = true
	r.push(r.now+wakeTime, func() {
		l.called = false
		r.admit(l)
	})
}
