package rule

import (
	"slices"
	"strings"
)

// overlaps refuses a file in which more rules could apply to one request than
// can be decided together.
//
// Two rules meet unless their methods, paths, hosts or conditions exclude each
// other. Rules that apply to one request all meet in pairs, so every file that is
// accepted is safe. A file is also refused when too many rules meet in pairs, but
// never all together.
func (j *judge) overlaps(s *Set) {
	most := HitsMax - (len(s.rules) - s.own)
	q := newOverlap(s.rules[:s.own], overlapWork)
	group := q.over(most)
	if group == nil {
		return
	}
	ids := make([]string, len(group))
	for i, r := range group {
		ids[i] = s.rules[r].ID
	}
	last := &s.rules[group[len(group)-1]]
	j.Fault(last.path, "must not be: the rules %s could all apply to one request, where at most %d may%s",
		strings.Join(ids, ", "), most, q.doubt())
}

// overlapWork bounds the search, in demands and pairs looked at. It takes less than
// a second.
const overlapWork = 10_000_000

// An overlap is a search for rules that could all apply to one request.
//
// A set of rules is split by what they demand on one axis, such as the method or
// the first segment of the path (see demands.go). Rules with different words on an
// axis never apply to the same request, so
//
//	bound(set) = the largest bound(rules with one word) + bound(rules without a word)
//
// is an upper bound. It takes time in proportion to the number of rules, and
// accepts nearly all files. Only where it is too large are the rules themselves
// searched for, and that search ends after a fixed amount of work.
//
// Owned by one call of overlaps.
type overlap struct {
	rules   []compiled
	demands [][]demand // of each rule
	words   []string   // by demand.word
	settled []bool     // axes that the rules looked at are split by already
	votes   []vote     // memory of choose, by axis
	left    int        // work that may still be done
}

// doubt returns words for the fault when the search was given up.
func (q *overlap) doubt() string {
	if q.left > 0 {
		return ""
	}
	return " (or too many rules overlap to find out)"
}

// over returns most+1 rules that all meet, in the order of the file; nil when
// there are none.
func (q *overlap) over(most int) []int {
	all := make([]int, len(q.rules))
	for i := range all {
		all[i] = i
	}
	return q.find(all, most+1)
}

// bound returns a number that no group of rules which all meet exceeds.
func (q *overlap) bound(rules []int) int {
	if len(rules) <= 1 {
		return len(rules)
	}
	axis := q.choose(rules)
	if axis == none {
		return len(rules)
	}
	parts, rest := q.split(rules, axis)
	q.settled[axis] = true
	defer func() { q.settled[axis] = false }()
	most := 0
	for i := range parts {
		most = max(most, q.bound(parts[i].rules))
	}
	return most + q.bound(rest)
}

// find returns want of the rules that all meet, or nil when there are none. When
// it gives up it returns want rules of which that is not known.
func (q *overlap) find(rules []int, want int) []int {
	if len(rules) < want {
		return nil
	}
	if q.left <= 0 {
		return rules[:want]
	}
	axis := q.choose(rules)
	if axis == none {
		return q.pairs(rules, want)
	}
	if q.bound(rules) < want {
		return nil
	}
	parts, rest := q.split(rules, axis)
	q.settled[axis] = true
	defer func() { q.settled[axis] = false }()
	without := q.bound(rest)
	for i := range parts {
		if q.bound(parts[i].rules)+without < want {
			continue
		}
		if found := q.find(q.with(&parts[i], rest, axis), want); found != nil {
			return found
		}
	}
	return q.find(rest, want)
}

// pairs is find for rules that no axis splits. Nearly all of them meet.
func (q *overlap) pairs(rules []int, want int) []int {
	if want == 0 {
		return []int{}
	}
	for i, r := range rules {
		if len(rules)-i < want {
			return nil
		}
		if q.left <= 0 {
			return rules[:want]
		}
		var with []int
		for _, other := range rules[i+1:] {
			if q.meet(r, other) {
				with = append(with, other)
			}
		}
		if found := q.pairs(with, want-1); found != nil {
			return append([]int{r}, found...)
		}
	}
	return nil
}

// meet says whether two rules could apply to one request.
func (q *overlap) meet(a, b int) bool {
	q.left--
	return q.rules[a].meets(&q.rules[b])
}

func (c *compiled) meets(other *compiled) bool {
	for i := range c.conditions {
		for k := range other.conditions {
			if !c.conditions[i].meets(&other.conditions[k]) {
				return false
			}
		}
	}
	return methodsMeet(c.Match.Methods, other.Match.Methods) &&
		c.pathOf.Meets(other.pathOf) && c.hostOf.Meets(other.hostOf)
}

func methodsMeet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) })
}
