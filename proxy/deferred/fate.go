package deferred

import "sync/atomic"

// A Fate says whether a delivery goes on or was withdrawn before anything of it was sent; it
// changes once.
//
// Safe for concurrent use: it is one atomic number.
type Fate struct{ is atomic.Int32 }

const (
	undecided int32 = iota
	goesOn
	withdrawn
)

// Withdraw takes the delivery back, unless it goes on already, and reports whether it did: then
// nothing is sent.
func (f *Fate) Withdraw() bool { return f.is.CompareAndSwap(undecided, withdrawn) }

// GoesOn reports whether the delivery goes on. From then on it cannot be withdrawn.
func (f *Fate) GoesOn() bool {
	return f.is.CompareAndSwap(undecided, goesOn) || f.is.Load() == goesOn
}
