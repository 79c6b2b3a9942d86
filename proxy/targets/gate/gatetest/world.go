// Package gatetest plays a target, its traffic and the gates in front of it in virtual time, and
// tells how many requests were answered in time, and how many could have been. A [Stage] is a part
// of the run in which target and traffic stay the same, a [Dip] a short loss of speed.
package gatetest

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A Stage is how target and traffic are from some time on. What is 0 stays as it was.
type Stage struct {
	From    time.Duration
	Target  int       // of the targets the only one that changes; 0: all do
	Load    float64   // arrivals per second
	Parts   []float64 // of the sources
	Workers int
	Speed   float64       // of a worker; 1: as in World.Service
	CV      float64       // as in World
	Errors  float64       // share of requests answered 503, whatever the load
	Down    bool          // everything is answered 503 at once
	Mute    bool          // nothing that comes is answered
	Clock   time.Duration // the clock is set forward
	Flush   bool          // the cache is emptied
}

// A Burst is what comes besides the load: every so often Size requests, evenly in a span
// of time. So does what a limit's fixed window admits, or a job that is run by the clock.
type Burst struct {
	Every, Over time.Duration // Every 0: there are none
	Size        int
}

// A Stall is how the machine pauses, on which target and proxies are: with exponential times
// in between, for times that are evenly spread. What falls into a pause happens at its end.
type Stall struct {
	Every       time.Duration // mean time between pauses; 0: there are none
	Least, Most time.Duration
	Until       time.Duration // the last begins before
}

// A Dip is how a target works slower again and again for a while, as one does that collects garbage.
type Dip struct {
	Every, For time.Duration // Every 0: there are none; the first begins after Every
	SlowBy     float64       // it works so many times slower; 0: it stands still
}

// lasts is how long a worker needs from some time on for what would take it so long without dips.
func (d *Dip) lasts(from, takes time.Duration) time.Duration {
	if d.Every == 0 {
		return takes
	}
	at := from
	for begin := max(d.Every, from/d.Every*d.Every); ; begin += d.Every {
		end := begin + d.For
		if free := begin - at; free > 0 {
			if takes <= free {
				return at + takes - from
			}
			at, takes = begin, takes-free
		}
		if at < end && d.SlowBy > 0 {
			done := time.Duration(float64(end-at) / d.SlowBy)
			if takes <= done {
				return at + time.Duration(float64(takes)*d.SlowBy) - from
			}
			takes -= done
		}
		at = max(at, end)
	}
}

// A World is a target with workers that take requests from one queue, first come first
// served, its traffic, and the proxies in front of it. Times to answer are exponential
// (CV 1), constant (CV 0) or log-normal.
type World struct {
	Seed    uint64
	Warm    time.Duration // before, nothing is counted but in Ratio
	Length  time.Duration
	InTime  time.Duration // counted from the arrival
	Workers int
	Service time.Duration // mean
	CV      float64       // deviation ÷ mean
	Queue   int           // places; beyond, the target answers 503 after a millisecond
	Crowd   float64       // 0: Poisson arrivals; else a twentieth of the time they come so many times as often
	Burst   Burst
	Stall   Stall
	Dip     Dip
	// keys, which follow Zipf's law; a target answers those that it knows at once. It knows all until it is flushed
	Cache      int
	Slow       float64 // share of requests of another class, which take SlowBy as long
	SlowBy     float64
	Trip       time.Duration // mean time of a message between proxy and target, exponential
	Share      float64       // a request takes so much longer for each other one at work (contention)
	Processors bool          // the workers are processors that all requests at the target share equally: none waits
	Timeout    time.Duration // a proxy waits no longer for an answer that does not come
	Sources    []Source      // of the requests; nil: one
	Targets    int           // each with so many workers and a gate of its own; 0: one
	Stages     []Stage

	Gates int           // proxies, each with a gate of its own; 0: one without a gate
	Loops int           // of a proxy, which share its gate; 0: one
	First float64       // share of a proxy's requests that come to its first loop; 0: as many as to each of the others
	Limit int           // fixed; 0: what the gate says
	Wait  time.Duration // longest wait for a place while a queue stands
	Most  time.Duration // longest wait for a place at all; 0: gate.WaitMax
	SLO   time.Duration // as the gates are told
}

// queueMost is how many wait for a place at most: more than come while one waits.
const queueMost = 4096

// slice is the span in which things are counted together.
const slice = 100 * time.Millisecond

// A Result is what came of a World.
type Result struct {
	Offered, InTime, Late, Failed int
	Shed                          int
	Needless                      int // shed, though a queue without a gate would have answered in time
	Detained                      int // had to wait though a target in use had a place
	ByGate                        []int
	Sources                       []Count         // of requests that came after World.Warm
	First                         int             // in time, of those that came to first loops
	took                          []time.Duration // from the arrival of each answer that is no refusal
	slices                        []count
}

// A count is what could be answered in a slice of time, and what was answered in time.
type count struct {
	ideal  float64
	inTime int
	limit  int // of the first gate for the first target, at the end
}

// Ratio is answered in time ÷ what the target could have answered, in a span.
func (r *Result) Ratio(from, to time.Duration) float64 {
	var sum count
	for i := int(from / slice); i < min(int(to/slice), len(r.slices)); i++ {
		sum.ideal += r.slices[i].ideal
		sum.inTime += r.slices[i].inTime
	}
	return float64(sum.inTime) / sum.ideal
}

// Quantile is how long that share of the answers that were no refusals took at most,
// counted from the arrival.
func (r *Result) Quantile(share float64) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	slices.Sort(r.took)
	return r.took[int(share*float64(len(r.took)-1))]
}

// Limit is the limit of the first gate for the first target, on average over a span.
func (r *Result) Limit(from, to time.Duration) float64 {
	sum, spans := 0, r.slices[from/slice:to/slice]
	for i := range spans {
		sum += spans[i].limit
	}
	return float64(sum) / float64(len(spans))
}

// Play plays a world. The same world has the same result.
func Play(w World) *Result {
	r := &run{w: &w, rng: rand.New(rand.NewPCG(w.Seed, 7)), chance: rand.New(rand.NewPCG(w.Seed, 8)),
		stage: Stage{Speed: 1, CV: w.CV}, stages: w.Stages}
	for i := range max(1, w.Targets) {
		r.targets = append(r.targets, &target{run: r, index: i, workers: w.Workers, speed: 1,
			free: make([]time.Duration, w.Workers)})
	}
	for range max(1, w.Gates) {
		r.sides = append(r.sides, r.newSide())
	}
	r.res.ByGate = make([]int, len(r.sides))
	r.res.Sources = make([]Count, max(1, len(w.Sources)))
	for i := range w.Sources {
		r.parts = append(r.parts, w.Sources[i].Part)
	}
	r.enter()
	r.push(0, r.arrive)
	if w.Burst.Every > 0 {
		r.push(w.Burst.Every, r.burst)
	}
	for len(r.events) > 0 && r.now < w.Length {
		r.step()
	}
	return &r.res
}
