package tally

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A kind says which requests are counted.
type kind uint8

const (
	forwarded kind = iota
	rejected
	deferred    // refused, and delivered later
	unavailable // rejected because the store is unavailable
	shadowPass
	shadowRefused
	shared  // without a part of the key, by the rule's treatment
	lacking // likewise
	exempt  // that the rule exempts
	kinds
)

// A count has the counts of one loop for one rule. It is kept while a rule with that id is in
// force, and for an hour after that.
type count [kinds]metric.Counter

const (
	// countsMax bounds the rules that are counted separately, in the order of the file; the
	// others are counted together, as otherRules. If necessary, counts of rules that are no
	// longer in force are dropped.
	countsMax  = 1000
	otherRules = "other"
	// countsKept is how long the counts of a rule are shown after it was in force.
	countsKept = time.Hour
)

// shadowed counts the decision of a rule that is not enforced.
func (c *count) shadowed(ans *store.Answer) {
	switch {
	case len(ans.Decisions) == 0: // the store is unavailable
	case ans.Granted > 0:
		c[shadowPass].Inc()
	default:
		c[shadowRefused].Inc()
	}
}

// A LoopTally has the counts of one loop, and asks the store about rules in shadow and a
// candidate.
//
// Owned by its loop, which alone adds to the counts; mu guards the map against scrapes.
type LoopTally struct {
	tally   *Tally
	set     *rule.Set // of byIndex
	byIndex []*count
	board   *TopKeys // of keys, by the same index

	store      StoreFunc
	ask        store.Ask // memory for asks
	answer     store.Answer
	shadowings []*shadowing              // free ones
	candidates *count                    // of all candidates; nil: there was none yet
	candidacy  atomic.Pointer[candidacy] // of the last candidate; nil: there was none yet

	mu   sync.Mutex
	byID map[string]*count
}

// A StoreFunc is [store.Lane.Ask] of the loop.
type StoreFunc func(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool

// NewShard returns a shard for another loop. All shards are made before the first is used.
func (t *Tally) NewShard(ask StoreFunc) *LoopTally {
	b := &LoopTally{tally: t, store: ask, byID: make(map[string]*count), board: NewTopKeys(KeysHalfLife, t.seed)}
	t.loopTallies = append(t.loopTallies, b)
	return b
}

// Keys returns the keys of a rule that were recently seen most, and refused most. It is called
// on the loop.
func (t *LoopTally) Keys(now time.Time, id string) (busiest, refused Ranking) {
	return t.board.Ranking(now, id)
}

// of returns the count of the rule with an index in p; -1 is the global rule.
func (t *LoopTally) of(p *decide.Policy, index int) *count {
	if t.byIndex == nil || t.set != p.Rules {
		t.follow(p)
	}
	return t.byIndex[index+1]
}

// follow switches to the rules of a policy.
func (t *LoopTally) follow(p *decide.Policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := idsOf(p)
	t.board.SetRules(ids)
	t.makeRoom(ids)
	t.set, t.byIndex = p.Rules, t.byIndex[:0]
	for _, id := range ids {
		if t.byID[id] == nil && len(t.byID) >= countsMax {
			id = otherRules
		}
		if t.byID[id] == nil {
			t.byID[id] = new(count)
		}
		t.byIndex = append(t.byIndex, t.byID[id])
	}
}

// makeRoom drops the counts of rules that are not in force if the bound would be exceeded. mu
// is held.
func (t *LoopTally) makeRoom(ids []string) {
	kept := make(map[string]*count)
	all := len(t.byID)
	for _, id := range slices.Concat(ids, alwaysCounted) {
		if c := t.byID[id]; c != nil {
			kept[id] = c
		} else {
			all++
		}
	}
	if all > countsMax {
		t.byID = kept
	}
}

// alwaysCounted are names of counts that are not rules of a policy.
var alwaysCounted = []string{rule.CandidateRule, otherRules}

// idsOf returns the ids of a policy's rules: the global rule first, exempting rules last.
func idsOf(p *decide.Policy) []string {
	ids := []string{rule.GlobalID}
	if p.Rules != nil {
		for i := range p.Rules.Len() + p.Rules.Exempting() {
			ids = append(ids, p.Rules.Rule(i).ID)
		}
	}
	return ids
}

// Judged counts a decision for each rule that had a part in it.
func (t *LoopTally) Judged(now time.Time, d *decide.CounterResults) {
	p, asked, ans := d.Policy, d.Asked, d.Answer
	if len(ans.Decisions) == 0 { // the store is unavailable, and no rule has decided
		if ans.Granted > 0 {
			t.of(p, -1)[forwarded].Inc()
		} else {
			t.of(p, -1)[unavailable].Inc()
		}
		return
	}
	if candidate := t.tally.candidate.Load(); candidate != nil {
		t.tryCandidate(now, candidate, ans)
	}
	for i := range asked {
		took, refused := d.Judged(i)
		if !took {
			continue
		}
		c := t.of(p, asked[i].Index)
		if asked[i].Index >= 0 { // the global rule has one key
			t.board.Observe(now, asked[i].Index+1, asked[i].Key, refused)
		}
		if asked[i].PartMissing {
			c[shared].Inc()
		}
		switch {
		case d.Postponed: // see Deferred
		case refused:
			c[rejected].Inc()
		default:
			c[forwarded].Inc()
		}
	}
}

// Deferred counts a request that was to be delivered later, for the rule of its line. stored
// says whether it has been stored.
func (t *LoopTally) Deferred(id string, stored bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byID[id]
	if c == nil {
		c = t.byID[otherRules] // there are many rules, or the rule is no longer in force
	}
	switch {
	case c == nil:
	case stored:
		c[deferred].Inc()
	default:
		c[rejected].Inc()
	}
}
