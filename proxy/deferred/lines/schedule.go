package lines

import (
	"container/heap"
	"math"
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
	switch wanted := at < math.MaxInt64 && !x.rules[l.rule].Paused; {
	case !wanted && l.slot != 0:
		heap.Remove(x, int(l.slot)-1)
	case wanted && l.slot == 0:
		l.at = max(at, l.served)
		heap.Push(x, n)
	case wanted:
		l.at = max(at, l.served)
		heap.Fix(x, int(l.slot)-1)
	}
}

// Pick returns the next item that is due, and marks it as delivering; 0: none is.
func (x *Index) Pick(now int64) uint32 {
	if len(x.due) == 0 || x.lines.at(x.due[0]).at > now {
		return 0
	}
	n := x.due[0]
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

// Next is when the first line is due; zero: none will be.
func (x *Index) Next() time.Time {
	if len(x.due) == 0 {
		return time.Time{}
	}
	return time.UnixMicro(x.lines.at(x.due[0]).at)
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

// Len, Less, Swap, Push and Pop make the lines that are due a heap.

// Len is part of heap.Interface.
func (x *Index) Len() int { return len(x.due) }

// Less is part of heap.Interface.
func (x *Index) Less(i, j int) bool { return x.lines.at(x.due[i]).at < x.lines.at(x.due[j]).at }

// Swap is part of heap.Interface.
func (x *Index) Swap(i, j int) {
	x.due[i], x.due[j] = x.due[j], x.due[i]
	x.lines.at(x.due[i]).slot, x.lines.at(x.due[j]).slot = int32(i)+1, int32(j)+1
}

// Push is part of heap.Interface.
func (x *Index) Push(n any) {
	x.due = append(x.due, n.(uint32))
	x.lines.at(n.(uint32)).slot = int32(len(x.due))
}

// Pop is part of heap.Interface.
func (x *Index) Pop() any {
	n := x.due[len(x.due)-1]
	x.due = x.due[:len(x.due)-1]
	x.lines.at(n).slot = 0
	return n
}
