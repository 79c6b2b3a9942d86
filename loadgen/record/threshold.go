package record

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Threshold is a demand on the result: "latency.p95 <50ms". Spans without a unit
// are in seconds, shares from 0 to 1 of all outcomes, throughput in answers per
// second.
//
// Immutable after ParseThreshold.
type Threshold struct {
	Name   string  // one of ThresholdNames
	Demand string  // as written
	below  bool    // the value must be below the bound, else above
	equal  bool    // or equal to it
	bound  float64 // what the value is compared with
}

// ThresholdNames are the names that a threshold can have.
func ThresholdNames() []string {
	return []string{
		"latency.mean", "latency.p50", "latency.p95", "latency.p99", "latency.max", "lag.p99",
		"successShare", "rejectedShare", "errorShare", "throughput",
	}
}

// ErrThresholdName says that there is no threshold with that name.
var ErrThresholdName = errors.New("is no threshold; there are " + strings.Join(ThresholdNames(), ", "))

// ErrThresholdDemand says that a demand cannot be read.
var ErrThresholdDemand = errors.New(`must be <, <=, > or >= and a number, like "<0.05", or for a time "<50ms"`)

// ParseThreshold reads a demand on the named value.
func ParseThreshold(name, demand string) (Threshold, error) {
	if !slices.Contains(ThresholdNames(), name) {
		return Threshold{}, ErrThresholdName
	}
	t := Threshold{Name: name, Demand: demand}
	rest, below := strings.CutPrefix(demand, "<")
	if !below {
		var above bool
		if rest, above = strings.CutPrefix(demand, ">"); !above {
			return Threshold{}, ErrThresholdDemand
		}
	}
	rest, t.equal = strings.CutPrefix(rest, "=")
	rest = strings.TrimSpace(rest)
	bound, err := strconv.ParseFloat(rest, 64)
	if span, is := time.ParseDuration(rest); err != nil && is == nil && isSpan(name) {
		bound, err = span.Seconds(), nil
	}
	if err != nil || bound != bound || bound-bound != 0 { // neither NaN nor infinite
		return Threshold{}, ErrThresholdDemand
	}
	t.below, t.bound = below, bound
	return t, nil
}

// isSpan reports whether a threshold is about a time.
func isSpan(name string) bool {
	return strings.HasPrefix(name, "latency.") || strings.HasPrefix(name, "lag.")
}

// holds says whether v meets the demand.
func (t Threshold) holds(v float64) bool {
	switch {
	case t.equal && v == t.bound:
		return true
	case t.below:
		return v < t.bound
	}
	return v > t.bound
}

// A Checked threshold knows what it was compared with.
type Checked struct {
	Name   string  `json:"name"`
	Demand string  `json:"demand"`
	Value  float64 `json:"value"`
	Held   bool    `json:"held"`
}

// Check compares the result with the threshold.
func (t Threshold) Check(r *Result) Checked {
	v := r.value(t.Name)
	return Checked{Name: t.Name, Demand: t.Demand, Value: v, Held: t.holds(v)}
}

// value is the figure of the result that a threshold's name stands for.
func (r *Result) value(name string) float64 {
	switch name {
	case "latency.mean":
		return r.Latency.Mean
	case "latency.p50":
		return r.Latency.P50
	case "latency.p95":
		return r.Latency.P95
	case "latency.p99":
		return r.Latency.P99
	case "latency.max":
		return r.Latency.Max
	case "lag.p99":
		return r.Lag.P99
	case "successShare":
		return r.Share(r.Success)
	case "rejectedShare":
		return r.Share(r.RateLimited)
	case "errorShare":
		return r.Share(r.Errors)
	case "throughput":
		return r.Throughput
	}
	panic(fmt.Sprintf("bug: no value for threshold %q", name))
}
