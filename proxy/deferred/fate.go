package deferred

import "sync/atomic"

// A SendDecision records whether a delivery continues or was withdrawn before any part of it was sent. It
// changes once.
//
// Safe for concurrent use: it is one atomic number.
type SendDecision struct{ is atomic.Int32 }

const (
	undecided int32 = iota
	goesOn
	withdrawn
)

// Withdraw withdraws the delivery, so that nothing is sent, unless it already continues. It
// reports whether it was withdrawn.
func (f *SendDecision) Withdraw() bool { return f.is.CompareAndSwap(undecided, withdrawn) }

// Commit makes the delivery continue unless it was withdrawn, and reports whether it continues.
// It cannot be withdrawn afterwards.
func (f *SendDecision) Commit() bool {
	return f.is.CompareAndSwap(undecided, goesOn) || f.is.Load() == goesOn
}
