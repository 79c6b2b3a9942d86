package wire

import (
	"time"

	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// SetCandidate has a limit tried beside the global one, as a rule in shadow is:
// every request is asked about, and nobody refused. It is counted under the name
// [rule.Candidate]. One after another keeps what was consumed where only amounts
// change. nil ends it.
func (f *Front) SetCandidate(l *limit.Limit) { f.candidate.Store(l) }

// Candidate returns how many requests the candidates would have let pass and
// refused, since the start.
func (f *Front) Candidate() (admitted, refused uint64) {
	t := f.ruleTotals()[rule.Candidate]
	return t.shadowPass, t.shadowRefused
}

// tryCandidate asks the store about the candidate.
func (s *side) tryCandidate(now time.Time, l *limit.Limit) {
	counter := store.Counter{Rule: rule.Candidate, Limit: l, Cost: 1}
	count := s.rules.forCandidate()
	if s.lane == nil {
		count.shadowed(s.tryTable(now, &counter))
		return
	}
	s.tryLane(now, &counter, func(_ time.Time, ans *store.Answer) { count.shadowed(ans) })
}

// forCandidate returns the count of the candidates.
func (b *ruleBook) forCandidate() *ruleCount {
	if b.candidate == nil {
		b.candidate = new(ruleCount)
		b.mu.Lock()
		b.byID[rule.Candidate] = b.candidate
		b.mu.Unlock()
	}
	return b.candidate
}
