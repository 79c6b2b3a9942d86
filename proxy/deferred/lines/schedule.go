package lines

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// schedule works out when line number n has an entry to be claimed, and has the heap know.
func (x *Index) schedule(n uint32) {
	l := x.lines.at(n)
	at := int64(math.MaxInt64)
	left := l.parallel
	for i := l.head; i != 0 && left > 0; i = x.items.at(i).next {
		if it := x.items.at(i); !it.Delivering {
			at = min(at, it.Wake)
		}
		left--
	}
	due := &x.rules[l.rule].due
	switch wanted := at < math.MaxInt64 && !x.rules[l.rule].Paused; {
	case !wanted && l.slot != 0:
		heap.Remove(due, int(l.slot)-1)
	case wanted && l.slot == 0:
		l.at = max(at, l.served)
		heap.Push(due, n)
	case wanted:
		l.at = max(at, l.served)
		heap.Fix(due, int(l.slot)-1)
	}
}

// Pick returns the next item that is due, of other rules than those in except, and marks it as
// delivering; 0: none is.
func (x *Index) Pick(now int64, except []string) uint32 {
	n := x.first(except)
	if n == 0 || x.lines.at(n).at > now {
		return 0
	}
	l := x.lines.at(n)
	left := l.parallel
	for i := l.head; i != 0 && left > 0; i = x.items.at(i).next {
		if it := x.items.at(i); !it.Delivering && it.Wake <= now {
			it.Delivering = true
			l.served = now
			x.schedule(n)
			return i
		}
		left--
	}
	panic("bug: a line is due without an entry that is")
}

// Next is when the first line is due, of other rules than those in except; zero: none will be.
func (x *Index) Next(except []string) time.Time {
	if n := x.first(except); n != 0 {
		return time.UnixMicro(x.lines.at(n).at)
	}
	return time.Time{}
}

// first is the number of the line that is due first, of other rules than those in except; 0: there
// is none.
func (x *Index) first(except []string) (first uint32) {
	for _, r := range x.rules {
		if len(r.due.lines) == 0 || slices.Contains(except, r.Name) {
			continue
		}
		if n := r.due.lines[0]; first == 0 || x.lines.at(n).at < x.lines.at(first).at {
			first = n
		}
	}
	return first
}

// StepBack has what was to be at a time be as long from now as it was from the latest time
// seen: the clock was set back.
func (x *Index) StepBack(now int64) {
	for n := range x.allLines {
		x.lines.at(n).served = 0
		for i := x.lines.at(n).head; i != 0; i = x.items.at(i).next {
			it := x.items.at(i)
			it.Wake = now + max(0, it.Wake-x.Seen)
		}
	}
	x.Seen = now
	x.Reschedule()
}

// allLines yields the numbers of all lines, in no order that matters.
func (x *Index) allLines(yield func(n uint32) bool) {
	for _, n := range x.byLine.slots {
		if n != 0 && !yield(n) {
			return
		}
	}
}

// Reschedule has changes of rules take effect.
func (x *Index) Reschedule() {
	for n := range x.allLines {
		x.schedule(n)
	}
}

// A dueHeap has the lines of one rule that have an entry to be claimed, the first due first.
type dueHeap struct {
	of    *slab[line]
	lines []uint32
}

// Len is part of heap.Interface.
func (h *dueHeap) Len() int { return len(h.lines) }

// Less is part of heap.Interface.
func (h *dueHeap) Less(i, j int) bool { return h.of.at(h.lines[i]).at < h.of.at(h.lines[j]).at }

// Swap is part of heap.Interface.
func (h *dueHeap) Swap(i, j int) {
	h.lines[i], h.lines[j] = h.lines[j], h.lines[i]
	h.of.at(h.lines[i]).slot, h.of.at(h.lines[j]).slot = int32(i)+1, int32(j)+1
}

// Push is part of heap.Interface.
func (h *dueHeap) Push(n any) {
	h.lines = append(h.lines, n.(uint32))
	h.of.at(n.(uint32)).slot = int32(len(h.lines))
}

// Pop is part of heap.Interface.
func (h *dueHeap) Pop() any {
	n := h.lines[len(h.lines)-1]
	h.lines = h.lines[:len(h.lines)-1]
	h.of.at(n).slot = 0
	return n
}
