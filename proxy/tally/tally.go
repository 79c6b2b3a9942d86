// Package tally counts decisions by rule. It asks the store about rules in shadow and
// about a candidate for the global limit, which refuse nothing, and finds the busiest
// keys.
package tally

import (
	"hash/maphash"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"weir/internal/metric"
	"weir/proxy/decide"
	"weir/proxy/limit"
	"weir/proxy/rule"
)

// KeysHalfLife is the half-life of the counts of keys.
const KeysHalfLife = 5 * time.Minute

// A Tally has the counts of all loops.
//
// Safe for concurrent use: shards are added before the first is used.
type Tally struct {
	policy    func() *decide.Policy
	log       *slog.Logger
	seed      maphash.Seed // of the sketches of keys
	shards    []*Shard
	candidate atomic.Pointer[limit.Limit]
}

// New returns a tally without shards for the policy in force. Refusals are logged to log.
func New(policy func() *decide.Policy, log *slog.Logger) *Tally {
	return &Tally{policy: policy, log: log, seed: maphash.MakeSeed()}
}

// Register adds the metrics to set.
func (t *Tally) Register(set *metric.Set) {
	set.Counters("ratelimiter_rule_decisions_total", "decisions by rule; rules after the first 1000 count as other", t.byRule())
	set.Counters("ratelimiter_rule_key_missing_total", "requests that lacked a part of a rule's key, by what the rule did with them", t.byMissing())
	set.Counters("ratelimiter_exempt_requests_total", "requests exempt from all limits, by the rule that exempts them; not in other counts of decisions", t.byExempting())
}

// A total has a rule's counts of all loops.
type total struct {
	forwarded, rejected, deferred, unavailable, shadowPass, shadowRefused, shared, lacking, exempt uint64
}

// totals adds up the loops' counts of each rule.
func (t *Tally) totals() map[string]total {
	sums := make(map[string]total)
	for _, b := range t.shards {
		b.mu.Lock()
		for id, c := range b.byID {
			sum := sums[id]
			sum.forwarded += c.forwarded.Load()
			sum.rejected += c.rejected.Load()
			sum.deferred += c.deferred.Load()
			sum.unavailable += c.unavailable.Load()
			sum.shadowPass += c.shadowPass.Load()
			sum.shadowRefused += c.shadowRefused.Load()
			sum.shared += c.shared.Load()
			sum.lacking += c.lacking.Load()
			sum.exempt += c.exempt.Load()
			sums[id] = sum
		}
		b.mu.Unlock()
	}
	return sums
}

func (t *Tally) byRule() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		totals := t.totals()
		if len(totals) == 0 { // there was no decision yet
			totals[t.policy().Rule] = total{}
		}
		for _, id := range slices.Sorted(maps.Keys(totals)) {
			of := totals[id]
			for _, one := range []struct {
				decision string
				n        uint64
				always   bool
			}{
				{"forwarded", of.forwarded, true}, {"rejected", of.rejected + of.unavailable + of.lacking, true},
				{"deferred", of.deferred, false},
				{"shadow_forwarded", of.shadowPass, false}, {"shadow_rejected", of.shadowRefused, false},
			} {
				if (one.always || one.n > 0) && !yield(metric.Labels("rule", id, "decision", one.decision), one.n) {
					return
				}
			}
		}
	}
}

// byMissing yields the samples of requests that lacked a part of a rule's key.
func (t *Tally) byMissing() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		totals := t.totals()
		for _, id := range slices.Sorted(maps.Keys(totals)) {
			of := totals[id]
			if of.shared > 0 && !yield(metric.Labels("rule", id, "missing", rule.Share.String()), of.shared) {
				return
			}
			if of.lacking > 0 && !yield(metric.Labels("rule", id, "missing", rule.Refuse.String()), of.lacking) {
				return
			}
		}
	}
}

// byExempting yields the samples of requests that rules exempt.
func (t *Tally) byExempting() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		totals := t.totals()
		for _, id := range slices.Sorted(maps.Keys(totals)) {
			if n := totals[id].exempt; n > 0 && !yield(metric.Labels("rule", id), n) {
				return
			}
		}
	}
}
