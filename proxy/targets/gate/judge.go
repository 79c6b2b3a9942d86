package gate

import (
	"math"
	"slices"
	"time"
)

const (
	// queueMost is the share of waiting from which the limit falls in one step to the number
	// that is worked on, once that share is beyond doubt.
	queueMost = .35
	// queueLeast is the share below which the limit grows by growth at once.
	queueLeast, growth = .05, 1.5
	// queueDoubt is the share that there may be at most if a short window is to count.
	queueDoubt = .1
	// After the first probe nothing is known of how many requests the target can work on. Where answer
	// times vary, so that a window says little, the limit grows by startGrowth and waits for less
	// certainty than later, until there may be a queue: until the share of waiting with its standard
	// deviation reaches startMost, waiting does not count (see brisk), or the target seems startSlow
	// times as slow as it was, as one whose processors are shared would.
	startGrowth, startMost, startSlow = 1.6, .15, 1.3
	// If answer times hardly varied when the target was calm, they are mixed when the average is mixedTimes
	// as long as waiting and slowness common to all explain, and the quickest take less than twice as long
	// as they did when calm. Some requests may wait, but there is no queue in which all do.
	mixedTimes = 2
	// part is how much of the way to its new value the limit goes in one window, so that an
	// estimate that is wrong by chance does not move it all the way.
	part = .7
	// fallMost is the part of itself by which the limit falls at most in one window. A long
	// queue makes what is worked on look small.
	fallMost = .75
	// burst is how long a queue must last before the limit falls. Shorter ones pass by
	// themselves, and a lower limit would only shed requests that can be answered.
	burst = 200 * time.Millisecond
	// brisk is the median answer time up to which waiting in the target does not count; from
	// twice that all of it does. Such a wait is short, and without it a fast target would
	// be idle until the proxy has read an answer and sent the next request. Where clients expect
	// answers sooner than in twice brisk, half of what they expect takes its place.
	brisk = 2 * time.Millisecond
	// leastLong is how long a gate must have limited until answer times at the lowest limit
	// count as those without a queue. Nothing else would raise the limit if a target
	// had become slower.
	leastLong = 20 * time.Second
	// provenPart times the number that was worked on lately when answers came fastest is a
	// lower bound of the limit: a lower one would cost throughput.
	provenPart = 1.1
)

// A reading is the result of evaluating a window.
type reading struct {
	shape
	full    bool    // the gate bound
	long    bool    // a decision no longer waits for more certainty
	mixed   bool    // some answers take much longer than others, unlike those of the baseline
	mean    float64 // in flight
	atWork  float64 // how many of those in flight were worked on
	waiting float64 // share of the answer time, as far as it counts; see brisk
	noise   float64 // standard deviation of waiting
	rate    float64 // good answers per second
	takes   float64 // mean answer time, ns, of all classes as they are
	span    time.Duration
}

// little returns how many answers come per second by Little's law. Unlike the rate, it does not
// depend on when the window began.
func (r *reading) little() float64 { return r.mean / r.takes * float64(time.Second) }

// judge moves the limit if the window is conclusive, and reports whether it did.
func (g *Gate) judge(now time.Time, span time.Duration) bool {
	w := &g.window
	if w.goods < min(windowMin/2, firstMin) {
		return g.judgeRefusals(now, span)
	}
	if w.changed() {
		g.room.most = max(g.room.most, float64(w.peak)) // also of a crowd that came within a window
		w.renew(g.slowdown.time(now))
		return false
	}
	r := g.read(span)
	g.last = r.mid
	g.slowdown.usual += (r.rate - g.slowdown.usual) * min(1, float64(r.span)/float64(slowdownUsual))
	if !r.full {
		g.bound = now
	}
	g.state.Median, g.state.Baseline = g.real(r.mid), g.real(g.slower*g.baseline.mid)
	if g.judgeRefusals(now, span) {
		return true
	}
	f := g.facts(now, &r)
	s := f.situation()
	if r.full && s >= uncertain {
		g.room.open = false
	}
	do := moves[s].do
	if do == nil {
		return false
	}
	do(g, now, &r)
	if s != cutTooFar {
		g.room.note(now, &r)
	}
	return true
}

