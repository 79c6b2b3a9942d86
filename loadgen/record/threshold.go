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
	Name   string  // of one of the figures
	Demand string  // as written
	below  bool    // the value must be below the bound, else above
	equal  bool    // or equal to it
	bound  float64 // what the value is compared with
	value  func(r *Result) float64
}

// figures are the possible figures of a threshold, by name.
var figures = []struct {
	name string
	of   func(r *Result) float64
}{
	{"latency.mean", func(r *Result) float64 { return r.Latency.Mean }},
	{"latency.p50", func(r *Result) float64 { return r.Latency.P50 }},
	{"latency.p95", func(r *Result) float64 { return r.Latency.P95 }},
	{"latency.p99", func(r *Result) float64 { return r.Latency.P99 }},
	{"latency.max", func(r *Result) float64 { return r.Latency.Max }},
	{"lag.p99", func(r *Result) float64 { return r.Lag.P99 }},
	{"successShare", func(r *Result) float64 { return r.Share(r.Success) }},
	{"rejectedShare", func(r *Result) float64 { return r.Share(r.RateLimited) }},
	{"errorShare", func(r *Result) float64 { return r.Share(r.Errors) }},
	{"throughput", func(r *Result) float64 { return r.Throughput }},
}

// ParseThreshold reads a demand on the named value.
func ParseThreshold(name, demand string) (Threshold, error) {
	var names []string
	for _, f := range figures {
		names = append(names, f.name)
	}
	i := slices.Index(names, name)
	if i < 0 {
		return Threshold{}, errors.New("is not a threshold; allowed: " + strings.Join(names, ", "))
	}
	rest, below := strings.CutPrefix(demand, "<")
	rest, above := strings.CutPrefix(rest, ">")
	rest, equal := strings.CutPrefix(rest, "=")
	rest = strings.TrimSpace(rest)
	bound, err := strconv.ParseFloat(rest, 64)
	isSpan := strings.HasPrefix(name, "latency.") || strings.HasPrefix(name, "lag.")
	if span, is := time.ParseDuration(rest); err != nil && is == nil && isSpan {
		bound, err = span.Seconds(), nil
	}
	if below == above || err != nil || bound-bound != 0 { // neither NaN nor infinite
		return Threshold{}, fmt.Errorf(`must be <, <=, > or >= and a number, like "<0.05", or for a time "<50ms", is %q`, demand)
	}
	return Threshold{Name: name, Demand: demand, below: below, equal: equal, bound: bound, value: figures[i].of}, nil
}

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
	v := t.value(r)
	return Checked{Name: t.Name, Demand: t.Demand, Value: v, Held: t.holds(v)}
}
