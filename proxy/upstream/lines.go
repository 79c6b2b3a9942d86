package upstream

import "sync/atomic"

// Lines are the lines of several loops, which wait for the same places. Whose turn it is
// among those in one line, the line knows; among the lines it is that of the loop where
// somebody of the highest priority waits, and of these the one with the fewest places. Loops
// that have none take turns.
//
// Safe for concurrent use: asking and the standings are atomic words.
type Lines struct {
	asking atomic.Int32 // how many do
	served atomic.Int32 // the loop that was given a place last while somebody waited
	loops  []standing
}

// A standing is what other loops need to know of a line.
type standing struct {
	asks  atomic.Int64 // Ranks less the highest rank of those who wait; 0: nobody may have the next place
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
	s, now := &l.of.loops[l.loop], int64(0)
	if asks {
		now = Ranks - int64(l.Rank())
	}
	before := s.asks.Load()
	if before == now {
		return false
	}
	s.asks.Store(now)
	switch {
	case before == 0:
		l.of.asking.Add(1)
		return len(l.of.loops) > 1
	case now == 0:
		l.of.asking.Add(-1)
	}
	return false
}

// asksAgain tells other loops the highest rank of those who wait, if the line asks.
func (l *Line[W]) asksAgain() {
	if l.of.loops[l.loop].asks.Load() > 0 {
		l.Ask(l.count > 0)
	}
}

// Rank is the highest rank of those who wait; Ranks: nobody does.
func (l *Line[W]) Rank() int {
	for i, r := range l.ranks {
		if r != nil && r.queues[0].count+r.queues[1].count > 0 {
			return i
		}
	}
	return Ranks
}

// Rival returns the loop whose line is to have the next place at a target, instead of
// somebody of that rank on this one; -1: there is none. With Ranks nobody of this loop wants
// the place. open says whether a loop sends requests to the target.
func (l *Line[W]) Rival(rank int, open func(loop int) bool) int {
	own := &l.of.loops[l.loop]
	others := l.of.asking.Load()
	if own.asks.Load() > 0 {
		others--
	}
	if others <= 0 {
		return -1
	}
	best, highest, fewest := -1, Ranks-int64(rank), own.taken.Load()
	turn := l.of.turn(l.loop)
	for i := range l.of.loops {
		s := &l.of.loops[i]
		asks := s.asks.Load()
		if i == l.loop || asks == 0 || asks < highest {
			continue
		}
		n := s.taken.Load()
		if (asks > highest || n < fewest || n == 0 && fewest == 0 && l.of.turn(i) < turn) && open(i) {
			best, highest, fewest, turn = i, asks, n, l.of.turn(i)
		}
	}
	return best
}

// turn is how many other loops come before it in turn.
func (ls *Lines) turn(loop int) int {
	return (loop - int(ls.served.Load()) - 1 + len(ls.loops)) % len(ls.loops)
}

// Taken is how many places all loops have.
func (ls *Lines) Taken() (n int) {
	for i := range ls.loops {
		n += int(ls.loops[i].taken.Load())
	}
	return n
}
