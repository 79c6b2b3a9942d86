package gate

import "sync/atomic"

// streamsPart is the part of the places that streams may take.
const streamsPart = 4

// StreamPlaces is how many places so many streams take, of so many that there are.
func StreamPlaces[N int | int64](streams, limit N) N { return min(streams, limit/streamsPart) }

// Places are those that a limit gives at a target, to all loops together. Every request
// takes one, but streams, whose pace is their client's, take no more than a quarter of
// them all together.
//
// Loops look before they take: when several do at the same instant, each may have the last
// place.
//
// Safe for concurrent use: every field is one atomic word.
type Places struct {
	_                       [64]byte // what is beside changes more seldom
	limit                   atomic.Int64
	short, waiting, streams atomic.Int64 // as in a Use, of all loops
	_                       [32]byte
}

// A Use is what a loop has of a target.
type Use struct {
	Short   int // requests in flight that are no streams
	Waiting int // of those in flight, wait for a connection
	Streams int
}

// SetLimit sets how many places there are, at least 1.
func (p *Places) SetLimit(limit int) { p.limit.Store(int64(max(limit, 1))) }

// Limit is how many places there are; 0: it was never set.
func (p *Places) Limit() int { return int(p.limit.Load()) }

// Change records that the use by a loop has changed from before to now.
func (p *Places) Change(before, now Use) {
	add(&p.short, now.Short-before.Short)
	add(&p.waiting, now.Waiting-before.Waiting)
	add(&p.streams, now.Streams-before.Streams)
}

func add(sum *atomic.Int64, n int) {
	if n != 0 {
		sum.Add(int64(n))
	}
}

// InFlight is how many requests are in flight that are no streams.
func (p *Places) InFlight() int { return int(p.short.Load()) }

// Taken is how many places are taken.
func (p *Places) Taken() int {
	short, streams := p.short.Load(), p.streams.Load()
	if streams > 0 { // few targets have any
		short += StreamPlaces(streams, p.limit.Load())
	}
	return int(short)
}

// Now is how many places are not taken, as Free, and how many of those with a place have
// a connection.
func (p *Places) Now() (free, atTarget int) {
	taken := p.Taken()
	return p.Limit() - taken, taken - int(p.waiting.Load())
}

// Free is how many places are not taken, below 0 when the limit has fallen.
func (p *Places) Free() int { return p.Limit() - p.Taken() }
