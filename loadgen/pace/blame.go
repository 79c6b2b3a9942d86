package pace

import "time"

// A Blame splits the lag of requests by whose fault it is. A request is late
// because the generator looked at it late (it slept, or the machine had other
// things to do), or because no connection was free when it looked. The first
// part is the pacer lag:
//
//	due        dry          ready        start
//	 ├──────────┼─────────────┼────────────┤
//	  generator    connections   generator
//
// From dry on requests wait for connections; at ready one is free. What is due
// between the two is not late by the generator's fault before ready.
//
// Owned by its loop.
type Blame struct {
	dry   time.Time // zero: requests do not wait for connections
	ready time.Time
}

// Dry notes that requests are due and no connection is free.
func (b *Blame) Dry(now time.Time) {
	if b.dry.IsZero() {
		b.dry = now
	}
}

// Ready notes that the loop looks again after Dry. It had wanted to wake at
// the time wanted at the latest; what it overslept is its own.
func (b *Blame) Ready(now, wanted time.Time) {
	b.ready = now
	if wanted.Before(now) {
		b.ready = wanted
	}
}

// Caught notes that nothing is due any more.
func (b *Blame) Caught() { b.dry = time.Time{} }

// PacerLag is the generator's part of the lag of a request that was due at due
// and is started now.
func (b *Blame) PacerLag(now, due time.Time) time.Duration {
	lag := now.Sub(due)
	own := min(lag, now.Sub(b.ready))
	if !b.dry.IsZero() {
		own += max(0, b.dry.Sub(due))
	}
	return max(0, min(own, lag))
}
