package policy

import "math"

const (
	// A young gate's limit is at most boundRoom times the most requests that were worked on at a
	// time, plus boundMore: more than a gate needs, far less than a target's connections.
	boundRoom, boundMore = 3.0, 8.0
	boundStep            = 1.25        // ratio of two consecutive bounds, so that they rarely change
	boundAfter           = 4           // snapshots that the number at work must be from
	atWorkHalf           = 7 * 86400.0 // half-life of State.AtWork in seconds: weekends must not lower it much
	// takesDouble is how many seconds it takes at least until State.Takes has doubled. A queue
	// that lasts for seconds does not count; a target that has become slower does.
	takesDouble = 60.0
)

// employ updates how many requests the target has worked on, by Little's law: good answers
// per second times the time without a queue. A queue in the target adds to what is in flight,
// but not to this product. A bound that is too low does not last: it lets boundRoom times as many
// requests be worked on, and the snapshot that shows so raises it.
func (p *Policy) employ(r reading, elapsed float64) {
	st := &p.st
	st.AtWork *= math.Exp2(-elapsed / atWorkHalf)
	if !r.gated || r.InFlight <= 0 || r.Ended < few || r.Errors > badErrors {
		return
	}
	takes := r.InFlight * r.dt / r.Ended
	if st.Takes > 0 {
		takes = min(takes, st.Takes*math.Exp2(min(elapsed/takesDouble, 1)))
	}
	st.Takes = takes
	if st.Employed++; st.Employed <= boundAfter { // takes may include a queue, which a maximum would keep for weeks
		st.AtWork = 0
	}
	st.AtWork = max(st.AtWork, r.good*takes)
}

// gateMax computes Recommendation.GateMax.
func (p *Policy) gateMax() float64 {
	if p.st.AtWork == 0 || p.st.Employed < boundAfter {
		return 0
	}
	most := math.Log(boundRoom*p.st.AtWork + boundMore)
	return math.Ceil(math.Pow(boundStep, math.Ceil(most/math.Log(boundStep))))
}
