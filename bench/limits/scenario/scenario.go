// Package scenario plays four scenarios (steady load, bursts, overload, a failing store) with
// each algorithm, with and without the advisor, and reports the effects on clients and target.
package scenario

import (
	"cmp"
	"slices"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// All scenarios have the same static limit, and a target that can serve 1.5 times as much. So a
// static limit refuses requests that the target could have served, and without a limit bursts
// overload the target.
const (
	limit    = 1000 // requests per second
	workers  = 15
	delay    = 10 * time.Millisecond // mean service time of a worker
	capacity = 1500                  // workers / delay
	slo      = 50 * time.Millisecond // bound of the target's p95
)

// A Segment is a part of a scenario with a constant rate.
type Segment struct {
	For  time.Duration // in the scenario's time
	Rate float64       // requests per second
	Peak bool          // above the target's capacity; recovery counts from its end
}

// A FaultEvent is done to a component at a moment of a run, in real time: compression does not
// affect it.
type FaultEvent struct {
	At   time.Duration
	Name string
}

// The troubles.
const (
	killStore    = "store killed"
	restartStore = "store back"
	freezeStore  = "store frozen"
	thawStore    = "store thawed"
	slowTarget   = "target slow"
	healTarget   = "target well"
	killAdvisor  = "advisor killed"

	killTarget    = "target killed"
	restartTarget = "target back"
)

// A Scenario is a load and what is done to the components.
type Scenario struct {
	Name, About string
	Segments    []Segment
	Events      []FaultEvent
	Period      time.Duration // of the scenario's past; zero: its length
	Real        bool          // the pieces are not compressed
	Store       bool          // a real store is needed
}

// Scenarios returns the four scenarios.
func Scenarios() []Scenario {
	const minute = time.Minute
	return []Scenario{
		{Name: "steady", About: "90 % of the limit for half an hour: hardly any request should be refused.",
			Segments: []Segment{{30 * minute, 0.9 * limit, false}}},
		{Name: "bursts", About: "A quarter of each hour at three times the limit, the rest at the limit: the target could " +
			"serve a quarter of the excess.",
			Period: 60 * minute, Segments: []Segment{{45 * minute, limit, false}, {15 * minute, 3 * limit, true},
				{15 * minute, limit, false}}},
		{Name: "overload", About: "Ten minutes at 80 % of the limit, twenty at five times the limit, then 80 % again: the " +
			"target must survive and recover.",
			Segments: []Segment{{10 * minute, 0.8 * limit, false}, {20 * minute, 5 * limit, true},
				{10 * minute, 0.8 * limit, false}}},
		{Name: "failure", About: "Twice the limit while the store is killed, restarted and frozen, the target is slowed " +
			"to half its speed for some seconds, and the advisor is killed.",
			Real: true, Store: true, Segments: []Segment{{36 * time.Second, 2 * limit, false}},
			Events: []FaultEvent{{5 * time.Second, killStore}, {10 * time.Second, restartStore},
				{15 * time.Second, freezeStore}, {18 * time.Second, thawStore},
				{23 * time.Second, slowTarget}, {28 * time.Second, healTarget}, {31 * time.Second, killAdvisor}}},
	}
}

// Length returns the length of the scenario before compression.
func (s *Scenario) Length() (sum time.Duration) {
	for _, p := range s.Segments {
		sum += p.For
	}
	return sum
}

// scale returns the factor by which time is compressed.
func (s *Scenario) scale(compress float64) float64 {
	if s.Real {
		return 1
	}
	return compress
}

// rateAt returns the rate at a moment of the scenario, before compression. Its past repeats with
// Period.
func (s *Scenario) rateAt(at time.Duration) float64 {
	if period := cmp.Or(s.Period, s.Length()); at < 0 {
		at = (period + at%period) % period
	}
	for _, p := range s.Segments {
		if at < p.For {
			return p.Rate
		}
		at -= p.For
	}
	return s.Segments[len(s.Segments)-1].Rate
}

// peakEnds returns the ends of the peaks that are not at the end, in real time.
func (s *Scenario) peakEnds(compress float64) (ends []time.Duration) {
	var at time.Duration
	for i, p := range s.Segments {
		at += p.For
		if p.Peak && i+1 < len(s.Segments) {
			ends = append(ends, time.Duration(float64(at)/s.scale(compress)))
		}
	}
	return ends
}

// steps returns the compressed rate.
func (s *Scenario) steps(compress float64) []rig.RateStep {
	return result.Map(s.Segments, func(p Segment) rig.RateStep {
		return rig.RateStep{For: time.Duration(float64(p.For) / s.scale(compress)), Rate: p.Rate}
	})
}

// A Case is one run: a scenario with an algorithm and a store, with or without the advisor. The gate
// is on, except in the baseline without any protection.
type Case struct {
	Scenario  string
	Algorithm string
	Store     string // simulated, redis
	Advisor   bool
	Gate      bool
}

// String returns the name of the case in tables and files.
func (c Case) String() string {
	name := c.Scenario + "-" + c.Algorithm + "-" + c.Store
	if c.Advisor {
		name += "-advisor"
	}
	if c.gateAlone() {
		name += "-gate"
	}
	return name
}

// gateAlone reports whether the gate is the only protection.
func (c Case) gateAlone() bool { return c.Algorithm == "off" && c.Gate }

// Matrix returns the combinations that make sense. Without a limit these have the first store,
// no advisor, and the gate off or on; with one, scenarios that need a real store have Redis.
func Matrix(scenarios, algorithms, stores []string, advisors []bool) (cases []Case) {
	for _, s := range Scenarios() {
		if len(scenarios) > 0 && !slices.Contains(scenarios, s.Name) {
			continue
		}
		for _, store := range stores {
			for _, a := range algorithms {
				cases = append(cases, s.cases(a, store, store == stores[0], advisors)...)
			}
		}
	}
	return cases
}

// cases returns the cases of a scenario with an algorithm and a store; first says whether it is
// the first store.
func (s *Scenario) cases(algorithm, store string, first bool, advisors []bool) (cases []Case) {
	for _, on := range advisors {
		switch limited := algorithm != "off"; {
		case limited && (!s.Store || store == "redis"):
			cases = append(cases, Case{s.Name, algorithm, store, on, true})
		case !limited && !on && first:
			cases = append(cases, Case{s.Name, algorithm, store, on, false}, Case{s.Name, algorithm, store, on, true})
		}
	}
	return cases
}
