package wire

import (
	"time"

	"weir/proxy/decide"
	"weir/proxy/gate"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// matched counts what the rules say about a request before the store is asked, and
// notes where the request goes.
func (s *side) matched(now time.Time, c *client, m *decide.Case) {
	switch {
	case m.Lacks != nil:
		s.lacking(m)
		return
	case m.Exempt >= 0:
		s.rules.of(m.Policy, m.Exempt).exempt.Inc()
	}
	for i := range m.Shadows {
		s.shadow(now, m.Policy, &m.Shadows[i])
	}
	if s.front.cfg.Gate.Mode != gate.Off {
		s.goes(c, m)
	}
}

// shadow has the store count a rule that is not enforced.
func (s *side) shadow(now time.Time, p *decide.Policy, shadow *decide.Shadow) {
	counted, counter := &shadow.Counted, &shadow.Counter
	count := s.rules.of(p, counted.Index)
	if counted.Lacks {
		if counted.Rule.Missing == rule.Refuse {
			count.shadowRefused.Inc()
			return
		}
		count.shared.Inc()
	}
	w := s.shadowing()
	w.set, w.count, w.index, w.key = p.Rules, count, counted.Index, append(w.key[:0], counter.Key...)
	s.try(now, counter, w.done)
}

// shadowed notes the key that a rule in shadow has judged.
func (s *side) shadowed(now time.Time, index int, key []byte, ans *store.Answer) {
	if len(ans.Decisions) > 0 { // else the store is away
		s.rules.touch(now, index, key, ans.Granted == 0)
	}
}

// A shadowing is a rule in shadow that waits for the answer of the store. It is used
// again, so that requests cost no memory.
//
// Owned by its loop.
type shadowing struct {
	side  *side
	set   *rule.Set
	count *ruleCount
	index int
	key   []byte
	done  store.Done // made once
}

// Bounds of those that are kept to be used again.
const (
	shadowingsKept   = 1024
	shadowingKeyKept = 1 << 10
)

// shadowing returns one that nobody uses.
func (s *side) shadowing() *shadowing {
	if n := len(s.shadowings); n > 0 {
		w := s.shadowings[n-1]
		s.shadowings = s.shadowings[:n-1]
		return w
	}
	w := &shadowing{side: s}
	w.done = w.judged
	return w
}

// judged counts what the rule would have done.
func (w *shadowing) judged(now time.Time, ans *store.Answer) {
	s := w.side
	w.count.shadowed(ans)
	if s.rules.set == w.set { // else the rule may have another index by now
		s.shadowed(now, w.index, w.key, ans)
	}
	w.set, w.count = nil, nil
	if len(s.shadowings) < shadowingsKept && cap(w.key) <= shadowingKeyKept {
		s.shadowings = append(s.shadowings, w)
	}
}

// try has the store decide about a counter that nobody waits for, and done called with the
// answer.
func (s *side) try(now time.Time, counter *store.Counter, done store.Done) {
	s.shadowAsk.N = 1
	s.shadowAsk.Counters = append(s.shadowAsk.Counters[:0], *counter)
	if s.lane.Ask(now, &s.shadowAsk, &s.shadowAnswer, done) {
		done(now, &s.shadowAnswer)
		return
	}
	s.armLane()
}