// facts collects what the situation follows from. It also keeps the times of probes, and forgets a
// cut that was right.
func (g *Gate) facts(now time.Time, r *reading) facts {
	f := facts{tooFar: g.tooFar(r), first: g.first, probing: g.probe.limit > 0, full: r.full, long: r.long, mixed: r.mixed,
		starts: g.starting(r), slumped: g.slowdown.from > g.limit, ample: g.limit > crowded(g.mostLately(r)),
		waiting: r.waiting, noise: r.noise, lately: g.room.waiting, bound: now.Sub(g.bound), queued: g.queued(now)}
	f.lowest = g.places <= g.cfg.Min && f.bound >= leastLong
	f.due = !f.tooFar && !f.first && !f.probing && g.probeDue(now, r)
	return f
}

// read compares the window with the answer times when calm.
func (g *Gate) read(span time.Duration) reading {
	w := &g.window
	g.unit = w.took / w.sum
	r := reading{
		shape: w.shape(), full: 2*w.full >= w.n, span: span,
		long: w.goods >= longMin || w.lost+span >= spanMax,
		mean: float64(w.inFlight) / float64(w.n), rate: float64(w.goods) / span.Seconds(),
		takes: w.took / float64(w.goods),
	}
	if g.baseline.known == 0 {
		g.baseline.shape, g.baseline.few = r.shape, r.mean
	}
	wait := 0.0
	if g.baseline.wide() && r.wide() {
		times := (r.high - r.low) / (g.baseline.high - g.baseline.low)
		// Every answer counts when it is new, the more the better the window is known: one
		// pause, read again and again, would look like slowness.
		step := min(.6, float64((w.goods-w.read)*w.goods)/6000)
		work := 1 - max(0, r.low-g.slower*g.baseline.low)/r.shape.mean // a long queue varies, too
		g.slower += step * work * work * (times - g.slower)
		wait = r.low - g.slower*g.baseline.low
	} else {
		g.slower = min(g.slower, r.mid/g.baseline.mid)
		wait = r.mid - g.slower*g.baseline.mid
		all, calm := max(0, r.low-g.slower*g.baseline.low), g.slower*g.baseline.mean
		if !g.baseline.wide() && all < g.slower*g.baseline.low && r.shape.mean > mixedTimes*(all+calm) {
			r.mixed, wait = true, all
		}
	}
	wait = max(0, wait)
	g.state.Waiting = wait / max(r.shape.mean, wait)
	wait *= max(0, min(float64(g.real(r.mid))/float64(g.brisk)-1, 1))
	r.waiting = wait / max(r.shape.mean, wait)
	w.mark()
	r.noise = min(1, (r.high-r.low)/r.shape.mean) / math.Sqrt(float64(w.goods))
	r.atWork = r.mean * (1 - r.waiting)
	if r.full { // as if the limit had been kept to the fraction
		r.atWork *= g.limit / float64(g.places)
	}
	return r
}

// begin ends the time in which nothing is known. A probe follows, since
// what has been seen so far may have been a queue.
func (g *Gate) begin(now time.Time, r *reading) {
	g.first, g.starts = false, true
	g.learn(r)
	g.room.most = max(float64(g.window.peak), r.mean)
	g.set(crowdFirst*g.room.most + crowdMin)
	g.probe.last, g.probe.period = now, probeMin
	// The first to be answered are the fast ones: Little's law tells what others take.
	takes := r.mean / r.rate * float64(time.Second)
	if to := float64(g.window.peak) / 2; to >= float64(g.cfg.Min) && (probeAnswers/to+3)*takes <= float64(probeMin) {
		g.probe.limit, g.probe.all = g.limit, true
		g.set(to)
	}
}

