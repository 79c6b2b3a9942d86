package loop

import (
	"container/heap"
	"time"
)

// An Alarm calls a function at a precise time, once for each Set.
//
// Owned by its loop.
type Alarm struct {
	loop *Loop
	ring func(now time.Time)
	at   time.Duration
	i    int // place in the heap, -1 when not set
}

// NewAlarm returns an Alarm that calls ring on the loop. now is the time of the turn, which is
// not before the time set.
func (l *Loop) NewAlarm(ring func(now time.Time)) *Alarm {
	return &Alarm{loop: l, ring: ring, i: -1}
}

// Set sets or replaces the time of the Alarm. If it has passed, the Alarm rings at the end of
// this turn.
func (a *Alarm) Set(at time.Time) {
	a.at = a.loop.since(at)
	if a.i < 0 {
		heap.Push(&a.loop.alarms, a)
	} else {
		heap.Fix(&a.loop.alarms, a.i)
	}
	if a.loop.depth == 0 {
		panic("bug: alarm set outside its loop's turn")
	}
}

// Stop clears the time.
func (a *Alarm) Stop() {
	if a.i >= 0 {
		heap.Remove(&a.loop.alarms, a.i)
	}
}

// ringing bounds the alarms of one turn, so that an Alarm that keeps setting itself to a past
// time does not block the loop.
const ringing = 64

// ring rings the alarms that are due. Those beyond the bound ring in the next turn.
func (l *Loop) ring(now time.Time, at time.Duration) {
	for n := 0; l.alarms.due(at) && n < ringing; n++ {
		a := heap.Pop(&l.alarms).(*Alarm)
		l.protect(nil, func() { a.ring(now) })
	}
}

// alarms is a heap of the alarms that are set, the earliest first. It implements
// heap.Interface.
type alarms []*Alarm

func (h alarms) next() time.Duration {
	if len(h) == 0 {
		return never
	}
	return h[0].at
}

func (h alarms) due(at time.Duration) bool { return len(h) > 0 && h[0].at <= at }

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at < h[j].at }
func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].i, h[j].i = i, j
}

// Push implements heap.Interface.
func (h *alarms) Push(x any) {
	a := x.(*Alarm)
	a.i = len(*h)
	*h = append(*h, a)
}

// Pop implements heap.Interface.
func (h *alarms) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.i = -1
	return a
}
