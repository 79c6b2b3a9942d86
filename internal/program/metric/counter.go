package metric

import (
	"math"
	"sync/atomic"
)

// A Counter counts events; it only grows. The zero value is ready.
//
// Loops that write the same Counter contend for its cache line. Give each loop its own, and sum
// them in the reading function.
//
// Safe for concurrent use: one atomic word.
type Counter struct {
	n atomic.Uint64
}

// Inc counts one event.
func (c *Counter) Inc() { c.n.Add(1) }

// Add counts n events.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Load returns how many events were counted.
func (c *Counter) Load() uint64 { return c.n.Load() }

// A Gauge holds a value that goes up and down. The zero value is ready and
// reads 0.
//
// Safe for concurrent use: one atomic word.
type Gauge struct {
	bits atomic.Uint64
}

// Set sets the value.
func (g *Gauge) Set(v float64) { g.bits.Store(math.Float64bits(v)) }

// Load returns the value.
func (g *Gauge) Load() float64 { return math.Float64frombits(g.bits.Load()) }
