package pacing

import (
	"math"
	"slices"
	"time"

	"weir/bench/report"
)

// settled is how much of a run is left out at its beginning: connections are
// opened there, which is not what pacing is about.
const settled = time.Second

// A spread is how far apart times are, in microseconds.
type spread struct {
	P50 float64
	P99 float64
	Max float64
}

func spreadOf(spans []time.Duration) spread {
	slices.Sort(spans)
	us := func(q float64) float64 { return float64(report.Quantile(spans, q)) / 1e3 }
	return spread{P50: us(0.5), P99: us(0.99), Max: us(1)}
}

// A judgement compares when requests arrived with when they were due.
type judgement struct {
	Requests int // that arrived
	Missing  int // of those due
	// RateError is by how much the rate of arrivals differs from that of the
	// schedule, relative to it.
	RateError float64
	// Gap is by how much the time between two arrivals differs from that between
	// the two requests in the schedule.
	Gap spread
	// Late is how much later than due requests arrived: than the start and the
	// schedule say or, of a generator that does not tell its start, than the most
	// punctual one of its requests suggests.
	Late spread
}

// judge compares arrivals, in order, with what was due, in order, both counted
// from the start; toldStart says that it is known, not guessed. The n-th to
// arrive is taken for the n-th that was due, whichever of several generators
// sent it.
func judge(arrivals, due []time.Duration, toldStart bool) judgement {
	j := judgement{Requests: len(arrivals), Missing: max(0, len(due)-len(arrivals))}
	n := min(len(arrivals), len(due))
	first, _ := slices.BinarySearch(due[:n], settled)
	if n-first < 2 {
		return j
	}
	arrivals, due = arrivals[first:n], due[first:n]
	var gaps, late []time.Duration
	least := time.Duration(math.MaxInt64)
	for i := range due {
		late = append(late, arrivals[i]-due[i])
		least = min(least, late[i])
		if i > 0 {
			gaps = append(gaps, (late[i] - late[i-1]).Abs())
		}
	}
	if !toldStart {
		for i := range late {
			late[i] -= least
		}
	}
	last := len(due) - 1
	j.RateError = float64(due[last]-due[0])/float64(arrivals[last]-arrivals[0]) - 1
	j.Gap, j.Late = spreadOf(gaps), spreadOf(late)
	return j
}

// even is the schedule of n requests at a rate.
func even(n, rate int) []time.Duration {
	due := make([]time.Duration, n)
	for i := range due {
		due[i] = time.Duration(2*i+1) * time.Second / time.Duration(2*rate)
	}
	return due
}
