package looptest

import (
	"math/rand/v2"
	"time"

	"weir/internal/agenda"
)

// Epoch is when every World begins.
var Epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// A World is virtual time, with connections whose peers are simulated, on one goroutine.
// The same chance plays the same world.
//
// Owned by its goroutine.
type World struct {
	*rand.Rand
	Now time.Time
	// Failed is called with what a Handler has done wrong.
	Failed func(log *History, format string, args ...any)

	agenda agenda.Agenda[time.Duration, func()] // by the time since Epoch
	serial int
	turns  []func()  // Pump and Closed, after the current call
	loan   [2][]byte // what is lent to handlers: to the outer call, and to one inside it
	lent   int
}

// Events returns how many events are to come.
func (w *World) Events() int { return w.agenda.Len() }

// Step takes the next event, and what is to happen at the end of its turn.
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

// After has do called when d has passed.
func (w *World) After(d time.Duration, do func()) { w.At(w.Now.Add(d), do) }

// At has do called at t.
func (w *World) At(t time.Time, do func()) { w.agenda.Add(t.Sub(Epoch), do) }

// Turn has do called when the current call is over.
func (w *World) Turn(do func()) { w.turns = append(w.turns, do) }

// Serial returns a number that was not returned before.
func (w *World) Serial() int {
	w.serial++
	return w.serial
}

// Within returns a time up to d.
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

// Poison overwrites what nobody may use any more.
func Poison(b []byte) {
	for i := range b {
		b[i] = 0xDD
	}
}
