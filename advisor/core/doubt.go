package core

import (
	"math"
	"slices"
	"time"

	"weir/advisor/series"
)

const (
	// doubtFactor times the largest rate of about the last week is a rate that needs
	// confirmation by a second snapshot.
	doubtFactor = 20.0
	doubtMin    = 100.0     // requests per second; rates below it never do
	doubtAfter  = time.Hour // of history is required
	week        = 7 * 24 * time.Hour
)

// A doubt is a snapshot with an implausible rate. It is answered with the limit in force
// and not learned from. If the next snapshot of this or another proxy is as large, that
// one is accepted: a surge is learned one interval late, and a wrong unit not at all.
//
// Owned by its Core.
type doubt struct {
	name     string
	at       time.Time // zero: nothing is doubted
	interval time.Duration
}

// rule reports whether a snapshot is accepted; most is the largest rate that needs no
// confirmation.
func (d *doubt) rule(s *Snapshot, most float64) bool {
	before := *d
	if s.Observed <= most {
		if before.name == s.Instance {
			*d = doubt{}
		}
		return true
	}
	*d = doubt{s.Instance, s.At, s.Interval}
	again := before.name == s.Instance && !s.At.After(before.at) // a repetition confirms nothing
	if before.at.IsZero() || again || s.At.Sub(before.at).Abs() > silentAfter*max(s.Interval, before.interval) {
		return false
	}
	*d = doubt{}
	return true
}

// believable returns the largest rate that is accepted without confirmation.
func (m *memory) believable() float64 {
	if m.future.History().Age() < doubtAfter {
		return math.Inf(1)
	}
	return max(doubtMin, doubtFactor*m.Most)
}

// rate updates the largest rate of about the last week, which decays by half in a week.
func (m *memory) rate(rate float64, passed time.Duration) {
	m.Most = max(rate, m.Most*math.Exp2(-max(0, passed.Hours())/week.Hours()))
}

// recall computes the largest rate of the last week from the history.
func (m *memory) recall() {
	h := m.future.History()
	m.Most = 0
	for _, r := range h.Rows(series.FiveMinutes, h.Newest().Add(-week), h.Newest()) {
		m.Most = max(m.Most, r.Rate)
	}
}

// forget keeps the newest elements of a list.
func forget[T any](list []T, keep int) []T {
	return slices.Delete(list, 0, max(0, len(list)-keep))
}
