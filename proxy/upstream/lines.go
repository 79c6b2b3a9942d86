package upstream

import (
	"math"
	"sync/atomic"
)

// Lines are the lines of several loops, which wait for the same places. Whose turn it is
// among those in one line, the line knows; among the lines it is that of the loop with the
// fewest places.
//
// Safe for concurrent use: asking and the standings are atomic words.
type Lines struct {
	asking atomic.Int32 // how many do
	loops  []standing
}

// A standing is what other loops need to know of a line.
type standing struct {
	asks  atomic.Bool  // somebody waits who may have the next place
	taken atomic.Int64 // places of the loop
	_     [128 - 16]byte
}

// NewLines returns what the lines of so many loops share.
func NewLines(loops int) *Lines { return &Lines{loops: make([]standing, loops)} }

// Among makes the line, which is new, that of a loop among others.
func (l *Line[W]) Among(of *Lines, loop int) { l.of, l.loop = of, loop }

// Idle reports whether nobody waits, in this line or another, who may have a place.
func (l *Line[W]) Idle() bool { return l.count == 0 && l.of.asking.Load() == 0 }

// Ask says whether somebody waits in the line who may have the next place that is free. It
// reports whether that is news to other loops.
func (l *Line[W]) Ask(asks bool) (news bool) {
	s := &l.of.loops[l.loop]
	if s.asks.Load() == asks {
		return false
	}
	s.asks.Store(asks)
	if asks {
		l.of.asking.Add(1)
	} else {
		l.of.asking.Add(-1)
	}
	return len(l.of.loops) > 1
}

// Rival returns the loop whose line is to have the next place at a target, instead of this
// one; -1: it is this one's turn, or nobody else asks. open says whether a loop sends
// requests to the target. A loop that wants no place itself has more than all others.
func (l *Line[W]) Rival(wants bool, open func(loop int) bool) int {
	own := &l.of.loops[l.loop]
	others := l.of.asking.Load()
	if own.asks.Load() {
		others--
	}
	if others <= 0 {
		return -1
	}
	best, fewest := -1, int64(math.MaxInt64)
	if wants {
		fewest = own.taken.Load()
	}
	for i := range l.of.loops {
		s := &l.of.loops[i]
		if i == l.loop || !s.asks.Load() {
			continue
		}
		if n := s.taken.Load(); n < fewest && open(i) {
			best, fewest = i, n
		}
	}
	return best
}

// taken is how many places all loops have.
func (ls *Lines) taken() (n int) {
	for i := range ls.loops {
		n += int(ls.loops[i].taken.Load())
	}
	return n
}
