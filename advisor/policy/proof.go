package policy

import (
	"slices"
	"time"
)

// A Slot is the highest rate of good answers within five minutes.
type Slot struct {
	At     time.Time `json:"at"` // the start
	Proven float64   `json:"proven"`
}

const (
	slotSpan = 5 * time.Minute
	slotsMax = 288 // 24 h
	// proofSpan is over how many seconds a rate must have been answered well to count:
	// within two, a third more may be by chance.
	proofSpan = 30.0
)

// prove notes the rate of good answers of r, if the target was well.
func (p *Policy) prove(r reading) {
	if r.answers == 0 {
		return
	}
	p.st.Good += (r.good - p.st.Good) * min(1, r.dt/proofSpan)
	start := r.at.Truncate(slotSpan)
	slots := p.st.Slots
	if n := len(slots); n == 0 || slots[n-1].At.Before(start) {
		slots = append(slots, Slot{At: start})
	}
	old := 0
	for old < len(slots)-1 && (len(slots)-old > slotsMax || start.Sub(slots[old].At) > slotsMax*slotSpan) {
		old++
	}
	p.st.Slots = slices.Delete(slots, 0, old)
	last := &p.st.Slots[len(p.st.Slots)-1]
	if r.gated || r.errors <= badErrors && r.p95 <= p.slo() {
		last.Proven = max(last.Proven, min(p.st.Good, r.good))
	}
}

// proven is the highest rate of the last 24 h that the target has answered well.
func (p *Policy) proven() float64 {
	top := 0.0
	for _, s := range p.st.Slots {
		top = max(top, s.Proven)
	}
	return top
}
