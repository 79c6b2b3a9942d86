package pace

import "time"

// A LagSplit splits the lag of requests by cause. A request is late because the generator
// noticed it late (it slept, or the machine was busy), or because no connection was free
// at that time. The first part is the pacer lag:
//
//	due        dry          ready        start
//	 ├──────────┼─────────────┼────────────┤
//	  generator    connections   generator
//
// From dry on requests wait for connections; at ready one is free. For requests due
// between the two, the generator is not to blame for the time before ready.
//
// Owned by its loop.
type LagSplit struct {
	dry   time.Time // zero: requests do not wait for connections
	ready time.Time
}

// Dry records that requests are due and no connection is free.
func (l *LagSplit) Dry(now time.Time) {
	if l.dry.IsZero() {
		l.dry = now
	}
}

// Ready records that the loop checks again after Dry. It had wanted to wake by wanted; a
// later wake-up is the generator's fault.
func (l *LagSplit) Ready(now, wanted time.Time) {
	l.ready = now
	if wanted.Before(now) {
		l.ready = wanted
	}
}

// CaughtUp records that all due requests have been sent.
func (l *LagSplit) CaughtUp() { l.dry = time.Time{} }

// PacerLag returns the generator's part of the lag of a request that was due at due and
// is started now.
func (l *LagSplit) PacerLag(now, due time.Time) time.Duration {
	lag := now.Sub(due)
	own := min(lag, now.Sub(l.ready))
	if !l.dry.IsZero() {
		own += max(0, l.dry.Sub(due))
	}
	return max(0, min(own, lag))
}
