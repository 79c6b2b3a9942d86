package rule

// An index finds the rules that may apply without looking at the others. Each
// rule is under the one thing it demands that tells most requests apart.
//
// Immutable after New.
type index struct {
	always []int
	paths  map[string][]int // the whole path, without its first slash
	firsts map[string][]int // the first segment of the path
	words  []wordIndex      // conditions
}

// A wordIndex has the rules that demand a value of one part.
type wordIndex struct {
	slot  int
	rules map[string][]int
}

func newIndex(rules []compiled) index {
	x := index{paths: make(map[string][]int), firsts: make(map[string][]int)}
	for i := range rules {
		c := &rules[i]
		switch p := c.pathOf; {
		case p != nil && p.exact:
			x.paths[p.literal] = append(x.paths[p.literal], i)
		case x.underWord(c, i):
		case p != nil && len(p.segments) > 0 && p.segments[0].wild == wildNot:
			x.firsts[p.segments[0].text] = append(x.firsts[p.segments[0].text], i)
		default:
			x.always = append(x.always, i)
		}
	}
	return x
}

// underWord puts a rule under the last word it demands: in a descriptor file the
// most nested one.
func (x *index) underWord(c *compiled, i int) bool {
	for k := len(c.conditions) - 1; k >= 0; k-- {
		if d := &c.conditions[k]; d.none == nil {
			rules := x.word(d.slot)
			rules[d.word] = append(rules[d.word], i)
			return true
		}
	}
	return false
}

func (x *index) word(slot int) map[string][]int {
	for _, w := range x.words {
		if w.slot == slot {
			return w.rules
		}
	}
	x.words = append(x.words, wordIndex{slot, make(map[string][]int)})
	return x.words[len(x.words)-1].rules
}

func (x *index) byPath() bool { return len(x.paths)+len(x.firsts) > 0 }
