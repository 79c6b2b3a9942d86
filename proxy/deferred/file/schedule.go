package file

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// schedule computes when line number n has an entry to claim, and updates the heap.
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

// Pick returns the number of the next item that is due, and marks it as delivering. It skips the
// rules in except. It returns 0 if no item is due.
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

// Next returns when the first line is due, without the rules in except, or zero if no line will
// be.
func (x *Index) Next(except []string) time.Time {
	if n := x.first(except); n != 0 {
		return time.UnixMicro(x.lines.at(n).at)
	}
	return time.Time{}
}

// first returns the number of the line that is due first, without the rules in except, or 0.
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

// ShiftTimes moves the times of all items when the clock was set back: what was due in some time
// from the latest time seen is due in the same time from now.
func (x *Index) ShiftTimes(now int64) {
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

// allLines yields the numbers of all lines.
func (x *Index) allLines(yield func(n uint32) bool) {
	for n := uint32(1); n <= x.lines.used; n++ {
		if x.lines.at(n).entries > 0 && !yield(n) {
			return
		}
	}
}

// Reschedule applies changes of rules to all lines.
func (x *Index) Reschedule() {
	for n := range x.allLines {
		x.schedule(n)
	}
}

// A dueHeap has the lines of one rule that have an entry to claim, the first due first.
type dueHeap struct {
	of    *slab[line]
	lines []uint32
}

// Len implements heap.Interface.
func (h *dueHeap) Len() int { return len(h.lines) }

// Less implements heap.Interface.
func (h *dueHeap) Less(i, j int) bool { return h.of.at(h.lines[i]).at < h.of.at(h.lines[j]).at }

// Swap implements heap.Interface.
func (h *dueHeap) Swap(i, j int) {
	h.lines[i], h.lines[j] = h.lines[j], h.lines[i]
	h.of.at(h.lines[i]).slot, h.of.at(h.lines[j]).slot = int32(i)+1, int32(j)+1
}

// Push implements heap.Interface.
func (h *dueHeap) Push(n any) {
	h.lines = append(h.lines, n.(uint32))
	h.of.at(n.(uint32)).slot = int32(len(h.lines))
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	n := h.lines[len(h.lines)-1]
	h.lines = h.lines[:len(h.lines)-1]
	h.of.at(n).slot = 0
	return n
}
