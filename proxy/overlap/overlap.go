// Package overlap finds out whether more rules could apply to one request than can be
// decided together.
//
// Two rules meet unless their methods, paths, hosts or conditions exclude each
// other. Rules that apply to one request all meet in pairs, so a set in which no more
// than the allowed number of rules meet is safe. [Find] may also return rules that meet
// in pairs, but never all together.
package overlap

// WorkMax is a bound on the work of [Find] for one file, in demands and pairs looked at.
// It takes less than a second.
const WorkMax = 10_000_000

// A Found is the result of a search.
type Found struct {
	Rules []int // indexes of rules that all meet, ascending, or nil
	Sure  bool  // false: the search was given up, and it is unknown whether the rules meet
	Work  int   // the work done
}

// Find looks for most+1 rules that all meet, and gives up after the given work.
func Find(rules []Rule, most, work int) Found {
	q := newSearch(rules, work)
	all := make([]int, len(rules))
	for i := range all {
		all[i] = i
	}
	found := q.find(all, most+1)
	return Found{Rules: found, Sure: q.left > 0, Work: work - q.left}
}

// A search looks for rules that could all apply to one request.
//
// A set of rules is split by what they demand on one axis, such as the method or
// the first segment of the path (see demand). Rules with different words on an
// axis never apply to the same request, so
//
//	bound(set) = the largest bound(rules with one word) + bound(rules without a word)
//
// is an upper bound. It takes time in proportion to the number of rules, and
// accepts nearly all files. Only where it is too large are the rules themselves
// searched for, and that search ends after a fixed amount of work.
//
// Owned by one call of Find.
type search struct {
	rules   []Rule
	demands [][]demand // by rule
	words   []string   // by demand.word
	settled []bool     // axes that the current rules have been split by
	votes   []vote     // scratch memory of choose, by axis
	left    int        // remaining work
}

// bound returns an upper bound on the size of any group of rules that all meet.
func (q *search) bound(rules []int) int {
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

// find returns want of the rules that all meet, or nil if there are none. When it gives
// up, it returns want rules that may or may not meet.
func (q *search) find(rules []int, want int) []int {
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
func (q *search) pairs(rules []int, want int) []int {
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

// meet reports whether two rules could apply to one request.
func (q *search) meet(a, b int) bool {
	q.left--
	return q.rules[a].Meets(&q.rules[b])
}
