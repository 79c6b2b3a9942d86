package tally

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/metric"
	"weir/proxy/decide"
	"weir/proxy/rule"
	"weir/proxy/sketch"
	"weir/proxy/store"
)

// A count is what one loop has counted of one rule. A rule keeps it as long
// as its id is in use, whatever else of it changes, and an hour longer.
type count struct {
	forwarded, rejected       metric.Counter
	deferred                  metric.Counter // refused, and to be delivered later
	unavailable               metric.Counter // rejected by nobody, as the store is unavailable
	shadowPass, shadowRefused metric.Counter
	shared, lacking           metric.Counter // requests without a part of the key, by what the rule does with them
	exempt                    metric.Counter // requests that the rule exempts
}

const (
	// countsMax bounds the rules that are counted by themselves, in the order of
	// the file; the others are counted together, as otherRules. To count the rules in
	// force, those of rules that are not are dropped.
	countsMax  = 1000
	otherRules = "other"
	// countsKept is how long the counts of a rule are shown after it was in force.
	countsKept = time.Hour
)

// shadowed counts what a rule that is not enforced would have done.
func (c *count) shadowed(ans *store.Answer) {
	switch {
	case len(ans.Decisions) == 0: // the store is away
	case ans.Granted > 0:
		c.shadowPass.Inc()
	default:
		c.shadowRefused.Inc()
	}
}

// A Book has the counts of one loop, and asks about what is tried there: rules in shadow
// and a candidate.
//
// Owned by its loop, which alone adds to the counts; mu guards the map against who
// scrapes.
type Book struct {
	tally   *Tally
	set     *rule.Set // that byIndex is for
	byIndex []*count
	board   *sketch.Board // of keys, by the same index

	store      Asking
	ask        store.Ask // memory for what is tried
	answer     store.Answer
	shadowings []*shadowing              // not in use
	candidates *count                    // nil: there was none yet
	candidacy  atomic.Pointer[candidacy] // the last; nil: there was none yet

	mu   sync.Mutex
	byID map[string]*count
}

// An Asking is [store.Lane.Ask] of the book's loop.
type Asking func(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool

// NewBook returns the book of one more loop. All are made before the first is used.
func (t *Tally) NewBook(ask Asking) *Book {
	b := &Book{tally: t, store: ask, byID: make(map[string]*count), board: sketch.NewBoard(KeysHalfLife, t.seed)}
	t.books = append(t.books, b)
	return b
}

// Keys returns which keys of a rule were seen most lately, and which refused most. Its loop
// calls it.
func (b *Book) Keys(now time.Time, id string) (busiest, refused sketch.View) {
	return b.board.View(now, id)
}

// touch notes the key that a rule has judged.
func (b *Book) touch(now time.Time, index int, key []byte, refused bool) {
	b.board.Touch(now, index+1, key, refused)
}

// of returns the count of the rule with that index in p, -1 for the global one.
func (b *Book) of(p *decide.Policy, index int) *count {
	if b.byIndex == nil || b.set != p.Rules {
		b.follow(p)
	}
	return b.byIndex[index+1]
}

// follow takes up the rules of a policy.
func (b *Book) follow(p *decide.Policy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := idsOf(p)
	b.board.SetRules(ids)
	b.makeRoom(ids)
	b.set, b.byIndex = p.Rules, b.byIndex[:0]
	for _, id := range ids {
		if b.byID[id] == nil && len(b.byID) >= countsMax {
			id = otherRules
		}
		if b.byID[id] == nil {
			b.byID[id] = new(count)
		}
		b.byIndex = append(b.byIndex, b.byID[id])
	}
}

// makeRoom drops the counts of rules that are not in force when those in force
// would exceed the bound with them. mu is held.
func (b *Book) makeRoom(ids []string) {
	kept := make(map[string]*count)
	all := len(b.byID)
	for _, id := range slices.Concat(ids, alwaysCounted) {
		if c := b.byID[id]; c != nil {
			kept[id] = c
		} else {
			all++
		}
	}
	if all > countsMax {
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

// Judged counts a decision for each rule that had a part in it.
func (b *Book) Judged(now time.Time, d *decide.Decided) {
	p, asked, ans := d.Policy, d.Asked, d.Answer
	if len(ans.Decisions) == 0 { // the store is away, and no rule has judged
		if ans.Granted > 0 {
			b.of(p, -1).forwarded.Inc()
		} else {
			b.of(p, -1).unavailable.Inc()
		}
		return
	}
	if candidate := b.tally.candidate.Load(); candidate != nil {
		b.tryCandidate(now, candidate, ans)
	}
	for i := range asked {
		took, refused := d.Judged(i)
		if !took {
			continue
		}
		c := b.of(p, asked[i].Index)
		if asked[i].Index >= 0 { // the global rule has one key
			b.touch(now, asked[i].Index, asked[i].Key, refused)
		}
		if asked[i].Lacks {
			c.shared.Inc()
		}
		switch {
		case d.Postponed: // see Postponed
		case refused:
			c.rejected.Inc()
		default:
			c.forwarded.Inc()
		}
	}
}

// Postponed counts a request that was to be delivered later, under the rule whose line it was
// for; stored: it is.
func (b *Book) Postponed(id string, stored bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.byID[id]
	if c == nil {
		c = b.byID[otherRules] // there are many, or the rule has gone meanwhile
	}
	switch {
	case c == nil:
	case stored:
		c.deferred.Inc()
	default:
		c.rejected.Inc()
	}
}
