package wire

import (
	"net/http"

	"weir/internal/http1"
	"weir/proxy/gate"
	"weir/proxy/rule"
)

// routes tells requests apart by how long they are likely to take: by the rule that
// says most of where they go, and by what they do there. Gates know few classes of
// requests, so that what is asked often has a class to itself and the rest share the
// last one. What clients send adds no classes: rules do, which are configuration.
//
// Owned by its loop.
type routes struct {
	set     *rule.Set         // that byIndex is for
	byIndex []route           // of its rules
	byID    map[string]uint16 // numbers, from 1
	pairs   []routePair       // by number and kind
	owners  [gate.Classes - 1]*routePair
	seen    int // since all counts were halved
}

// A route is what a rule says of where requests go.
type route struct {
	number uint16 // 0: nothing
	weight uint16 // how much
}

// A routePair is a route and what is done there.
type routePair struct {
	seen  uint32
	class uint8
	known bool // it has a class
}

// What is done with a resource.
const (
	routeReads  = iota
	routeWrites // or may
	routeAsks   // is told about it and not sent it: HEAD, OPTIONS, 304
	routeKinds
)

const (
	// routesMax bounds the routes that are told apart: those of the first rules.
	routesMax = 255
	// routesForget is after how many answers each counts for half.
	routesForget = 1 << 20
)

// of returns the number of the route of a request to which these rules of a set apply.
func (r *routes) of(set *rule.Set, hits []rule.Hit) uint16 {
	if len(hits) == 0 {
		return 0
	}
	if r.set != set {
		r.follow(set)
	}
	best := route{}
	for i := range hits {
		if to := r.byIndex[hits[i].Index]; to.weight > best.weight {
			best = to
		}
	}
	return best.number
}

// follow takes up the rules of a set. Those that had a number keep it, so that their
// requests stay in their classes.
func (r *routes) follow(set *rule.Set) {
	before := r.byID
	r.set, r.byIndex, r.byID = set, r.byIndex[:0], make(map[string]uint16)
	taken := make([]bool, routesMax+1)
	for i := range set.Len() {
		if n := before[set.Rule(i).ID]; n > 0 && weight(&set.Rule(i).Match) > 0 {
			r.byID[set.Rule(i).ID], taken[n] = n, true
		}
	}
	free := uint16(1)
	for i := range set.Len() {
		rl := set.Rule(i)
		to := route{weight: weight(&rl.Match)}
		if to.number = r.byID[rl.ID]; to.number == 0 && to.weight > 0 {
			for free <= routesMax && taken[free] {
				free++
			}
			if free > routesMax {
				to = route{}
			} else {
				to.number, taken[free] = free, true
				r.byID[rl.ID] = free
				r.drop(free)
			}
		}
		r.byIndex = append(r.byIndex, to)
	}
}

// drop forgets a route whose number another gets.
func (r *routes) drop(number uint16) {
	if r.pairs == nil {
		return
	}
	for kind := range routeKinds {
		p := &r.pairs[int(number)*routeKinds+kind]
		if p.known && p.class < gate.Classes-1 {
			r.owners[p.class] = nil
		}
		*p = routePair{}
	}
}

// weight is how much a match says of where a request goes: a path more than the rest, and
// a long one more than a short one.
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

// class returns the class of an answer of a route.
func (r *routes) class(number uint16, m http1.Method, status int) int {
	if r.pairs == nil {
		r.pairs = make([]routePair, (routesMax+1)*routeKinds)
	}
	p := &r.pairs[int(number)*routeKinds+kindOf(m, status)]
	p.seen++
	if r.seen++; r.seen >= routesForget {
		r.forget()
	}
	if !p.known || p.class == gate.Classes-1 && p.seen&(p.seen-1) == 0 {
		r.assign(p)
	}
	return int(p.class)
}

// assign gives p a class of its own: a free one, or that of the one seen least if p is
// seen twice as often. Else p shares the last.
func (r *routes) assign(p *routePair) {
	least := 0
	for i, owner := range r.owners {
		if owner == nil {
			least = i
			break
		}
		if owner.seen < r.owners[least].seen {
			least = i
		}
	}
	p.known = true
	if owner := r.owners[least]; owner != nil {
		if p.seen/2 < owner.seen {
			p.class = gate.Classes - 1
			return
		}
		owner.class = gate.Classes - 1
	}
	p.class, r.owners[least] = uint8(least), p
}

// forget halves all counts.
func (r *routes) forget() {
	for i := range r.pairs {
		r.pairs[i].seen /= 2
	}
	r.seen = 0
}

// kindOf is what was done.
func kindOf(m http1.Method, status int) int {
	switch {
	case m == http1.HEAD, m == http1.OPTIONS, status == http.StatusNotModified:
		return routeAsks
	case m == http1.GET, m == http1.TRACE:
		return routeReads
	}
	return routeWrites
}
