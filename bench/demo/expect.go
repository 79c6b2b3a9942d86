package demo

import "fmt"

// A phase is one load under one algorithm.
type phase struct {
	algorithm string
	rate      int // requests per second
	seconds   int
}

// A span is the requests that may be admitted in a phase, both ends included.
type span struct{ least, most uint64 }

func (s span) holds(n uint64) bool { return s.least <= n && n <= s.most }

// String is the span for people.
func (s span) String() string {
	if s.least == s.most {
		return fmt.Sprint(s.least)
	}
	return fmt.Sprintf("%d … %d", s.least, s.most)
}

// tolerance is the share by which arrivals may miss the moments that the
// formulas below assume: the generator and the proxy share a machine with
// everything else that runs on it.
const tolerance = 0.01

// admitted says how many requests of a phase the limit lets through, with
// limit requests per second, and capacity equal to it.
//
// Below the limit it is all of them. Above it, over d whole seconds:
//
//   - fixed and sliding windows lie where the clock has them, not where the
//     phase begins: d seconds touch d-1 whole windows and two parts of one,
//     which may let through anything between one limit and two;
//   - the token bucket is full when the phase begins, as the algorithm has
//     just been switched or the load was below the fill rate: capacity stored
//     plus what flows in.
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
