// Package route classifies requests by how long they are likely to take, for gates.
package route

import (
	"weir/internal/http1"
	"weir/proxy/gate"
	"weir/proxy/rule"
)

// A Table classifies requests by how long they are likely to take: by the matching rule
// that is most specific about where they go, and by what they do there. Gates have few
// classes, so frequent combinations get a class of their own and the rest share the last
// one. Clients cannot add classes: only rules do, which are configuration.
//
// Owned by its loop.
type Table struct {
	set     *rule.Set                     // the set that byIndex belongs to
	byIndex []route                       // by index of its rules
	byID    map[string]uint16             // numbers, from 1
	pairs   [(routesMax + 1) * kinds]pair // by number and operation
	owners  [gate.Classes - 1]*pair
	seen    int // answers since all counts were halved
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

	notModified = 304
)

// Of returns the route number of a request to which the given rules of a set apply.
func (t *Table) Of(set *rule.Set, hits []rule.Hit) uint16 {
	if len(hits) == 0 {
		return 0
	}
	if t.set != set {
		t.follow(set)
	}
	best := route{}
	for i := range hits {
		if to := t.byIndex[hits[i].Index]; to.weight > best.weight {
			best = to
		}
	}
	return best.number
}

// follow takes over the rules of a new set. Rules that had a number keep it, so that
// their requests stay in their classes.
func (t *Table) follow(set *rule.Set) {
	before := t.byID
	t.set, t.byIndex, t.byID = set, t.byIndex[:0], make(map[string]uint16)
	taken := make([]bool, routesMax+1)
	for i := range set.Len() {
		if n := before[set.Rule(i).ID]; n > 0 && weight(&set.Rule(i).Match) > 0 {
			t.byID[set.Rule(i).ID], taken[n] = n, true
		}
	}
	free := uint16(1)
	for i := range set.Len() {
		rl := set.Rule(i)
		to := route{weight: weight(&rl.Match)}
		if to.number = t.byID[rl.ID]; to.number == 0 && to.weight > 0 {
			for free <= routesMax && taken[free] {
				free++
			}
			if free > routesMax {
				to = route{}
			} else {
				to.number, taken[free] = free, true
				t.byID[rl.ID] = free
				t.drop(free)
			}
		}
		t.byIndex = append(t.byIndex, to)
	}
}

// drop removes a route whose number is reused.
func (t *Table) drop(number uint16) {
	for kind := range kinds {
		p := &t.pairs[int(number)*kinds+kind]
		if p.known && p.class < gate.Classes-1 {
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
func (t *Table) Class(number uint16, m http1.Method, status int) int {
	p := &t.pairs[int(number)*kinds+kindOf(m, status)]
	p.seen++
	if t.seen++; t.seen >= forgetAfter {
		t.forget()
	}
	if !p.known || p.class == gate.Classes-1 && p.seen&(p.seen-1) == 0 {
		t.assign(p)
	}
	return int(p.class)
}

// assign gives p a class of its own: a free one, or that of the pair seen least if p has
// been seen twice as often. Otherwise p shares the last class.
func (t *Table) assign(p *pair) {
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
			p.class = gate.Classes - 1
			return
		}
		owner.class = gate.Classes - 1
	}
	p.class, t.owners[least] = uint8(least), p
}

// forget halves all counts.
func (t *Table) forget() {
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
