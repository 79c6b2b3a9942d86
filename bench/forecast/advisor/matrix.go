package advisor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/bench/forecast/closedloop"
)

// An event is a change of the capacity, and what the operator configured.
type event struct {
	name   string
	hint   float64 // of the capacity at the start; 0: none
	stages func(length float64) []closedloop.Stage
}

const minute = 60.0

var events = []event{
	{"known", 1, constant},
	{"hint × 0.5", 0.5, constant},
	{"hint × 2", 2, constant},
	{"no hint", 0, constant},
	{"−40 % for 10 min", 1, func(length float64) []closedloop.Stage {
		return []closedloop.Stage{{Factor: 1}, {From: 0.45 * length, Factor: 0.6}, {From: 0.45*length + 10*minute, Factor: 1}}
	}},
	{"+100 %", 1, func(length float64) []closedloop.Stage {
		return []closedloop.Stage{{Factor: 1}, {From: 0.4 * length, Factor: 2}}
	}},
	{"drift 2 %/min", 1, drift},
	{"fault", 1, func(length float64) []closedloop.Stage {
		return []closedloop.Stage{{Factor: 1}, {From: 0.45 * length, Factor: 1, Errors: 0.2}, {From: 0.6 * length, Factor: 1}}
	}},
}

func constant(float64) []closedloop.Stage { return nil }

// drift lets the capacity fall by 2 % a minute for 15 minutes or a quarter of the run, stay
// for as long, and rise as slowly, in steps of half a minute.
func drift(length float64) []closedloop.Stage {
	const step, perStep = 30.0, 0.99
	n := int(min(15*minute, length/4) / step)
	stages := []closedloop.Stage{{Factor: 1}}
	factor, at := 1.0, 0.2*length
	for range n {
		factor *= perStep
		stages = append(stages, closedloop.Stage{From: at, Factor: factor})
		at += step
	}
	at += float64(n) * step
	for range n {
		factor /= perStep
		stages = append(stages, closedloop.Stage{From: at, Factor: factor})
		at += step
	}
	return stages
}

// Parameters that are combined with traces and events.
var (
	peaks   = [...]float64{0.7, 1.2, 2, 5} // of the capacity
	retries = [...]float64{0, 0.5}
	cycles  = [...]time.Duration{30 * time.Second, time.Minute}
)

// A size is how much is played.
type size struct {
	name  string
	span  time.Duration // longest scenario
	past  time.Duration // history that the forecaster has learned
	large time.Duration // longest scenario with 64 workers
	seeds int           // of each scenario
	every int           // one in so many scenarios is played
}

var sizes = []size{
	{"quick", time.Hour, 3 * 24 * time.Hour, 15 * time.Minute, seedsLeast, 5},
	{"all", time.Hour, 9 * 24 * time.Hour, 15 * time.Minute, seedsLeast, 1},
}

// matrix returns the scenarios: each trace with each event. Peaks, retries, workers and
// cycles take turns. Of these it returns one in every, with all seeds.
func (z size) matrix(all []*trace) (scenarios []*closedloop.Scenario) {
	for i := range z.seeds * len(events) * len(all) {
		t, e, seed := i%len(all), i/len(all)%len(events), i/len(all)/len(events)
		if (e+t)%z.every == 0 {
			scenarios = append(scenarios, z.scenario(all, t, e, seed))
		}
	}
	return scenarios
}

// scenario returns trace t with event e.
func (z size) scenario(all []*trace, t, e, seed int) *closedloop.Scenario {
	const many, others = 64, 4 // workers, in one of so many scenarios
	tr, ev := all[t], &events[e]
	workers, span := 8, z.span
	if (t+t/4+2*e)%others == others-1 {
		workers, span = many, z.large
	}
	s := &closedloop.Scenario{Trace: tr.Name, Event: ev.name, Retry: retries[(t/4+e)%2],
		SnapshotInterval: cycles[(t/2+e/2)%2], Seed: uint64(1000*(e*len(all)+t) + seed + 1),
		Target: closedloop.Target{Workers: workers, ServiceMean: closedloop.ServiceMean, ServiceCV: closedloop.ServiceCV},
		Demand: tr.demand(span)}
	capacity := s.Target.Capacity(0)
	s.Hint = ev.hint * capacity
	s.Target.Stages = ev.stages(float64(s.Demand.Seconds()))
	peak := peaks[(t+e)%len(peaks)]
	factor := peak * capacity / s.Demand.Peak()
	s.Demand = s.Demand.Scaled(factor)
	for _, p := range tr.history(s.Demand.Start, z.past) {
		p.Rate *= factor
		s.History = append(s.History, p)
	}
	s.Name = fmt.Sprintf("%s, %s, peak %.1f C, %d workers, retry %.1f, %v, seed %d", tr.Name, ev.name, peak, workers,
		s.Retry, s.SnapshotInterval, s.Seed)
	return s
}

// wanted returns the scenarios whose names contain all words.
func wanted(all []*closedloop.Scenario, words []string) []*closedloop.Scenario {
	return slices.DeleteFunc(slices.Clone(all), func(s *closedloop.Scenario) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s.Name, w) })
	})
}
