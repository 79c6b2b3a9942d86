package looptest

import (
	"math/rand/v2"
	"time"

	"weir/internal/timing/agenda"
)

// Epoch is the time at which every World begins, as do the bubbles of package synctest.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A World is a simulation of connections and their peers in virtual time, on one goroutine.
// The same random numbers give the same events.
//
// Owned by its goroutine.
type World struct {
	*rand.Rand
	Now time.Time
	// Failed is called with violations by a Handler.
	Failed func(log *History, format string, args ...any)

	agenda agenda.Agenda[time.Duration, func()] // by time since Epoch
	serial int
	turns  []func()  // Pump and Closed, after the current call
	loan   [2][]byte // buffers lent to handlers: to the outer call, and to a nested one
	lent   int
}

// Events returns the number of future events.
func (w *World) Events() int { return w.agenda.Len() }

// Step runs the next event, and then the calls for the end of its turn.
func (w *World) Step() {
	at, do := w.agenda.Next()
	w.Now = Epoch.Add(at)
	do()
	for i := 0; i < len(w.turns); i++ {
		w.turns[i]()
	}
	clear(w.turns)
	w.turns = w.turns[:0]
}

// After schedules do after d.
func (w *World) After(d time.Duration, do func()) { w.At(w.Now.Add(d), do) }

// At schedules do at t.
func (w *World) At(t time.Time, do func()) { w.agenda.Add(t.Sub(Epoch), do) }

// Turn schedules do for the end of the current call.
func (w *World) Turn(do func()) { w.turns = append(w.turns, do) }

// Serial returns consecutive numbers from 1.
func (w *World) Serial() int {
	w.serial++
	return w.serial
}

// Within returns a random time up to d.
func (w *World) Within(d time.Duration) time.Duration { return time.Duration(w.Int64N(int64(d) + 1)) }

// Lend calls f with a copy of b that is overwritten afterwards.
func (w *World) Lend(b []byte, f func(b []byte) int) int {
	loan := append(w.loan[w.lent][:0], b...)
	w.loan[w.lent] = loan
	w.lent++
	n := f(loan)
	w.lent--
	Poison(loan)
	return n
}

// Poison overwrites bytes that must no longer be used.
func Poison(b []byte) {
	for i := range b {
		b[i] = 0xDD
	}
}
