package protect

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	// step is the resolution of the course of a run.
	step = 100 * time.Millisecond
	// A target counts as protected, or as recovered, at the start of a window in which the share
	// good of the ideal was answered in time.
	window = time.Second
	good   = 0.9
)

// A request is the outcome of a request, and whether it was to the slow route.
type request struct {
	rig.Outcome
	slow bool
}

// A Score is the result of a run. Spans are in seconds.
type Score struct {
	Requests int     `json:"requests"` // like all below, only those to fast routes
	InTime   int     `json:"inTime"`
	Ideal    float64 `json:"ideal"` // requests that could have been answered in time
	OK       int     `json:"ok"`    // answered 200
	Shed     int     `json:"shed"`  // answered 429 or 503
	// Needless counts shed requests that the target's own queue would have answered in time. In
	// each second it is bounded by how many more the queue would have answered in time, because
	// which ones the queue refuses is random.
	Needless int     `json:"needless"`
	P99      float64 `json:"p99"` // of those answered 200
	Lag      float64 `json:"lag"` // p99 of the load generator's lag while connections were idle
	// Protected and Recovered count from the start and the end of the bad phase. Negative means
	// not within that phase or the run; nil means that there is no such phase, or that nothing
	// can be answered in it.
	Protected *float64 `json:"protected,omitempty"`
	Recovered *float64 `json:"recovered,omitempty"`
	Course    []int    `json:"course"` // answered in time, by the step in which they were due
}

// judge computes the score of a run from all its requests. chance is used by the replay.
func (s *Scenario) judge(all []request, chance *rand.Rand) (score Score) {
	slices.SortFunc(all, func(a, b request) int { return cmp.Compare(a.Due, b.Due) })
	score.Course = make([]int, (s.Length()+step-1)/step)
	without := s.fifo(all, chance)
	counted, every := make([]float64, len(s.Phases)), make([]float64, len(s.Phases))
	// By second: how many more the queue would have answered in time, and how many of these were
	// shed.
	more, shed := make([]int, s.Length()/time.Second+1), make([]int, s.Length()/time.Second+1)
	var oks []time.Duration
	for i, r := range all {
		phase := s.phase(r.Due)
		every[phase]++
		if r.slow {
			continue
		}
		counted[phase]++
		score.Requests++
		second := min(int(r.Due/time.Second), len(more)-1)
		queued := without[i] >= 0 && without[i]-r.Due <= s.InTime
		if queued {
			more[second]++
		}
		latency := r.Done - r.Due
		switch {
		case r.Status == 200:
			oks = append(oks, latency)
			if latency <= s.InTime {
				score.InTime++
				more[second]--
				score.Course[min(int(r.Due/step), len(score.Course)-1)]++
			}
		case r.Status == 429 || r.Status == 503:
			score.Shed++
			if queued {
				shed[second]++
			}
		}
	}
	for i, n := range shed {
		score.Needless += max(0, min(n, more[i]))
	}
	for i, p := range s.Phases {
		if every[i] > 0 {
			score.Ideal += counted[i] * min(1, s.capacity(p)*p.For.Seconds()/every[i])
		}
	}
	slices.Sort(oks)
	score.OK, score.P99 = len(oks), result.Quantile(oks, .99).Seconds()
	if from, to, ok := s.bad(); ok {
		if s.ideal(s.Phases[s.phase(from)]) > 0 {
			score.Protected = s.settled(score.Course, from, to)
		}
		score.Recovered = s.settled(score.Course, to, s.Length()-window)
	}
	return score
}

// settled returns the seconds from from to the start of the first window in which enough was
// answered in time; negative if none starts before to.
func (s *Scenario) settled(course []int, from, to time.Duration) *float64 {
	after := -1.0
	for at := from; at <= to; at += step {
		var inTime, ideal float64
		for t := at; t < at+window && int(t/step) < len(course); t += step {
			inTime += float64(course[t/step])
			ideal += s.ideal(s.Phases[s.phase(t)]) * step.Seconds()
		}
		if inTime >= good*ideal {
			after = (at - from).Seconds()
			break
		}
	}
	return &after
}
