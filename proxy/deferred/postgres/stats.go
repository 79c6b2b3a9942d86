package postgres

import (
	"cmp"
	"slices"

	"weir/proxy/deferred"
	"weir/proxy/store/postgres"
)

// learn reads the counts of entries, the last column of most functions.
func (q *Queue) learn(f *postgres.Fields) error {
	byRule := make(map[string]*deferred.RuleStats)
	of := func(rule string) *deferred.RuleStats {
		if byRule[rule] == nil {
			byRule[rule] = &deferred.RuleStats{Rule: rule}
		}
		return byRule[rule]
	}
	total := int64(0)
	for _, r := range f.Records() {
		s := of(string(r.Bytes()))
		state, n := r.Int8(), deferred.EntryCount{Entries: int(r.Int8()), Bytes: r.Int8()}
		switch {
		case r.Err != nil || state >= int64(deferred.StateCount):
			return errAnswer
		case state < 0:
			s.Paused, s.Oldest = state < -1, q.clock.here(n.Bytes)
		case deferred.State(state) == deferred.Delivering:
			s.States[deferred.Waiting].Entries -= n.Entries
			s.States[deferred.Waiting].Bytes -= n.Bytes
			s.States[deferred.Delivering] = n
		default:
			s.States[state].Entries += n.Entries
			s.States[state].Bytes += n.Bytes
			total += n.Bytes
		}
	}
	if f.Err != nil {
		return f.Err
	}
	rules := make([]deferred.RuleStats, 0, len(byRule))
	for _, s := range byRule {
		rules = append(rules, *s)
	}
	slices.SortFunc(rules, func(a, b deferred.RuleStats) int { return cmp.Compare(a.Rule, b.Rule) })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Rules, q.stats.Bytes = rules, total
	return nil
}
