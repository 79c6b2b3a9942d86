package tally

import (
	"time"

	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// A Trial is what became of the requests that a candidate was asked about.
type Trial struct {
	Config            limit.Config // the candidate; zero: there is none
	Admitted, Refused uint64       // by it
	// Enforced is what the limit in force did with the same requests, and with those
	// that the store has not answered the candidate's ask about yet.
	Enforced struct{ Admitted, Refused uint64 }
}

// SetCandidate has a limit tried in the global one's place, as a rule in shadow is:
// it is asked about every request that no other rule refuses, and refuses nobody. It
// is counted under the name [rule.Candidate]. One after another keeps what was
// consumed where only amounts change. nil ends it.
func (t *Tally) SetCandidate(l *limit.Limit) { t.candidate.Store(l) }

// Candidate returns what was counted of the candidate since it was set.
func (t *Tally) Candidate() (sum Trial) {
	l := t.candidate.Load()
	if l == nil {
		return sum
	}
	sum.Config = l.Config()
	for _, b := range t.books {
		c := b.candidacy.Load()
		if c == nil || c.limit != l {
			continue // nothing was asked on this loop yet
		}
		sum.Admitted += c.counted.shadowPass.Load()
		sum.Refused += c.counted.shadowRefused.Load()
		sum.Enforced.Admitted += c.counted.forwarded.Load()
		sum.Enforced.Refused += c.counted.rejected.Load()
	}
	return sum
}

// A candidacy is what one loop counts of one candidate. What the store answers late counts
// for the candidate that was asked about.
//
// Owned by its loop; any goroutine may read the counts.
type candidacy struct {
	limit   *limit.Limit
	all     *count     // of all candidates
	counted count      // shadow: of this one; else: of the limit in force
	done    store.Done // made once
}

// candidacyOf returns that of a candidate on this loop.
func (b *Book) candidacyOf(l *limit.Limit) *candidacy {
	c := b.candidacy.Load()
	if c == nil || c.limit != l {
		c = &candidacy{limit: l, all: b.forCandidate()}
		c.done = c.judged
		b.candidacy.Store(c)
	}
	return c
}

// judged counts what the candidate would have done.
func (c *candidacy) judged(_ time.Time, ans *store.Answer) {
	c.all.shadowed(ans)
	c.counted.shadowed(ans)
}

// tryCandidate asks the store about the candidate, unless one of the other rules has
// refused: with the candidate in force nothing would have been charged to it either.
func (b *Book) tryCandidate(now time.Time, l *limit.Limit, ans *store.Answer) {
	for i := 1; i < len(ans.Decisions); i++ { // the first is the global rule's
		if !ans.Decisions[i].Allowed {
			return
		}
	}
	c := b.candidacyOf(l)
	if ans.Granted > 0 {
		c.counted.forwarded.Inc()
	} else {
		c.counted.rejected.Inc()
	}
	counter := store.Counter{Rule: rule.Candidate, Limit: l, Cost: 1}
	b.try(now, &counter, c.done)
}

// forCandidate returns the count of the candidates.
func (b *Book) forCandidate() *count {
	if b.candidates == nil {
		b.candidates = new(count)
		b.mu.Lock()
		b.byID[rule.Candidate] = b.candidates
		b.mu.Unlock()
	}
	return b.candidates
}
