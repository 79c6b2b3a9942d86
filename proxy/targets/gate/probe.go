package gate

import "time"

const (
	// A gate that binds probes with half as many in flight, at least every
	// probeMax and at most every probeMin. Each pause between probes is rarer times as long as
	// the one before, because probes cost throughput. The periods are powers of two seconds of
	// the wall clock, so that gates that share a target probe at the same time: one that probes
	// alone sees the queue of the others.
	probeMin, probeMax, rarer = time.Second, 16 * time.Second, 4
	// probeAnswers is how many answers a probe takes, after three answer times in which the
	// limit comes into effect. probePart bounds the share of the time that probes may take.
	probeAnswers, probePart = 40, 1. / 8
	// probeNews is how many standard deviations below the known times answers must be for
	// the next probe to be soon: then the known times were learned while the target was
	// overrun. A false alarm costs little.
	probeNews = 1.5
	// slowerMost bounds the slowness that is assumed when computing how long a probe takes.
	slowerMost = 1.5
	// A probe has failed if it takes probeLate times as long as expected.
	probeLate = 16
)

// A probe is a short span with few requests in flight.
type probe struct {
	period time.Duration
	last   time.Time // when the gate last looked, or did not bind
	limit  float64   // to be restored; 0: no probe is under way
	slower float64   // Gate.slower when the probe began
	rate   float64   // answers per second then
	mixed  bool      // some answers took much longer than others then
	all    bool      // every gate that binds probes at the same time
}

// probeDue reports whether a probe is to begin. One that would take too long is put off.
func (g *Gate) probeDue(now time.Time, r *reading) bool {
	p := &g.probe
	switch {
	case g.baseline.known >= knownStep && now.Sub(g.bound) < probeMin && g.queued(now) < queueStands:
		p.last, p.period = now, probeMin
		return false
	case g.refused.from > 0 && g.limit >= g.refused.ceiling: // the target limits its queue itself
		return false
	case now.Truncate(p.period).Equal(p.last.Truncate(p.period)):
		return false
	}
	p.all = !now.Truncate(probeMax).Equal(p.last.Truncate(probeMax))
	p.last = now
	takes := probeTakes(g.probeLimit(r), g.real(min(g.slower, slowerMost)*g.baseline.mean))
	if float64(takes) > probePart*float64(p.period) {
		p.period = min(2*p.period, probeMax)
		return false
	}
	return true
}

// probeLimit returns the limit of a probe.
func (g *Gate) probeLimit(r *reading) float64 {
	return max(float64(g.cfg.Min), min(g.limit/2, .6*max(r.atWork, g.atWork)))
}

// beginProbe begins a probe.
func (g *Gate) beginProbe(_ time.Time, r *reading) {
	g.probe.limit, g.probe.slower, g.probe.rate, g.probe.mixed = g.limit, g.slower, r.little(), r.mixed
	g.set(g.probeLimit(r))
}

// endProbe learns from a probe and ends it.
func (g *Gate) endProbe(_ time.Time, r *reading) {
	p := &g.probe
	p.period = min(rarer*p.period, probeMax)
	if r.mid < (1-probeNews*r.noise)*g.baseline.mid {
		p.period = probeMin
		g.baseline.known = min(g.baseline.known, 3*float64(g.window.goods))
	}
	if p.all || r.mid < g.baseline.mid || g.baseline.known < knownStep { // else it may be the queue of the others
		g.learn(r)
	}
	if r.full && g.probed(r) {
		p.period, p.limit = probeMin, g.saturation.most
	}
	g.set(p.limit)
	p.limit = 0
}

// probeTakes returns how long a probe with a limit is expected to take if answers take so long.
func probeTakes(limit float64, takes time.Duration) time.Duration {
	return time.Duration((probeAnswers/limit + 3) * float64(takes))
}

// dropProbe ends a probe that takes too long. Then what was in flight before takes long by itself, and
// others would wait for places until it is answered.
func (g *Gate) dropProbe(now time.Time) {
	p := &g.probe
	p.last, p.period = now, min(rarer*p.period, probeMax)
	g.set(p.limit)
	p.limit = 0
	g.settle(g.slowdown.time(now), false)
}
