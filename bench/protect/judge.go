package protect

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"weir/bench/rig"
)

const (
	// step is how fine the course of a run is.
	step = 100 * time.Millisecond
	// A target counts as protected, or as recovered, when window begins in which
	// good of what it could have answered in time was.
	window = time.Second
	good   = 0.9
)

// A request is one of a run: the outcome, and whether it was to the slow route.
type request struct {
	rig.Outcome
	slow bool
}

// A Score is what came of a run. Spans are in seconds.
type Score struct {
	Requests int     `json:"requests"` // all below counts those to fast routes only
	InTime   int     `json:"inTime"`
	Ideal    float64 `json:"ideal"` // that could have been answered in time
	OK       int     `json:"ok"`    // answered 200
	Shed     int     `json:"shed"`  // answered 429 or 503
	// Needless are those shed that the target's own queue would have answered in
	// time. In no second are they more than it would have answered more in time,
	// as which ones it refuses is chance.
	Needless int     `json:"needless"`
	P99      float64 `json:"p99"` // of those answered 200
	Lag      float64 `json:"lag"` // p99 of how late the load generator was while connections were idle
	// Protected and Recovered are after the begin and the end of the bad phase;
	// negative: not within it, not within the run; nil: there is no such phase,
	// or nothing can be answered in it.
	Protected *float64 `json:"protected,omitempty"`
	Recovered *float64 `json:"recovered,omitempty"`
	Course    []int    `json:"course"` // answered in time, by step in which they were due
}

// judge works out the score of a run from all its requests. chance is what the
// replay draws from.
func (s *Situation) judge(all []request, chance *rand.Rand) (score Score) {
	slices.SortFunc(all, func(a, b request) int { return cmp.Compare(a.Due, b.Due) })
	score.Course = make([]int, (s.Length()+step-1)/step)
	without := s.fifo(all, chance)
	counted, every := make([]float64, len(s.Phases)), make([]float64, len(s.Phases))
	// Of each second: how many more the queue would have answered in time, and
	// which of these were shed.
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
	if score.OK = len(oks); score.OK > 0 {
		score.P99 = oks[(99*len(oks)-1)/100].Seconds()
	}
	if from, to, ok := s.bad(); ok {
		if s.ideal(s.Phases[s.phase(from)]) > 0 {
			score.Protected = s.settled(score.Course, from, to)
		}
		score.Recovered = s.settled(score.Course, to, s.Length()-window)
	}
	return score
}

// settled is how many seconds after from the first window begins in which enough
// was answered in time; negative when none begins before to.
func (s *Situation) settled(course []int, from, to time.Duration) *float64 {
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

// fifo is when each of the requests, which are in order of their due times, would
// have been answered if nothing stood in front of the target; negative: not at
// all. Service times are drawn anew, so that it is right on average.
func (s *Situation) fifo(all []request, chance *rand.Rand) []time.Duration {
	done := make([]time.Duration, len(all))
	free := make([]time.Duration, s.Workers) // when each worker is
	var line []time.Duration                 // when those in the queue get a worker
	gone, back := s.away()
	for i, r := range all {
		done[i] = -1
		if gone <= r.Due && r.Due < back {
			continue
		}
		if r.Due >= back && back > 0 { // a new process, with idle workers
			free, line, back = slices.Repeat([]time.Duration{back}, s.Workers), nil, 0
		}
		for len(line) > 0 && line[0] <= r.Due {
			line = line[1:]
		}
		w := slices.Index(free, slices.Min(free))
		start := max(r.Due, free[w])
		if start > r.Due {
			if len(line) >= s.Queue {
				continue
			}
			line = append(line, start)
		}
		free[w] = start + s.draw(chance, s.Phases[s.phase(start)].Delay, r.slow)
		if back == 0 || free[w] <= gone {
			done[i] = free[w]
		}
	}
	return done
}
