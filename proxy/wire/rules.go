package wire

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"weir/internal/metric"
	"weir/proxy/decide"
	"weir/proxy/rule"
	"weir/proxy/sketch"
	"weir/proxy/store"
)

// A ruleCount is what one loop has counted of one rule. A rule keeps it as long
// as its id is in use, whatever else of it changes, and an hour longer.
type ruleCount struct {
	forwarded, rejected       metric.Counter
	unavailable               metric.Counter // rejected by nobody, as the store is unavailable
	shadowPass, shadowRefused metric.Counter
	shared, lacking           metric.Counter // requests without a part of the key, by what the rule does with them
	exempt                    metric.Counter // requests that the rule exempts
}

const (
	// ruleCountsMax bounds the rules that are counted by themselves, in the order of
	// the file; the others are counted together, as otherRules. To count the rules in
	// force, those of rules that are not are dropped.
	ruleCountsMax = 1000
	otherRules    = "other"
	// ruleCountsKept is how long the counts of a rule are told after it was in force.
	ruleCountsKept = time.Hour
)

// shadowed counts what a rule that is not enforced would have done.
func (c *ruleCount) shadowed(ans *store.Answer) {
	switch {
	case len(ans.Decisions) == 0: // the store is away
	case ans.Granted > 0:
		c.shadowPass.Inc()
	default:
		c.shadowRefused.Inc()
	}
}

// A ruleBook has the counts of one loop.
//
// Safe for concurrent use: the loop alone adds; mu guards the map against who
// scrapes, and the rest is the loop's.
type ruleBook struct {
	set     *rule.Set // that byIndex is for
	byIndex []*ruleCount
	board   *sketch.Board // of keys, by the same index

	candidate *ruleCount // nil: there was none yet

	mu   sync.Mutex
	byID map[string]*ruleCount
}

// keysHalfLife is in what time a key that is not seen any more counts for half.
const keysHalfLife = 5 * time.Minute

func newRuleBook(seed maphash.Seed) ruleBook {
	return ruleBook{byID: make(map[string]*ruleCount), board: sketch.NewBoard(keysHalfLife, seed)}
}

// touch notes the key that a rule has judged.
func (b *ruleBook) touch(now time.Time, index int, key []byte, refused bool) {
	b.board.Touch(now, index+1, key, refused)
}

// of returns the count of the rule with that index in p, -1 for the global one.
func (b *ruleBook) of(p *decide.Policy, index int) *ruleCount {
	if b.byIndex == nil || b.set != p.Rules {
		b.follow(p)
	}
	return b.byIndex[index+1]
}

// follow takes up the rules of a policy.
func (b *ruleBook) follow(p *decide.Policy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := idsOf(p)
	b.board.SetRules(ids)
	b.makeRoom(ids)
	b.set, b.byIndex = p.Rules, b.byIndex[:0]
	for _, id := range ids {
		if b.byID[id] == nil && len(b.byID) >= ruleCountsMax {
			id = otherRules
		}
		if b.byID[id] == nil {
			b.byID[id] = new(ruleCount)
		}
		b.byIndex = append(b.byIndex, b.byID[id])
	}
}

// makeRoom drops the counts of rules that are not in force when those in force
// would exceed the bound with them. mu is held.
func (b *ruleBook) makeRoom(ids []string) {
	kept := make(map[string]*ruleCount)
	all := len(b.byID)
	for _, id := range slices.Concat(ids, alwaysCounted) {
		if c := b.byID[id]; c != nil {
			kept[id] = c
		} else {
			all++
		}
	}
	if all > ruleCountsMax {
		b.byID = kept
	}
}

// alwaysCounted are the names that are no rules of a policy.
var alwaysCounted = []string{rule.Candidate, otherRules}

// idsOf returns the ids of a policy's rules: the global one's first, those that exempt
// last.
func idsOf(p *decide.Policy) []string {
	ids := []string{p.Rule}
	if p.Rules != nil {
		for i := range p.Rules.Len() + p.Rules.Exempting() {
			ids = append(ids, p.Rules.Rule(i).ID)
		}
	}
	return ids
}

// departures are the rules that are counted and in force no more.
//
// Owned by housekeeping.
type departures struct {
	set     *rule.Set // that inForce is for
	inForce map[string]bool
	since   map[string]time.Time
}

// drop drops the counts of rules that p, which is in force, has not had for long.
func (d *departures) drop(now time.Time, f *Front, p *decide.Policy) {
	if d.inForce == nil || d.set != p.Rules {
		d.set, d.inForce = p.Rules, make(map[string]bool)
		for _, id := range slices.Concat(idsOf(p), alwaysCounted) {
			d.inForce[id] = true
		}
	}
	gone := make(map[string]time.Time)
	for id := range f.ruleTotals() {
		since, known := d.since[id]
		switch {
		case d.inForce[id]:
		case !known:
			gone[id] = now
		case now.Sub(since) < ruleCountsKept:
			gone[id] = since
		default:
			f.dropCounts(id)
		}
	}
	d.since = gone
}

// dropCounts drops what all loops have counted of a rule.
func (f *Front) dropCounts(id string) {
	for _, s := range f.sides {
		s.rules.mu.Lock()
		delete(s.rules.byID, id)
		s.rules.mu.Unlock()
	}
}

// A ruleTotal is a rule's counts over all loops.
type ruleTotal struct {
	forwarded, rejected, unavailable, shadowPass, shadowRefused, shared, lacking, exempt uint64
}

// ruleTotals adds the loops' counts of each rule.
func (f *Front) ruleTotals() map[string]ruleTotal {
	totals := make(map[string]ruleTotal)
	for _, s := range f.sides {
		s.rules.mu.Lock()
		for id, c := range s.rules.byID {
			t := totals[id]
			t.forwarded += c.forwarded.Load()
			t.rejected += c.rejected.Load()
			t.unavailable += c.unavailable.Load()
			t.shadowPass += c.shadowPass.Load()
			t.shadowRefused += c.shadowRefused.Load()
			t.shared += c.shared.Load()
			t.lacking += c.lacking.Load()
			t.exempt += c.exempt.Load()
			totals[id] = t
		}
		s.rules.mu.Unlock()
	}
	return totals
}

// KeysHalfLife is that of what Top tells.
func (f *Front) KeysHalfLife() time.Duration { return keysHalfLife }

// Top tells which keys of a rule were seen most lately, and which refused most,
// over all loops.
func (f *Front) Top(id string) (busiest, refused sketch.View) {
	type views struct{ busiest, refused sketch.View }
	found := make(chan views, len(f.sides))
	f.onLoops(func(s *side, now time.Time) {
		var v views
		v.busiest, v.refused = s.rules.board.View(now, id)
		found <- v
	})
	var busy, no []sketch.View
	for {
		select {
		case v := <-found:
			busy, no = append(busy, v.busiest), append(no, v.refused)
			continue
		default:
		}
		return sketch.Merge(busy...), sketch.Merge(no...)
	}
}
