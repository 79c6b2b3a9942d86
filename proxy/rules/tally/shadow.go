package tally

import (
	"time"

	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// Matched counts a request by the rules that apply to it.
func (t *LoopTally) Matched(now time.Time, m *decide.Evaluation) {
	switch {
	case m.RefusedBy != nil:
		t.of(m.Policy, m.RefusedBy.Index)[lacking].Inc()
		return
	case m.Exempt >= 0:
		t.of(m.Policy, m.Exempt)[exempt].Inc()
	}
	for i := range m.Shadows {
		t.shadow(now, m.Policy, &m.Shadows[i])
	}
}

// shadow asks the store about a rule that is not enforced.
func (t *LoopTally) shadow(now time.Time, p *decide.Policy, counted *decide.ChargedCounter) {
	c := t.of(p, counted.Index)
	if counted.PartMissing {
		if counted.Rule.Missing == rule.RefuseRequest {
			c[shadowRefused].Inc()
			return
		}
		c[shared].Inc()
	}
	w := t.shadowing()
	w.set, w.count, w.index, w.key = p.Rules, c, counted.Index, append(w.key[:0], counted.Key...)
	t.try(now, &counted.Counter, w.done)
}

// A shadowing waits for the store's answer about a rule in shadow. It is reused, so that
// requests do not allocate.
//
// Owned by its loop.
type shadowing struct {
	loopTally *LoopTally
	set       *rule.Set
	count     *count
	index     int
	key       []byte
	done      store.Done // w.judged
}

// Bounds of the free shadowings.
const (
	shadowingsKept   = 1024
	shadowingKeyKept = 1 << 10
)

// shadowing returns a free shadowing.
func (t *LoopTally) shadowing() *shadowing {
	if n := len(t.shadowings); n > 0 {
		w := t.shadowings[n-1]
		t.shadowings = t.shadowings[:n-1]
		return w
	}
	w := &shadowing{loopTally: t}
	w.done = w.judged
	return w
}

// judged counts the decision of the rule.
func (w *shadowing) judged(now time.Time, ans *store.Answer) {
	b := w.loopTally
	w.count.shadowed(ans)
	// otherwise the rule may have another index now, or the store is unavailable
	if b.set == w.set && len(ans.Decisions) > 0 {
		b.board.Observe(now, w.index+1, w.key, ans.Granted == 0)
	}
	w.set, w.count = nil, nil
	if len(b.shadowings) < shadowingsKept && cap(w.key) <= shadowingKeyKept {
		b.shadowings = append(b.shadowings, w)
	}
}

// try asks the store about a counter on which no request depends. done gets the answer.
func (t *LoopTally) try(now time.Time, counter *store.Counter, done store.Done) {
	t.ask.N = 1
	t.ask.Counters = append(t.ask.Counters[:0], *counter)
	if t.store(now, &t.ask, &t.answer, done) {
		done(now, &t.answer)
	}
}