// aim learns from a window in which the limit bound. It returns the number that is worked on plus its
// square root, and an upper bound of the limit. The root is the queue that keeps the workers busy
// although arrivals and answers vary by chance, and makes up for an estimate that is too low. As it
// is a larger part of a small limit than of a large one, gates that see the same queue arrive at the
// same limit.
func (g *Gate) aim(r *reading) (to, most float64) {
	g.starts = g.starting(r)
	if g.limit >= g.before.limit {
		g.before = cut{g.limit, r.mid, r.little()}
	}
	g.note(r)
	g.atWork += .2 * (r.atWork - g.atWork)
	most = g.saturation.bound(r)
	return min(most, max(r.atWork+math.Sqrt(r.atWork), provenPart*g.worked())), most
}

// reduce lowers a limit that binds.
func (g *Gate) reduce(now time.Time, r *reading) {
	to, _ := g.aim(r)
	g.fall(now, min(g.limit, max(to, (1-fallMost)*g.limit)), Latency)
}

// restore takes back a fall of the limit that had no queue as its reason.
func (g *Gate) restore(_ time.Time, r *reading) {
	g.aim(r)
	g.moveTo(g.slowdown.from, r)
}

// growFirst raises a limit of which nothing is known but that it is too low.
func (g *Gate) growFirst(_ time.Time, r *reading) {
	_, most := g.aim(r)
	g.moveTo(min(startGrowth*g.limit, max(most, g.limit)), r)
}

// grow raises a limit that binds.
func (g *Gate) grow(_ time.Time, r *reading) {
	to, most := g.aim(r)
	g.moveTo(g.limit+part*(max(to, min(growth*g.limit, max(most, g.limit)))-g.limit), r)
}

// growSlowly raises a limit that binds by half its square root, since not all requests may be as quick
// as most.
func (g *Gate) growSlowly(_ time.Time, r *reading) {
	_, most := g.aim(r)
	g.moveTo(min(g.limit+math.Sqrt(g.limit)/2, max(most, g.limit)), r)
}

// approach moves a limit that binds to the number that is worked on plus its square root.
func (g *Gate) approach(_ time.Time, r *reading) {
	to, _ := g.aim(r)
	g.moveTo(g.limit+part*(to-g.limit), r)
}

// moveTo moves a limit that binds, and has not fallen because requests wait.
func (g *Gate) moveTo(to float64, r *reading) {
	g.set(to)
	g.slowdown.from = 0
	g.learn(r)
}

// starting reports whether a limit that binds grows as it does at the start.
func (g *Gate) starting(r *reading) bool {
	slow := g.baseline.known >= probeAnswers && max(g.slower, r.mid/g.baseline.mid) >= startSlow
	counts := g.real(r.mid) >= 2*g.brisk
	return g.starts && r.wide() && counts && !slow && r.waiting < queueLeast && r.waiting+r.noise < startMost
}

// note records the rate at which requests were worked on.
func (g *Gate) note(r *reading) {
	most := r.mean * (1 - max(0, r.waiting-2*r.noise))
	g.rates[g.turn] = min(most, r.rate*g.real(g.slower*g.baseline.mean).Seconds())
	g.turn = (g.turn + 1) % len(g.rates)
}

// worked returns how many were worked on lately when answers came fastest, by Little's law.
func (g *Gate) worked() float64 { return slices.Max(g.rates[:]) }

// fall lowers the limit and records why.
func (g *Gate) fall(now time.Time, to float64, why Reason) {
	before := g.Limit()
	if g.set(to); g.Limit() < before {
		l := &g.state
		l.Cuts[why]++
		kept := l.Last[max(0, len(l.Last)-cutsKept+1):]
		l.Last = append(slices.Clone(kept), Decrease{now, before, g.Limit(), why, l.Median, l.Baseline})
	}
}
