package rule

import (
	"slices"

	"weir/proxy/rules/keys"
)

// This file is about requests in which targets could read different values of a part, see
// [keys.Interpretations]. A condition holds if it holds for one of the values, and a request counts under
// each of the keys that they make.

// A several has the interpretations of a part.
type several struct {
	slot int
	many bool // there are more than all has
	n    int
	all  [keys.InterpretationsMax]keys.Interpretation
}

// readPart looks up a field, a cookie or a parameter.
func (x *Scratch) readPart(slot int) {
	x.read.Memory = x.memory
	x.request.Read(&x.parts[slot], &x.read)
	x.memory = x.read.Memory
	v, all := &x.values[slot], x.read.All()
	v.text, v.present = all[0].Text, all[0].Present
	if len(all) == 1 {
		return
	}
	one := several{slot: slot, many: x.read.TooMany(), n: len(all)}
	copy(one.all[:], all)
	x.several = append(x.several, one)
	v.several = true
	if one.many {
		v.many, v.text, v.present = true, nil, false
	}
}

// severalOf returns the interpretations of a slot, or nil if there is only one.
func (x *Scratch) severalOf(slot int) *several {
	for i := range x.several {
		if s := &x.several[i]; s.slot == slot {
			return s
		}
	}
	return nil
}

// interpretationsOf returns the interpretations of a slot, or nil if there is only one.
func (x *Scratch) interpretationsOf(slot int) []keys.Interpretation {
	if s := x.severalOf(slot); s != nil {
		return s.all[:s.n]
	}
	return nil
}

// holdsInOne reports whether a condition on a part with several interpretations holds for one of them.
// Of more interpretations than are known, one may be any.
func (x *Scratch) holdsInOne(c *condition, v value) bool {
	return v.many || v.several && slices.ContainsFunc(x.interpretationsOf(c.Slot), func(r keys.Interpretation) bool {
		return c.holds(value{text: r.Text, present: r.Present})
	})
}

// tryInterpretations tries the rules filed under the interpretations of a part.
func (s *Set) tryInterpretations(x *Scratch, w *wordIndex) {
	v := x.value(w.slot)
	switch {
	case v.many:
		for _, rules := range w.rules {
			if s.tryAll(x, rules); len(x.matched)+len(x.unclear) > MatchedRulesMax {
				return // the request is refused
			}
		}
	case v.several:
		for _, r := range x.interpretationsOf(w.slot) {
			if r.Present {
				s.tryAll(x, w.rules[string(r.Text)])
			}
		}
	case v.present:
		s.tryAll(x, w.rules[string(v.text)])
	}
}

// isUnclear reports whether a part of the rule's key has several interpretations.
func (c *compiled) isUnclear(x *Scratch) bool {
	return slices.ContainsFunc(c.key, func(slot int) bool { return x.value(slot).several })
}

// hitEach adds the matches of rules whose keys have parts with several interpretations: one for each key, as
// long as the request has at most [MatchedRulesMax]. Otherwise these parts count as missing.
func (s *Set) hitEach(x *Scratch) {
	slices.Sort(x.unclear)
	room := MatchedRulesMax - len(x.matched) - len(x.unclear)
	for _, i := range x.unclear {
		c := &s.rules[i]
		n := c.keysIn(x)
		if n-1 > room {
			s.hitMissing(x, i)
			continue
		}
		before := len(x.matched)
		for k := range n {
			if c.choose(x, k) {
				s.hit(x, i)
			}
		}
		room -= max(0, len(x.matched)-before-1)
	}
}

// keysIn returns how many keys a request has in the rule.
func (c *compiled) keysIn(x *Scratch) int {
	n := 1
	for _, slot := range c.key {
		if v := &x.values[slot]; v.several && !v.many {
			n *= len(x.interpretationsOf(slot))
		}
	}
	return n
}

// choose sets the values of the parts of the key to those of its k-th combination, and reports
// whether the rule applies to it.
func (c *compiled) choose(x *Scratch, k int) bool {
	for _, slot := range c.key {
		v := &x.values[slot]
		if !v.several || v.many {
			continue
		}
		all := x.interpretationsOf(slot)
		v.text, v.present, v.secret = all[k%len(all)].Text, all[k%len(all)].Present, nil
		k /= len(all)
		for i := range c.conditions {
			if d := &c.conditions[i]; d.Slot == slot && !d.holds(*v) {
				return false
			}
		}
	}
	return true
}

// hitMissing adds a match in whose key the parts with several interpretations are missing.
func (s *Set) hitMissing(x *Scratch, i int) {
	key := s.rules[i].key
	for _, slot := range key {
		if v := &x.values[slot]; v.several {
			v.present, v.many = false, true
		}
	}
	s.hit(x, i)
	for _, slot := range key {
		if v := &x.values[slot]; v.several {
			v.many = x.severalOf(slot).many
		}
	}
}

// costOf returns the cost of a request, the largest one if targets could read several.
func (c *compiled) costOf(x *Scratch) int64 {
	method := x.request.MethodText
	cost := c.Cost.of(method, x.field(c.cost))
	for _, r := range x.interpretationsOf(c.cost) {
		cost = max(cost, c.Cost.of(method, r.Text))
	}
	return cost
}

// shareIn returns what a rule keeps back from the request, see [compiled.shareOf]: the most, if
// the request has several classes because it can be read in several ways. believes says whether
// the request's field counts.
func (s *Set) shareIn(x *Scratch, c *compiled, class int, believes bool) int64 {
	var field []byte
	if believes {
		field = x.field(c.priority)
	}
	share := c.shareOf(class, field)
	if len(x.several) == 0 {
		return share
	}
	if believes {
		for _, r := range x.interpretationsOf(c.priority) {
			share = max(share, c.shareOf(class, r.Text))
		}
	}
	for i := range x.matched {
		if h := &x.matched[i]; slices.Contains(x.unclear, h.Index) && h.Rule.Clients {
			share = max(share, c.shareOf(h.class(), field))
		}
	}
	return share
}
