package rule

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/limit"
)

// A Hit is a rule that applies to a request: what to ask the store for.
type Hit struct {
	Rule  *Rule
	Index int          // of the rule in the Set
	Key   []byte       // what is counted apart within the rule: see [AppendPart]
	Limit *limit.Limit // the client's own, else the rule's
	Cost  int64        // ≥ 1
	// Reserve is how many permits must be left: kept back from the request's class.
	Reserve int64
	// MaxDelay is how long leaky may hold the request; 0: as long as its queue is.
	MaxDelay time.Duration
	own      *client // the entry of the client file, when the rule looks there
}

// Match returns the rules that apply to a request, in the order of the file, the
// built-in one for clients last; at most [HitsMax]. client is the address of the
// client, behind what trusted proxies say; the zero Addr is a missing one. The
// hits are parts of the scratch and the head: they mean something until either
// is used again.
func (s *Set) Match(h *http1.Head, client netip.Addr, x *Scratch) []Hit {
	x.begin(s.parts, h, client)
	for _, i := range s.index.always {
		s.try(x, i)
	}
	if s.index.byPath() {
		path := x.pathOf()[1:]
		for _, i := range s.index.paths[string(path)] {
			s.try(x, i)
		}
		first, _ := cut(path, '/')
		for _, i := range s.index.firsts[string(first)] {
			s.try(x, i)
		}
	}
	for k := range s.index.words {
		w := &s.index.words[k]
		if v := x.value(w.slot); v.present {
			for _, i := range w.rules[string(v.text)] {
				s.try(x, i)
			}
		}
	}
	slices.SortFunc(x.hits, func(a, b Hit) int { return a.Index - b.Index })
	s.share(x)
	return x.hits
}

// try adds a hit when a rule applies.
func (s *Set) try(x *Scratch, i int) {
	c := &s.rules[i]
	if !c.takesMethod(x.head.MethodText) {
		return
	}
	for k := range c.conditions {
		if !c.conditions[k].holds(x.value(c.conditions[k].slot)) {
			return
		}
	}
	if c.pathOf != nil && !c.pathOf.matches(x.pathOf()[1:]) || c.hostOf != nil && !c.hostOf.matches(x.hostOf()) {
		return
	}
	hit := Hit{Rule: &c.Rule, Index: i, Limit: &c.limit, MaxDelay: c.delay}
	if c.Clients && s.clients != nil {
		hit.own = s.lookUp(x, c.key[0])
	}
	if hit.own != nil {
		hit.Limit, hit.Cost = &c.limits[hit.own.limit], int64(hit.own.cost)
	} else if !c.limited {
		return
	}
	if hit.Cost == 0 {
		hit.Cost = c.Cost.of(x.head.MethodText, x.field(c.cost))
	}
	hit.Key = x.key(c.key)
	x.hits = append(x.hits, hit)
}

func (c *compiled) takesMethod(method []byte) bool {
	for _, m := range c.Match.Methods {
		if m == string(method) {
			return true
		}
	}
	return len(c.Match.Methods) == 0
}

// lookUp finds the client that a part's value names; nil when the file has none
// such.
func (s *Set) lookUp(x *Scratch, slot int) *client {
	v := x.value(slot)
	if !v.present {
		return nil
	}
	return s.clients.find(v.text)
}

// key returns the key of parts.
func (x *Scratch) key(slots []int) []byte {
	for _, slot := range slots { // values may be appended to the same memory
		x.value(slot)
	}
	start := len(x.memory)
	for _, slot := range slots {
		if v := x.value(slot); v.present {
			x.memory = AppendPart(x.memory, v.text)
		} else {
			x.memory = AppendMissing(x.memory)
		}
	}
	return x.memory[start:]
}

// AppendPart appends a value as a part of a key: its length, a colon, itself.
// No two lists of parts give the same key, and the empty value is not the
// missing one. The key of a rule with the key global is empty.
func AppendPart(dst, text []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(len(text)), 10)
	return append(append(dst, ':'), text...)
}

// AppendMissing appends the part of all requests that lack the value.
func AppendMissing(dst []byte) []byte { return append(dst, '-') }

// share says of each hit what is kept back from the request. The priority of
// the client's entry, by whichever rule it was found, goes before the field in
// every rule that has such a class.
func (s *Set) share(x *Scratch) {
	class := none
	for i := range x.hits {
		if own := x.hits[i].own; own != nil && own.class != 0 {
			class = int(own.class) - 1
			break
		}
	}
	for i := range x.hits {
		hit := &x.hits[i]
		c := &s.rules[hit.Index]
		share := int64(0)
		switch {
		case c.shares == nil:
			continue
		case class != none && c.clients[class] >= 0:
			share = c.clients[class]
		default:
			share = c.share(x.field(c.priority))
		}
		// A limit of one permit has no share to keep back: the class would never pass.
		hit.Reserve = min(hit.Limit.Reserve(share), max(0, hit.Limit.Burst()-1))
	}
}
