// Package scenario plays the four situations that a limiter is for (steady load, bursts,
// overload, a failing store) under each algorithm, with and without the advisor, and
// reports what clients and the target saw.
package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What all scenarios share: the static limit, and a target that can do half as
// much again. So a limit that stays where it is refuses what the target could
// have served, and no limit at all lets bursts through that it cannot.
const (
	limit    = 1000 // requests per second
	workers  = 15
	delay    = 10 * time.Millisecond // mean service time of a worker
	capacity = 1500                  // workers / delay
	slo      = 50 * time.Millisecond // the target's answer time that is still good, p95
)

// A Piece is a stretch of a scenario with an even rate.
type Piece struct {
	For  time.Duration // in the scenario's time
	Rate float64       // requests per second
	Peak bool          // more than the target can take; recovery counts from its end
}

// A Trouble is something that is done to a component at a moment of the real
// time of a run: the store does not die faster in a compressed run.
type Trouble struct {
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

// A Scenario is one situation.
type Scenario struct {
	Name, About string
	Pieces      []Piece
	Troubles    []Trouble
	// Period is after what time the scenario's past repeats; zero: its length.
	Period time.Duration
	// Real says that the pieces are in real time and not compressed.
	Real bool
	// Store says that it takes a real store to play.
	Store bool
}

// Scenarios are the four, in the order of the product's description.
func Scenarios() []Scenario {
	const minute = time.Minute
	return []Scenario{
		{Name: "steady", About: "90 % of the limit for half an hour: hardly anything is to be refused.",
			Pieces: []Piece{{30 * minute, 0.9 * limit, false}}},
		{Name: "bursts", About: "A quarter of each hour at three times the limit, the rest at the limit: the target could take a quarter of what is too much.",
			Period: 60 * minute, Pieces: []Piece{{45 * minute, limit, false}, {15 * minute, 3 * limit, true}, {15 * minute, limit, false}}},
		{Name: "overload", About: "Ten minutes at 80 % of the limit, twenty at five times the limit, then 80 % again: the target must survive, and recover.",
			Pieces: []Piece{{10 * minute, 0.8 * limit, false}, {20 * minute, 5 * limit, true}, {10 * minute, 0.8 * limit, false}}},
		{Name: "failure", About: "twice the limit while the store is killed, started again and frozen, the target works at half its speed for a while, and the advisor is killed.",
			Real: true, Store: true, Pieces: []Piece{{36 * time.Second, 2 * limit, false}},
			Troubles: []Trouble{{5 * time.Second, killStore}, {10 * time.Second, restartStore}, {15 * time.Second, freezeStore}, {18 * time.Second, thawStore},
				{23 * time.Second, slowTarget}, {28 * time.Second, healTarget}, {31 * time.Second, killAdvisor}}},
	}
}

// Length is how long a scenario lasts, in its own time.
func (s *Scenario) Length() (sum time.Duration) {
	for _, p := range s.Pieces {
		sum += p.For
	}
	return sum
}

// scale is how much faster than its own time it is played.
func (s *Scenario) scale(compress float64) float64 {
	if s.Real {
		return 1
	}
	return compress
}

// rateAt is the rate at a moment of the scenario's time. Before it began it
// repeats, so that it has a past.
func (s *Scenario) rateAt(at time.Duration) float64 {
	if period := cmp.Or(s.Period, s.Length()); at < 0 {
		at = (period + at%period) % period
	}
	for _, p := range s.Pieces {
		if at < p.For {
			return p.Rate
		}
		at -= p.For
	}
	return s.Pieces[len(s.Pieces)-1].Rate
}

// peakEnds are the real moments at which peaks end that something follows.
func (s *Scenario) peakEnds(compress float64) (ends []time.Duration) {
	var at time.Duration
	for i, p := range s.Pieces {
		at += p.For
		if p.Peak && i+1 < len(s.Pieces) {
			ends = append(ends, time.Duration(float64(at)/s.scale(compress)))
		}
	}
	return ends
}

// profile is the load generator's configuration of the rate, compressed.
func (s *Scenario) profile(compress float64) string {
	var steps []string
	for _, p := range s.Pieces {
		steps = append(steps, fmt.Sprintf(`{"rps":%g,"duration":%.6f}`, p.Rate, p.For.Seconds()/s.scale(compress)))
	}
	return `{"type":"steps","params":{"steps":[` + strings.Join(steps, ",") + `]}}`
}

// A Case is one run: a scenario under an algorithm with a store, with or without
// the advisor.
type Case struct {
	Scenario  string
	Algorithm string
	Store     string // simulated, redis
	Advisor   bool
}

// String names a case in tables and files.
func (c Case) String() string {
	name := c.Scenario + "-" + c.Algorithm + "-" + c.Store
	if c.Advisor {
		name += "-advisor"
	}
	return name
}

// Matrix is all that could be played; the base line without a limit goes first
// and is played without an advisor, who would have nothing to say.
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

// cases are a scenario under an algorithm with a store, the first or another one.
func (s *Scenario) cases(algorithm, store string, first bool, advisors []bool) (cases []Case) {
	for _, on := range advisors {
		if limited := algorithm != "off"; limited && (!s.Store || store == "redis") || !limited && !on && first {
			cases = append(cases, Case{s.Name, algorithm, store, on})
		}
	}
	return cases
}
