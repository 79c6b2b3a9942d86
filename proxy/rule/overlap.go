package rule

import "strings"

// overlaps refuses a file in which more rules could apply to one request than
// can be decided together.
//
// Two rules meet unless their methods, paths, hosts or conditions exclude each
// other. Rules that apply to one request all meet in pairs, so the search is for
// too many rules that do. It is right about what it accepts; it may refuse rules
// that meet in pairs but never all together, such as those for [GET, PUT], [PUT,
// POST] and [POST, GET].
func (j *judge) overlaps(s *Set) {
	most := HitsMax - (len(s.rules) - s.own)
	own := make([]int, s.own)
	for i := range own {
		own[i] = i
	}
	q := overlap{rules: s.rules, left: overlapWork}
	group := q.find(own, most+1)
	if group == nil {
		return
	}
	ids := make([]string, len(group))
	for i, r := range group {
		ids[i] = s.rules[r].ID
	}
	last := &s.rules[group[len(group)-1]]
	j.fault(last.line, last.path, "must not be: the rules %s could all apply to one request, where at most %d may%s",
		strings.Join(ids, ", "), most, q.doubt())
}

// overlapWork bounds the search, in pairs looked at; it takes seconds at most.
const overlapWork = 200_000_000

// An overlap is a search for rules that could all apply to one request.
type overlap struct {
	rules []compiled
	left  int // pairs that may still be looked at
}

// doubt says so when the search was given up.
func (q *overlap) doubt() string {
	if q.left > 0 {
		return ""
	}
	return " (or too many rules overlap to find out)"
}

// find returns want of the rules that all meet in pairs, or nil when there are
// none. When it gives up it returns want rules of which that is not known.
func (q *overlap) find(rules []int, want int) []int {
	if want == 0 {
		return []int{}
	}
	heads := q.apart(rules, want)
	if len(heads) < want {
		return nil
	}
	if q.left <= 0 {
		return heads[:want]
	}
	for i, r := range rules {
		if len(rules)-i < want {
			return nil
		}
		var with []int
		for _, other := range rules[i+1:] {
			if q.meet(r, other) {
				with = append(with, other)
			}
		}
		if len(with) < want-1 {
			continue
		}
		if found := q.find(with, want-1); found != nil {
			return append([]int{r}, found...)
		}
	}
	return nil
}

// apart sorts rules into groups within which no two meet, each into the first
// where it fits, and returns the first rule of each group. Of those that apply
// to one request each is in a group of its own: there are at most as many as
// groups. It stops at want.
func (q *overlap) apart(rules []int, want int) (heads []int) {
	var groups [][]int
	for _, r := range rules {
		fits := none
		for g := range groups {
			if q.meetsNone(r, groups[g]) {
				fits = g
				break
			}
		}
		if fits != none {
			groups[fits] = append(groups[fits], r)
			continue
		}
		groups = append(groups, []int{r})
		if heads = append(heads, r); len(heads) == want {
			break
		}
	}
	return heads
}

func (q *overlap) meetsNone(r int, group []int) bool {
	for _, other := range group {
		if q.meet(r, other) {
			return false
		}
	}
	return true
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
		c.pathOf.meets(other.pathOf) && c.hostOf.meets(other.hostOf)
}

func methodsMeet(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	for _, m := range a {
		for _, n := range b {
			if m == n {
				return true
			}
		}
	}
	return false
}
