package record

import (
	"errors"
	"fmt"
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
	value  func(r *Result) (v float64, ok bool)
}

// spreads are the spreads that a threshold may be about.
var spreads = []struct {
	name string
	of   func(r *Result) *Summary
}{
	{"latency", func(r *Result) *Summary { return &r.Latency }},
	{"latencySuccess", func(r *Result) *Summary { return &r.LatencySuccess }},
	{"latencyRateLimited", func(r *Result) *Summary { return &r.LatencyRateLimited }},
	{"latencyErrors", func(r *Result) *Summary { return &r.LatencyErrors }},
	{"serviceTime", func(r *Result) *Summary { return &r.ServiceTime }},
	{"lag", func(r *Result) *Summary { return &r.Lag }},
	{"pacerLag", func(r *Result) *Summary { return &r.PacerLag }},
	{"busyLag", func(r *Result) *Summary { return &r.BusyLag }},
	{"dialLag", func(r *Result) *Summary { return &r.DialLag }},
}

// statistics are what a threshold may be about of a spread.
var statistics = []struct {
	name string
	of   func(s *Summary) float64
}{
	{"mean", func(s *Summary) float64 { return s.Mean }},
	{"min", func(s *Summary) float64 { return s.Min }},
	{"p50", func(s *Summary) float64 { return s.P50 }},
	{"p90", func(s *Summary) float64 { return s.P90 }},
	{"p95", func(s *Summary) float64 { return s.P95 }},
	{"p99", func(s *Summary) float64 { return s.P99 }},
	{"p999", func(s *Summary) float64 { return s.P999 }},
	{"max", func(s *Summary) float64 { return s.Max }},
}

// figures are the other figures that a threshold may be about.
var figures = []struct {
	name string
	of   func(r *Result) float64
}{
	{"successShare", func(r *Result) float64 { return r.Share(r.Success) }},
	{"rejectedShare", func(r *Result) float64 { return r.Share(r.RateLimited) }},
	{"shedShare", func(r *Result) float64 { return r.Share(r.Shed) }},
	{"errorShare", func(r *Result) float64 { return r.Share(r.Errors) }},
	{"throughput", func(r *Result) float64 { return r.Throughput }},
}

// figure returns how the named value of a result is found; nil if there is no such value. A
// statistic of nothing is not ok.
func figure(name string) func(r *Result) (v float64, ok bool) {
	for _, f := range figures {
		if f.name == name {
			return func(r *Result) (float64, bool) { return f.of(r), true }
		}
	}
	of, statistic, _ := strings.Cut(name, ".")
	for _, spread := range spreads {
		for _, s := range statistics {
			if spread.name == of && s.name == statistic {
				return func(r *Result) (float64, bool) { return s.of(spread.of(r)), spread.of(r).Count > 0 }
			}
		}
	}
	return nil
}

// allowedFigures lists the names of all values.
func allowedFigures() string {
	var words [3][]string
	for _, s := range spreads {
		words[0] = append(words[0], s.name)
	}
	for _, s := range statistics {
		words[1] = append(words[1], "."+s.name)
	}
	for _, f := range figures {
		words[2] = append(words[2], f.name)
	}
	list := func(i int) string { return strings.Join(words[i], ", ") }
	return list(0) + ", each followed by " + list(1) + "; or " + list(2)
}

// ParseThreshold reads a demand on the named value.
func ParseThreshold(name, demand string) (Threshold, error) {
	value := figure(name)
	if value == nil {
		return Threshold{}, errors.New("is not a threshold; allowed: " + allowedFigures())
	}
	rest, below := strings.CutPrefix(demand, "<")
	rest, above := strings.CutPrefix(rest, ">")
	rest, equal := strings.CutPrefix(rest, "=")
	rest = strings.TrimSpace(rest)
	bound, err := strconv.ParseFloat(rest, 64)
	isSpan := strings.Contains(name, ".")
	if span, is := time.ParseDuration(rest); err != nil && is == nil && isSpan {
		bound, err = span.Seconds(), nil
	}
	if below == above || err != nil || bound-bound != 0 { // neither NaN nor infinite
		return Threshold{}, fmt.Errorf(`must be <, <=, > or >= and a number, like "<0.05", or for a time "<50ms", is %q`,
			demand)
	}
	return Threshold{Name: name, Demand: demand, below: below, equal: equal, bound: bound, value: value}, nil
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

// A ThresholdResult is a threshold and what it was compared with.
type ThresholdResult struct {
	Name   string  `json:"name"`
	Demand string  `json:"demand"`
	Value  float64 `json:"value"`
	Held   bool    `json:"held"`
}

// Check compares the result with the threshold. The times of nothing meet no demand.
func (t Threshold) Check(r *Result) ThresholdResult {
	v, ok := t.value(r)
	return ThresholdResult{Name: t.Name, Demand: t.Demand, Value: v, Held: ok && t.holds(v)}
}
