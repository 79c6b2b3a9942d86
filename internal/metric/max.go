package metric

import (
	"sync/atomic"
	"time"
)

const (
	// maxWindow is how far back Max looks, in seconds.
	maxWindow = 60
	// maxSlots is the number of slots of one second: the power of two above
	// the window, so that a slot is found by a mask.
	maxSlots = 64
	// The word of a slot: the second, modulo 2^24, above the duration in
	// nanoseconds in 40 bits (up to 18 minutes; longer ones count as that).
	maxValueBits = 40
	maxValueMask = 1<<maxValueBits - 1
	maxStampMask = 1<<(64-maxValueBits) - 1
)

// A Max is the largest duration observed within the last minute, by the clock
// of its owner. It keeps the largest of each of the last 60 seconds and forgets
// whole seconds. The zero value is ready.
//
// Each second is one atomic word that holds both which second it is and its
// largest duration, so that a reader never takes an old duration for a new one.
//
// Safe for concurrent use: Observe by one goroutine (its loop), Read by any.
type Max struct {
	slots [maxSlots]atomic.Uint64
}

// Observe takes note of d, which ended at now. A negative d is ignored.
func (m *Max) Observe(now time.Time, d time.Duration) {
	if d <= 0 {
		return
	}
	second := uint64(now.Unix())
	stamp := second & maxStampMask
	slot := &m.slots[second%maxSlots]
	value := min(uint64(d), maxValueMask)
	if old := slot.Load(); old>>maxValueBits == stamp && old&maxValueMask >= value {
		return
	}
	slot.Store(stamp<<maxValueBits | value)
}

// Read returns the largest duration of the last minute before now; 0 when there
// was none.
func (m *Max) Read(now time.Time) time.Duration {
	second := uint64(now.Unix())
	var largest uint64
	for i := range m.slots {
		word := m.slots[i].Load()
		age := (second - word>>maxValueBits) & maxStampMask
		if age < maxWindow {
			largest = max(largest, word&maxValueMask)
		}
	}
	return time.Duration(largest)
}
