package serve

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/advisor/series"
)

const (
	// doubtFactor times the largest rate of about the last week is a rate that one
	// snapshot alone does not make believable; less than doubtMin never is.
	doubtFactor = 20.0
	doubtMin    = 100.0 // requests per second
	// doubtAfter is how much history it takes to doubt.
	doubtAfter = time.Hour

	week = 7 * 24 * time.Hour
)

// Doubts are the snapshots whose rate is not believed yet. Such a snapshot is
// answered with the limit in force and not learned from. When the next of its proxy,
// or one of another, is as large, both are; when the next is not, it is forgotten. So
// a surge is learned an interval late, but whole, and a slip of a unit not at all.
//
// Owned by the core.
type doubts []snapshot

// rule takes in a snapshot and says which are to be learned from; none: it is in doubt.
func (d *doubts) rule(s *snapshot, most float64) (believed []snapshot) {
	if s.observed <= most {
		*d = slices.DeleteFunc(*d, func(o snapshot) bool { return o.instance == s.instance })
		return []snapshot{*s}
	}
	*d = slices.DeleteFunc(*d, func(o snapshot) bool {
		again := o.instance == s.instance && !s.at.After(o.at) // a repetition confirms nothing
		return again || s.at.Sub(o.at).Abs() > silentAfter*max(s.interval, o.interval)
	})
	*d = append(*d, *s)
	if len(*d) < 2 {
		return nil
	}
	believed, *d = *d, nil
	return believed
}

// believable is the largest rate that is believed at once.
func (m *memory) believable() float64 {
	if m.future.History().Age() < doubtAfter {
		return math.Inf(1)
	}
	return max(doubtMin, doubtFactor*m.most)
}

// rate takes a rate into the largest of about the last week: half of it is forgotten
// in a week.
func (m *memory) rate(rate float64, passed time.Duration) {
	m.most = max(rate, m.most*math.Exp2(-max(0, passed.Hours())/week.Hours()))
}

// recall works out the largest rate of the last week from the history.
func (m *memory) recall() {
	h := m.future.History()
	newest, _ := h.Newest()
	m.most = 0
	for _, r := range h.Rows(series.FiveMinutes, newest.Add(-week), newest) {
		m.most = max(m.most, r.Rate)
	}
}

// doubtful answers a snapshot whose rate is not believed.
func doubtful(s *snapshot, most float64) reply {
	r := hold(s, resultDoubtful, "doubtful_rate", fmt.Sprintf(
		"%.4g/s is more than %g times what the last week had, the limit stays until another snapshot confirms it", s.observed, doubtFactor))
	r.advice.PredictedRPS, r.advice.Predicted95 = most, most
	return r
}
