package pattern

// OverlapStepsMax bounds the work of [FindOverlap] for one file: the number of demands and pairs that it
// examines. This much work takes less than a second.
const OverlapStepsMax = 10_000_000

// An Overlap is the result of a search for more rules that could apply to one request than can be
// decided together.
//
// Two rules meet unless their methods, paths, hosts or conditions exclude each other. If several
// rules apply to one request, each two of them meet. So a set of rules is safe if no more than the
// allowed number of rules meet in pairs. The reverse does not hold: FindOverlap may return rules that
// meet in pairs although no request matches them all.
type Overlap struct {
	Rules []int // indexes of rules that all meet, ascending, or nil
	Sure  bool  // false: the search was given up, and the rules may not meet
	Work  int   // in the unit of OverlapStepsMax
}

// FindOverlap searches for most+1 rules that all meet, and gives up after the given work.
func FindOverlap(rules []Rule, most, work int) Overlap {
	q := newSearch(rules, work)
	all := make([]int, len(rules))
	for i := range all {
		all[i] = i
	}
	found := q.find(all, most+1)
	return Overlap{Rules: found, Sure: q.left > 0, Work: work - q.left}
}

// A search searches for rules that could all apply to one request.
//
// A set of rules is split by their demands on one axis, such as the method or the first
// segment of the path. Rules with different words on an axis never apply to the same
// request, so
//
//	bound(set) = the largest bound(rules with one word) + bound(rules without a word)
//
// is an upper bound. It takes time in proportion to the number of rules, and is low enough
// for nearly all files. Only if it exceeds the allowed number, the rules are searched; that
// search ends after a fixed amount of work.
//
// Owned by one call of FindOverlap.
type search struct {
	rules   []Rule
	demands [][]demand // by rule
	words   []string   // by demand.word
	settled []bool     // by axis: the current rules have been split by it
	votes   []vote     // by axis: scratch memory of choose
	left    int        // remaining work
}

// bound returns an upper bound on how many of the rules all meet.
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

// find returns as many rules as wanted that all meet, or nil if there are none. When it
// gives up, it returns as many that may or may not meet.
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

// pairs is find for rules that no axis splits, of which nearly all meet.
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
			if q.left--; q.rules[r].Overlaps(&q.rules[other]) {
				with = append(with, other)
			}
		}
		if found := q.pairs(with, want-1); found != nil {
			return append([]int{r}, found...)
		}
	}
	return nil
}
