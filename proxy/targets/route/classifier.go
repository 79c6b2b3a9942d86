// Package route classifies requests by how long they are likely to take, for gates: the adaptive limits of
// how many requests are in flight to a target (package gate).
package route

import (
	"sync"

	"weir/internal/net/http1"
	"weir/proxy/rules/rule"
	"weir/proxy/targets/gate"
)

// A Classifier classifies requests by how long they are likely to take: by the matching rule
// that is most specific about where they go, and by what they do there. Gates have few
// classes, so frequent combinations get a class of their own and the rest share the last
// one. Clients cannot add classes: only rules do, which are configuration.
//
// Safe for concurrent use by LoopClassifiers. They share it because they share the gates, which learn
// by class.
type Classifier struct {
	mu     sync.Mutex
	byID   map[string]uint16             // numbers of routes, from 1
	pairs  [(routesMax + 1) * kinds]pair // by number and operation
	owners [gate.LatencyClasses - 1]*pair
	seen   int // answers since all counts were halved
}

// A LoopClassifier is what one loop knows of a Classifier.
//
// Owned by its loop.
type LoopClassifier struct {
	classifier *Classifier
	set        *rule.Set                              // the set that byIndex belongs to
	byIndex    []route                                // by index of its rules
	reported   [(routesMax + 1) * kinds]reportedClass // by number and operation
}

// A reportedClass is the class of a pair, as the Classifier last said.
type reportedClass struct {
	known bool
	class uint8
	seen  uint8 // answers since then
}

// A route is the part of a rule that determines where requests go.
type route struct {
	number uint16 // 0: nothing
	weight uint16 // how specific it is
}

// A pair is a route and an operation.
type pair struct {
	seen  uint32
	class uint8
	known bool // has a class of its own
}

// The operations on a resource.
const (
	reads  = iota
	writes // writes, or may write
	asks   // reads information about the resource without its content: HEAD, OPTIONS, 304
	kinds
)

const (
	// routesMax bounds the routes that are distinguished: those of the first rules.
	routesMax = 255
	// forgetAfter is the number of answers after which all counts are halved.
	forgetAfter = 1 << 20
	// askAfter is the number of answers of a pair after which a loop asks for its class again, so
	// that it seldom needs the lock.
	askAfter = 64

	notModified = 304
)

// NewLoopClassifier returns a LoopClassifier of t.
func (t *Classifier) NewLoopClassifier() *LoopClassifier { return &LoopClassifier{classifier: t} }

// NumberOf returns the route number of a request to which the given rules of a set apply.
func (l *LoopClassifier) NumberOf(set *rule.Set, matched []rule.MatchedRule) uint16 {
	if len(matched) == 0 {
		return 0
	}
	if l.set != set {
		l.set, l.byIndex, l.reported = set, l.classifier.follow(set), [len(l.reported)]reportedClass{}
	}
	best := route{}
	for i := range matched {
		if to := l.byIndex[matched[i].Index]; to.weight > best.weight {
			best = to
		}
	}
	return best.number
}

// follow returns the routes of a set's rules, by index. Rules that had a number keep it, so that
// their requests stay in their classes. Rules that no longer exist keep theirs until all numbers are
// in use, since a loop may still follow the previous set.
func (t *Classifier) follow(set *rule.Set) []route {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, ids := make([]route, set.Len()), make(map[string]bool)
	missing := 0
	for i := range list {
		rl := set.Rule(i)
		if list[i].weight = weight(&rl.Match); list[i].weight > 0 {
			ids[rl.ID] = true
			if t.byID[rl.ID] == 0 {
				missing++
			}
		}
	}
	var taken [routesMax + 1]bool
	full := len(t.byID)+missing > routesMax
	for id, n := range t.byID {
		if taken[n] = ids[id] || !full; !ids[id] {
			t.drop(n)
			if full {
				delete(t.byID, id)
			}
		}
	}
	if t.byID == nil {
		t.byID = make(map[string]uint16)
	}
	free := 1
	for i := range list {
		if list[i].weight == 0 {
			continue
		}
		id := set.Rule(i).ID
		if t.byID[id] == 0 {
			for free <= routesMax && taken[free] {
				free++
			}
			if free > routesMax {
				list[i] = route{}
				continue
			}
			t.byID[id], taken[free] = uint16(free), true
		}
		list[i].number = t.byID[id]
	}
	return list
}

// drop frees the classes of a route whose rule no longer exists.
func (t *Classifier) drop(number uint16) {
	for kind := range kinds {
		p := &t.pairs[int(number)*kinds+kind]
		if p.known && p.class < gate.LatencyClasses-1 {
			t.owners[p.class] = nil
		}
		*p = pair{}
	}
}

// weight returns how specific a match is about where a request goes: a path counts more
// than the rest, and a long one more than a short one.
func weight(m *rule.Match) uint16 {
	switch {
	case m.Path != "":
		return uint16(min(2+len(m.Path), 1<<15))
	case m.Host != "":
		return 2
	case len(m.Methods)+len(m.Headers) > 0:
		return 1
	}
	return 0
}

// Class returns the class of an answer on a route.
func (l *LoopClassifier) Class(number uint16, m http1.Method, status int) int {
	i := int(number)*kinds + kindOf(m, status)
	p := &l.reported[i]
	p.seen++
	if !p.known || p.seen >= askAfter {
		*p = reportedClass{known: true, class: l.classifier.class(i, uint32(p.seen))}
	}
	return int(p.class)
}

// Likely returns the class that an answer on a route is likely to have, as far as the loop knows
// it. It counts nothing.
func (l *LoopClassifier) Likely(number uint16, m http1.Method) int {
	return int(l.reported[int(number)*kinds+kindOf(m, 0)].class)
}

// class returns the class of a pair of which a number of answers more were seen.
func (t *Classifier) class(i int, more uint32) uint8 {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.pairs[i]
	p.seen += more
	if t.seen += int(more); t.seen >= forgetAfter {
		t.forget()
	}
	if !p.known || p.class == gate.LatencyClasses-1 {
		t.assign(p)
	}
	return p.class
}

// assign gives p a class of its own: a free one, or that of the pair seen least if p has
// been seen twice as often. Otherwise p shares the last class.
func (t *Classifier) assign(p *pair) {
	least := 0
	for i, owner := range t.owners {
		if owner == nil {
			least = i
			break
		}
		if owner.seen < t.owners[least].seen {
			least = i
		}
	}
	p.known = true
	if owner := t.owners[least]; owner != nil {
		if p.seen/2 < owner.seen {
			p.class = gate.LatencyClasses - 1
			return
		}
		owner.class = gate.LatencyClasses - 1
	}
	p.class, t.owners[least] = uint8(least), p
}

// forget halves all counts.
func (t *Classifier) forget() {
	for i := range t.pairs {
		t.pairs[i].seen /= 2
	}
	t.seen = 0
}

// kindOf returns the operation.
func kindOf(m http1.Method, status int) int {
	switch {
	case m == http1.HEAD, m == http1.OPTIONS, status == notModified:
		return asks
	case m == http1.GET, m == http1.TRACE:
		return reads
	}
	return writes
}
