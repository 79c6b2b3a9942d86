package gate

import (
	"sync/atomic"
	"time"
)

// Streams may take 1/streamsPart of the places.
const streamsPart = 4

// A proxy reports to the advisor every ReportIntervalWhenFull while gates of FullGatesShare of all places
// are full, since the target's capacity is visible then.
const (
	ReportIntervalWhenFull = 2 * time.Second
	FullGatesShare         = .1
)

// WarmUp is for how long after the proxy's start the advisor bounds the limits: then a gate has
// learned little, and may take the queue that it causes at an overloaded target for the usual
// answer time. Later a bound has no measurable use, and would hold back unusual crowds.
const WarmUp = time.Minute

// Places are the places that a limit gives at a target, to all loops together. Every request
// takes one, but streams, whose pace depends on the client, take at most a quarter of the
// places all together.
//
// Looking for a free place and taking it are two steps: several loops may take the last
// place at the same instant.
//
// Safe for concurrent use: every field is one atomic word.
type Places struct {
	_                       [64]byte // the neighbours change less often
	limit                   atomic.Int64
	down, busy, stalled     atomic.Bool
	short, waiting, streams atomic.Int64 // sums of each LoopUse
	_                       [24]byte
}

// A LoopUse is a loop's use of a target.
type LoopUse struct {
	Short   int // requests in flight that are no streams
	Waiting int // those of them that wait for a connection
	Streams int
}

// SetLimit sets how many places there are, at least 1.
func (p *Places) SetLimit(limit int) { p.limit.Store(int64(max(limit, 1))) }

// SetDown sets whether the target refuses nearly everything.
func (p *Places) SetDown(down bool) { set(&p.down, down) }

// SetBusy sets whether requests wait in the target.
func (p *Places) SetBusy(busy bool) { set(&p.busy, busy) }

// SetStalled sets whether the limit has risen because nothing is answered.
func (p *Places) SetStalled(stalled bool) { set(&p.stalled, stalled) }

// Scarce reports whether requests may wait in the target, so that whoever holds places for long
// costs the others something.
func (p *Places) Scarce() bool { return p.busy.Load() || p.stalled.Load() }

func set(b *atomic.Bool, to bool) {
	if to != b.Load() {
		b.Store(to)
	}
}

// Busy reports whether requests wait in the target.
func (p *Places) Busy() bool { return p.busy.Load() }

// Severity returns the status that an answer with the given one has for the health of the target.
// A target that refuses what it cannot take is not to be taken out of use, or the others would
// have to take even more: unless it refuses nearly everything, 503 is like any other error, 500.
func (p *Places) Severity(status int) int {
	if status == 503 && p.Limit() > 0 && !p.down.Load() {
		return 500
	}
	return status
}

// Limit returns how many places there are; 0 if it was never set.
func (p *Places) Limit() int { return int(p.limit.Load()) }

// Change records that the use by a loop has changed from before to now.
func (p *Places) Change(before, now LoopUse) {
	add(&p.short, now.Short-before.Short)
	add(&p.waiting, now.Waiting-before.Waiting)
	add(&p.streams, now.Streams-before.Streams)
}

func add(sum *atomic.Int64, n int) {
	if n != 0 {
		sum.Add(int64(n))
	}
}

// InFlight returns how many requests are in flight, without streams.
func (p *Places) InFlight() int { return int(p.short.Load()) }

// Taken returns how many places are taken.
func (p *Places) Taken() int {
	short, streams := p.short.Load(), p.streams.Load()
	if streams > 0 { // few targets have any
		short += min(streams, p.limit.Load()/streamsPart)
	}
	return int(short)
}

// Now returns how many places are free, like Free, and how many requests that have a place
// are at the target, and do not wait for a connection.
func (p *Places) Now() (free, atTarget int) {
	taken := p.Taken()
	return p.Limit() - taken, taken - int(p.waiting.Load())
}

// Free returns how many places are free. It is negative after the limit has fallen.
func (p *Places) Free() int { return p.Limit() - p.Taken() }
