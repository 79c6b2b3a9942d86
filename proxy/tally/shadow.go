package tally

import (
	"time"

	"weir/proxy/decide"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// Matched counts what the rules say about a request before the store is asked.
func (b *Book) Matched(now time.Time, m *decide.Case) {
	switch {
	case m.Lacks != nil:
		b.of(m.Policy, m.Lacks.Index).lacking.Inc()
		return
	case m.Exempt >= 0:
		b.of(m.Policy, m.Exempt).exempt.Inc()
	}
	for i := range m.Shadows {
		b.shadow(now, m.Policy, &m.Shadows[i])
	}
}

// shadow has the store count a rule that is not enforced.
func (b *Book) shadow(now time.Time, p *decide.Policy, shadow *decide.Shadow) {
	counted, counter := &shadow.Counted, &shadow.Counter
	c := b.of(p, counted.Index)
	if counted.Lacks {
		if counted.Rule.Missing == rule.Refuse {
			c.shadowRefused.Inc()
			return
		}
		c.shared.Inc()
	}
	w := b.shadowing()
	w.set, w.count, w.index, w.key = p.Rules, c, counted.Index, append(w.key[:0], counter.Key...)
	b.try(now, counter, w.done)
}

// A shadowing is a rule in shadow that waits for the answer of the store. It is used
// again, so that requests cost no memory.
//
// Owned by its loop.
type shadowing struct {
	book  *Book
	set   *rule.Set
	count *count
	index int
	key   []byte
	done  store.Done // made once
}

// Bounds of those that are kept to be used again.
const (
	shadowingsKept   = 1024
	shadowingKeyKept = 1 << 10
)

// shadowing returns one that is not in use.
func (b *Book) shadowing() *shadowing {
	if n := len(b.shadowings); n > 0 {
		w := b.shadowings[n-1]
		b.shadowings = b.shadowings[:n-1]
		return w
	}
	w := &shadowing{book: b}
	w.done = w.judged
	return w
}

// judged counts what the rule would have done.
func (w *shadowing) judged(now time.Time, ans *store.Answer) {
	b := w.book
	w.count.shadowed(ans)
	if b.set == w.set && len(ans.Decisions) > 0 { // else the rule may have another index by now, or the store is away
		b.touch(now, w.index, w.key, ans.Granted == 0)
	}
	w.set, w.count = nil, nil
	if len(b.shadowings) < shadowingsKept && cap(w.key) <= shadowingKeyKept {
		b.shadowings = append(b.shadowings, w)
	}
}

// try has the store decide about a counter that nobody waits for, and done called with the
// answer.
func (b *Book) try(now time.Time, counter *store.Counter, done store.Done) {
	b.ask.N = 1
	b.ask.Counters = append(b.ask.Counters[:0], *counter)
	if b.store(now, &b.ask, &b.answer, done) {
		done(now, &b.answer)
	}
}
