package policy

import (
	"math"
	"slices"
	"time"
)

// A Slot sums up five minutes: the rate let through and its p95 while all was
// well, and the highest rate at which it was.
type Slot struct {
	At       time.Time `json:"at"`       // the start
	Weight   float64   `json:"weight"`   // snapshots in it
	Admitted float64   `json:"admitted"` // mean, requests/s
	LnP95    float64   `json:"lnP95"`    // mean of ln seconds
	Proven   float64   `json:"proven"`   // highest rate with the guard at ease
}

const (
	slotSpan   = 5 * time.Minute
	slotsMax   = 288  // 24 h
	baseClimb  = 0.01 // per hour: a base that rises faster would call an overload normal
	baseErrors = 0.01 // snapshots with more of them say nothing about the base
	baseFell   = 0.75 // a base that falls further than to this was wrong
	slotSpread = 0.3  // in ln s: what differs more is not the same load
)

// baseline learns the p95 at low load: the 10 % quantile of p95 among the slots in
// the lowest third by rate.
func (p *Policy) baseline(r reading, elapsed float64) {
	slot := p.slot(r.at)
	if r.p95 <= 0 || r.n < 1 || r.errors > baseErrors {
		return
	}
	slot.take(r)
	low := p.quietest()
	if p.set.SLO > 0 {
		low = min(low, p.set.SLO.Seconds()/ratioMin)
	}
	switch {
	case p.st.Base == 0:
		p.st.Base = low
	case low < baseFell*p.st.Base:
		p.st.Base = low
		p.forgetBase()
	default:
		p.st.Base = min(low, p.st.Base*(1+baseClimb*min(elapsed/3600, 24)))
	}
}

// take notes r. Of a slot that saw an overload and its end only what is quicker
// counts.
func (s *Slot) take(r reading) {
	ln := math.Log(r.p95)
	w := min(1, r.n/thin)
	switch {
	case s.Weight > 0 && ln > s.LnP95+slotSpread:
		return
	case s.Weight > 0 && ln < s.LnP95-slotSpread && w == 1:
		s.Weight = 0
	}
	s.Weight += w
	s.Admitted += (r.admitted - s.Admitted) * w / s.Weight
	s.LnP95 += (ln - s.LnP95) * w / s.Weight
}

// slot returns the newest slot, a new one when at is beyond it.
func (p *Policy) slot(at time.Time) *Slot {
	start := at.Truncate(slotSpan)
	slots := p.st.Slots
	if n := len(slots); n == 0 || slots[n-1].At.Before(start) {
		slots = append(slots, Slot{At: start})
	}
	old := 0
	for old < len(slots)-1 && (len(slots)-old > slotsMax || start.Sub(slots[old].At) > 24*time.Hour) {
		old++
	}
	p.st.Slots = slices.Delete(slots, 0, old)
	return &p.st.Slots[len(p.st.Slots)-1]
}

// quietest is the 10 % quantile of p95 among the quiet slots; 0: there are none.
func (p *Policy) quietest() float64 {
	quiet := make([]Slot, 0, slotsMax)
	for _, s := range p.st.Slots {
		if s.Weight > 0 {
			quiet = append(quiet, s)
		}
	}
	if len(quiet) == 0 {
		return 0
	}
	slices.SortFunc(quiet, func(a, b Slot) int { return order(a.Admitted, b.Admitted) })
	quiet = quiet[:(len(quiet)+2)/3]
	slices.SortFunc(quiet, func(a, b Slot) int { return order(a.LnP95, b.LnP95) })
	return math.Exp(quiet[len(quiet)/10].LnP95)
}

func order(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// proven is the highest rate of the last 24 h at which the target was at ease.
func (p *Policy) proven() float64 {
	top := 0.0
	for _, s := range p.st.Slots {
		top = max(top, s.Proven)
	}
	return top
}

// disprove forgets that rates above rate were fine.
func (p *Policy) disprove(rate float64) {
	for i := range p.st.Slots {
		p.st.Slots[i].Proven = min(p.st.Slots[i].Proven, rate)
	}
}

// lowest is a share's lower bound that chance undercuts one time in six: with few
// requests behind it a share says little.
func lowest(share, n float64) float64 {
	if n < 1 {
		return 0
	}
	return max(0, share-math.Sqrt(share*(1-share)/n)-1/n)
}
