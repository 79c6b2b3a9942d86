package tally

import (
	"time"

	"weir/proxy/limit"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A CandidateCounts has the counts of a candidate.
type CandidateCounts struct {
	Config            limit.Config // the candidate; zero: there is none
	Admitted, Refused uint64       // by the candidate
	// Enforced are the decisions of the limit in force about the same requests, and about
	// those for which the candidate's answer is pending.
	Enforced struct{ Admitted, Refused uint64 }
}

// SetCandidate puts a limit on trial in place of the global one, like a rule in shadow: the
// store is asked about every request that no other rule refuses, but the answer is only
// counted, under the name [rule.CandidateRule]. If only the amounts of the candidate change, its
// consumption is kept. nil ends the trial.
func (t *Tally) SetCandidate(l *limit.Limit) { t.candidate.Store(l) }

// Candidate returns the counts of the candidate since it was set.
func (t *Tally) Candidate() (sum CandidateCounts) {
	l := t.candidate.Load()
	if l == nil {
		return sum
	}
	sum.Config = l.Config()
	for _, b := range t.loopTallies {
		c := b.candidacy.Load()
		if c == nil || c.limit != l {
			continue // this loop has not asked yet
		}
		sum.Admitted += c.counted[shadowPass].Load()
		sum.Refused += c.counted[shadowRefused].Load()
		sum.Enforced.Admitted += c.counted[forwarded].Load()
		sum.Enforced.Refused += c.counted[rejected].Load()
	}
	return sum
}

// A candidacy has the counts of one loop for one candidate. Late answers count for the
// candidate that was asked about.
//
// Owned by its loop; any goroutine may read the counts.
type candidacy struct {
	limit   *limit.Limit
	all     *count     // of all candidates
	counted count      // shadow counts: of this candidate; others: of the limit in force
	done    store.Done // c.judged
}

// candidacyOf returns the candidacy of a limit on this loop.
func (t *LoopTally) candidacyOf(l *limit.Limit) *candidacy {
	c := t.candidacy.Load()
	if c == nil || c.limit != l {
		c = &candidacy{limit: l, all: t.forCandidate()}
		c.done = c.judged
		t.candidacy.Store(c)
	}
	return c
}

// judged counts the decision of the candidate.
func (c *candidacy) judged(_ time.Time, ans *store.Answer) {
	c.all.shadowed(ans)
	c.counted.shadowed(ans)
}

// tryCandidate asks the store about the candidate, unless another rule has refused the
// request: nothing would be charged to the candidate then, even if it were in force.
func (t *LoopTally) tryCandidate(now time.Time, l *limit.Limit, ans *store.Answer) {
	for i := 1; i < len(ans.Decisions); i++ { // the first is that of the global rule
		if !ans.Decisions[i].Allowed {
			return
		}
	}
	c := t.candidacyOf(l)
	if ans.Granted > 0 {
		c.counted[forwarded].Inc()
	} else {
		c.counted[rejected].Inc()
	}
	counter := store.Counter{Rule: rule.CandidateRule, Limit: l, Cost: 1}
	t.try(now, &counter, c.done)
}

// forCandidate returns the count of the candidates.
func (t *LoopTally) forCandidate() *count {
	if t.candidates == nil {
		t.candidates = new(count)
		t.mu.Lock()
		t.byID[rule.CandidateRule] = t.candidates
		t.mu.Unlock()
	}
	return t.candidates
}
