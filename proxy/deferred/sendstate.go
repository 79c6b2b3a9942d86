package deferred

import "sync/atomic"

// A SendState records whether a delivery continues or was withdrawn before any part of it was sent. It
// changes once.
//
// Safe for concurrent use: it is one atomic number.
type SendState struct{ is atomic.Int32 }

const (
	undecided int32 = iota
	committed
	withdrawn
)

// Withdraw withdraws the delivery, so that nothing is sent, unless it already continues. It
// reports whether it was withdrawn.
func (s *SendState) Withdraw() bool { return s.is.CompareAndSwap(undecided, withdrawn) }

// Commit makes the delivery continue unless it was withdrawn, and reports whether it continues.
// It cannot be withdrawn afterwards.
func (s *SendState) Commit() bool {
	return s.is.CompareAndSwap(undecided, committed) || s.is.Load() == committed
}
