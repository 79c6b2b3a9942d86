package pacing

import (
	"math"
	"slices"
	"time"

	"weir/bench/lab/result"
	"weir/loadgen/record"
)

// settled is the length of the beginning of a run that is ignored, because connections are
// opened then.
const settled = time.Second

// spreadOf returns the quantiles of times that tables show.
func spreadOf(spans []time.Duration) record.Summary {
	slices.Sort(spans)
	q := func(q float64) float64 { return result.Quantile(spans, q).Seconds() }
	return record.Summary{P50: q(0.5), P99: q(0.99), Max: q(1)}
}

// A judgement compares arrival times with due times.
type judgement struct {
	Requests  int            // that arrived
	Missing   int            // requests that were due and did not arrive
	RateError float64        // relative difference of the rate of arrivals from that of the schedule
	Gap       record.Summary // difference between the gap of two arrivals and that of their due times
	// Late is how much later than due requests arrived. If the start of the generator is unknown,
	// it counts relative to the most punctual request.
	Late record.Summary
}

// judge compares sorted arrival times with sorted due times, both counted from the start;
// knownStart says that the start is known rather than guessed. The n-th arrival is taken for the
// n-th due request, whichever of several generators sent it.
func judge(arrivals, due []time.Duration, knownStart bool) judgement {
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
	if !knownStart {
		for i := range late {
			late[i] -= least
		}
	}
	last := len(due) - 1
	j.RateError = float64(due[last]-due[0])/float64(arrivals[last]-arrivals[0]) - 1
	j.Gap, j.Late = spreadOf(gaps), spreadOf(late)
	return j
}

// even returns the schedule of n evenly spaced requests.
func even(n, rate int) []time.Duration {
	due := make([]time.Duration, n)
	for i := range due {
		due[i] = time.Duration(2*i+1) * time.Second / time.Duration(2*rate)
	}
	return due
}
