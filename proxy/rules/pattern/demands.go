package pattern

import (
	"slices"
)

// An axis is a property of requests by which rules exclude each other. A request has at
// most one value of it.
type axis struct {
	kind axisKind
	at   int // slot, or segment
}

type axisKind uint8

const (
	axisMethod     axisKind = iota
	axisPart                // the value of a part, by slot
	axisPathFirst           // a segment of the path, counted from the beginning
	axisPathLast            // a segment of the path, counted from the end
	axisPathLength          // the number of segments
	axisHostFirst           // likewise for the labels of the host
	axisHostLast
	axisHostLength
)

// A demand is what a rule requires on an axis: one word, or any word except some. A rule
// with several methods has a demand for each and requires one of them. On every other axis
// a rule has at most one demand.
type demand struct {
	axis, word int
	others     *ValueSet // if not nil, all words but these
}

// none stands for no axis, or for no word.
const none = -1

// wordEnd stands for the end of a path or host, where there is no segment.
const wordEnd = 0

// newSearch returns a search among rules that does at most the given work.
func newSearch(rules []Rule, work int) *search {
	d := demander{axes: make(map[axis]int), ids: make(map[string]int), words: []string{""}}
	q := &search{rules: rules, left: work, demands: make([][]demand, len(rules))}
	for i := range rules {
		q.demands[i] = d.of(&rules[i])
	}
	q.words = d.words
	q.settled, q.votes = make([]bool, len(d.axes)), make([]vote, len(d.axes))
	return q
}

// A demander numbers axes and words.
//
// Owned by one call of newSearch.
type demander struct {
	axes  map[axis]int
	ids   map[string]int
	words []string
	list  []demand
}

// of returns the demands of a rule.
func (d *demander) of(r *Rule) []demand {
	d.list = nil
	for _, method := range r.Methods {
		d.add(axisMethod, 0, d.word(method))
	}
	for i := range r.Conditions {
		if k := &r.Conditions[i]; k.None == nil {
			d.add(axisPart, k.Slot, d.word(k.Word))
		}
	}
	for i := range r.Conditions {
		if k := &r.Conditions[i]; k.None != nil {
			d.add(axisPart, k.Slot, wordEnd)
			d.list[len(d.list)-1].others = k.None
		}
	}
	d.pattern(r.Path, axisPathFirst)
	d.pattern(r.Host, axisHostFirst)
	once := d.list[:0]
	for _, one := range d.list {
		twice := slices.ContainsFunc(once, func(e demand) bool { return e.axis == one.axis })
		if !twice || one.axis == d.axes[axis{kind: axisMethod}] && len(r.Methods) > 0 {
			once = append(once, one)
		}
	}
	return once
}

// pattern adds the demands of a pattern on the axes kind, kind+1 and kind+2.
func (d *demander) pattern(p *Pattern, kind axisKind) {
	if p == nil {
		return
	}
	segments := p.Segments()
	n := len(segments)
	fixed := true
	for i := range n {
		if fixed = fixed && segments[i].Wild != WildAny; !fixed {
			break
		}
		d.segment(kind, i, &segments[i])
	}
	for i := range n {
		s := &segments[n-1-i]
		if s.Wild == WildAny {
			break
		}
		d.segment(kind+1, i, s)
	}
	if fixed {
		d.add(kind, n, wordEnd)
		d.add(kind+1, n, wordEnd)
		d.add(kind+2, 0, n)
	}
}

func (d *demander) segment(kind axisKind, at int, s *Segment) {
	if s.Wild == WildNone {
		d.add(kind, at, d.word(s.Text))
	}
}

func (d *demander) add(kind axisKind, at, word int) {
	a := axis{kind, at}
	i, ok := d.axes[a]
	if !ok {
		i = len(d.axes)
		d.axes[a] = i
	}
	d.list = append(d.list, demand{axis: i, word: word})
}

func (d *demander) word(text string) int {
	i, ok := d.ids[text]
	if !ok {
		i = len(d.words)
		d.ids[text] = i
		d.words = append(d.words, text)
	}
	return i
}

// A vote summarises the demands of some rules on an axis.
type vote struct {
	rules  int       // the rules with a demand
	word   int       // the first word, or none
	others *ValueSet // the first set of excluded words, or nil
	splits bool      // there are different words
}

func (v *vote) count(d *demand) {
	v.rules++
	switch {
	case d.others != nil && v.others == nil:
		v.others = d.others
	case d.others != nil:
	case v.word == none:
		v.word = d.word
	case v.word != d.word:
		v.splits = true
	}
}

// choose returns, of the axes that split the rules, the one on which most rules have
// demands. It returns none if no axis splits them.
func (q *search) choose(rules []int) int {
	var seen []int
	for _, r := range rules {
		q.left -= len(q.demands[r])
		for i := range q.demands[r] {
			d := &q.demands[r][i]
			if q.settled[d.axis] {
				continue
			}
			v := &q.votes[d.axis]
			if v.rules == 0 {
				seen = append(seen, d.axis)
				v.word = none
			}
			v.count(d)
		}
	}
	best, most := none, 0
	for _, a := range seen {
		v := q.votes[a]
		splits := v.splits || v.word != none && v.others != nil && v.others.has(q.words[v.word])
		if splits && v.rules > most {
			best, most = a, v.rules
		}
		q.votes[a] = vote{}
	}
	return best
}

// A branch contains the rules with one word on an axis. The branch with the word none
// contains the rules that exclude the words of all other branches.
type branch struct {
	word  int
	rules []int
}

// split groups rules by their words on an axis. The rest may meet rules of several
// branches.
func (q *search) split(rules []int, axis int) (parts []branch, rest []int) {
	var others []int
	by := make(map[int]int) // index in parts, by word
	for _, r := range rules {
		q.left -= len(q.demands[r])
		found := false
		for i := range q.demands[r] {
			d := &q.demands[r][i]
			if d.axis != axis {
				continue
			}
			found = true
			if d.others != nil {
				others = append(others, r)
				continue
			}
			at, ok := by[d.word]
			if !ok {
				at = len(parts)
				by[d.word] = at
				parts = append(parts, branch{word: d.word})
			}
			parts[at].rules = append(parts[at].rules, r)
		}
		if !found {
			rest = append(rest, r)
		}
	}
	apart := branch{word: none}
	takesNone := make(map[*ValueSet]bool) // none of the parts' words is allowed
	for _, r := range others {
		l := q.othersOf(r, axis)
		if _, known := takesNone[l]; !known {
			takesNone[l] = !slices.ContainsFunc(parts, func(b branch) bool { q.left--; return !l.has(q.words[b.word]) })
		}
		if takesNone[l] {
			apart.rules = append(apart.rules, r)
		} else {
			rest = append(rest, r)
		}
	}
	slices.Sort(rest)
	if len(apart.rules) > 0 {
		parts = append(parts, apart)
	}
	return parts, rest
}

// othersOf returns the words that a rule excludes on an axis, or nil if it allows all words
// or only one.
func (q *search) othersOf(r, axis int) *ValueSet {
	for i := range q.demands[r] {
		if d := &q.demands[r][i]; d.axis == axis {
			return d.others
		}
	}
	return nil
}

// with returns the rules of a branch and those of the rest that could meet them.
func (q *search) with(b *branch, rest []int, axis int) []int {
	q.left -= len(rest)
	all := slices.Clone(b.rules)
	for _, r := range rest {
		if l := q.othersOf(r, axis); l == nil || b.word == none || !l.has(q.words[b.word]) {
			all = append(all, r)
		}
	}
	slices.Sort(all)
	return all
}
