package demo

import (
	"fmt"

	"weir/bench/lab/rig"
)

// A phase is a load with an algorithm, and its result.
type phase struct {
	protocol  string // as in a plan of the load generator
	algorithm string
	rate      int // requests per second
	seconds   int

	load     *rig.LoadResult
	served   uint64  // 200s, counted by the target
	busyTime float64 // mean time of a request in the target, in seconds
}

// A span is the range of requests that may be admitted in a phase, both ends included.
type span struct{ least, most uint64 }

func (s span) holds(n uint64) bool { return s.least <= n && n <= s.most }

// String formats the span.
func (s span) String() string {
	if s.least == s.most {
		return fmt.Sprint(s.least)
	}
	return fmt.Sprintf("%d … %d", s.least, s.most)
}

// tolerance is the relative error allowed because arrivals are not exactly at the times that
// the formulas below assume: the generator shares a machine with other programs.
const tolerance = 0.01

// admitted returns how many requests of a phase a limit per second admits, with a capacity equal
// to it.
//
// Below the limit all are admitted. Above it, over d whole seconds:
//
//   - fixed and sliding windows are aligned to the clock rather than to the phase: d seconds
//     contain d-1 whole windows and two parts of windows, which together admit between one and
//     two times the limit;
//   - the token bucket is full at the start of the phase, because the algorithm has just been
//     switched or the load was below the fill rate: it admits its capacity plus the refill.
func (p phase) admitted(limit int) span {
	sent := uint64(p.rate * p.seconds)
	if p.rate <= limit {
		return span{sent, sent}
	}
	least, most := float64(limit*p.seconds), float64(limit*(p.seconds+1))
	if p.algorithm == "token" {
		least = most
	}
	return span{uint64(least * (1 - tolerance)), min(sent, uint64(most*(1+tolerance)))}
}
