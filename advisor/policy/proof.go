package policy

import "math"

const (
	// proofSpan is how many seconds a rate must have been answered well to count: within
	// two seconds, a third more may be chance.
	proofSpan = 30.0
	// proofHalf is the half-life of a proof in seconds.
	proofHalf = 86400.0
)

// prove records the rate of good answers of r, if the target was healthy.
func (p *Policy) prove(r reading, elapsed float64) {
	p.st.Proven *= math.Exp2(-elapsed / proofHalf)
	if r.Ended == 0 {
		return
	}
	p.st.Good += (r.good - p.st.Good) * min(1, r.dt/proofSpan)
	if r.gated || r.Errors <= badErrors && r.p95 <= p.slo() {
		p.st.Proven = max(p.st.Proven, min(p.st.Good, r.good))
	}
}
