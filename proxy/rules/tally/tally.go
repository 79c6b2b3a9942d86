// Package tally counts decisions by rule. It finds the busiest keys, and asks the
// store about rules and limits that are counted but not enforced: rules in shadow,
// and a candidate for the global limit.
package tally

import (
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
)

// KeysHalfLife is the half-life of the counts of keys.
const KeysHalfLife = 5 * time.Minute

// A Tally has the counts of all loops.
//
// Safe for concurrent use: shards are added before the first is used.
type Tally struct {
	policy      func() *decide.Policy
	log         *slog.Logger
	seed        maphash.Seed // of the sketches of keys
	loopTallies []*LoopTally
	candidate   atomic.Pointer[limit.Limit]
}

// New returns a tally without shards for the policy in force. Refusals are logged to log.
func New(policy func() *decide.Policy, log *slog.Logger) *Tally {
	return &Tally{policy: policy, log: log, seed: maphash.MakeSeed()}
}

// Register adds the metrics to set.
func (t *Tally) Register(set *metric.Set) {
	set.Counters("ratelimiter_rule_decisions_total", "decisions by rule; rules after the first 1000 count as other",
		t.samples(decisions))
	set.Counters("ratelimiter_rule_key_missing_total",
		"requests that lacked a part of a rule's key, by what the rule did with them", t.samples(missing))
	set.Counters("ratelimiter_exempt_requests_total",
		"requests exempt from all limits, by the rule that exempts them; not in other counts of decisions",
		t.samples(exempted))
}

// A total has a rule's counts of all loops.
type total [kinds]uint64

// totals adds up the loops' counts of each rule.
func (t *Tally) totals() map[string]total {
	sums := make(map[string]total)
	for _, b := range t.loopTallies {
		b.mu.Lock()
		for id, c := range b.byID {
			sum := sums[id]
			for k := range c {
				sum[k] += c[k].Load()
			}
			sums[id] = sum
		}
		b.mu.Unlock()
	}
	return sums
}

// A sample is one number about a rule. It is shown if it is not 0, or always.
type sample struct {
	labels []string // besides the rule
	n      uint64
	always bool
}

// samples adds what of returns for each rule.
func (t *Tally) samples(of func(total) []sample) func(add func(labels string, n uint64)) {
	return func(add func(labels string, n uint64)) {
		totals := t.totals()
		if len(totals) == 0 { // there was no decision yet
			totals[rule.GlobalID] = total{}
		}
		for _, id := range slices.Sorted(maps.Keys(totals)) {
			for _, s := range of(totals[id]) {
				if s.always || s.n > 0 {
					add(metric.Labels(append([]string{"rule", id}, s.labels...)...), s.n)
				}
			}
		}
	}
}

func decisions(of total) []sample {
	return []sample{
		{[]string{"decision", "forwarded"}, of[forwarded], true},
		{[]string{"decision", "rejected"}, of[rejected] + of[unavailable] + of[lacking], true},
		{[]string{"decision", "deferred"}, of[deferred], false},
		{[]string{"decision", "shadow_forwarded"}, of[shadowPass], false},
		{[]string{"decision", "shadow_rejected"}, of[shadowRefused], false},
	}
}

func missing(of total) []sample {
	return []sample{{[]string{"missing", rule.ShareCounter.String()}, of[shared], false},
		{[]string{"missing", rule.RefuseRequest.String()}, of[lacking], false}}
}

func exempted(of total) []sample { return []sample{{nil, of[exempt], false}} }
