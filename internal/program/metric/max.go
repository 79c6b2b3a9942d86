package metric

import (
	"sync/atomic"
	"time"
)

const (
	// maxWindow is how far back Max looks, in seconds.
	maxWindow = 60
	// maxSlots is the number of slots of one second: the power of two above the window, so
	// that the index is a mask of the second.
	maxSlots = 64
	// A slot has the second, modulo 2^24, and in the lower 40 bits the duration in
	// nanoseconds (up to 18 minutes; longer ones count as that).
	maxValueBits = 40
	maxValueMask = 1<<maxValueBits - 1
	maxStampMask = 1<<(64-maxValueBits) - 1
)

// A Max is the largest duration observed within the last minute. It keeps the maximum of each of
// the last 60 seconds. The zero value is ready.
//
// One atomic word has both the second and its maximum, so that a reader never mistakes an old
// duration for a new one.
//
// Safe for concurrent use: Observe by one goroutine, Read by any.
type Max struct {
	slots [maxSlots]atomic.Uint64
}

// Observe records d, which ended at now. A negative d is ignored.
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

// Read returns the largest duration of the last minute before now, or 0 if there is none.
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
