package rule

import "strings"

// An index finds the rules that may apply without trying all of them. Each rule is filed
// in one place: of those that it can be found by, the one that it shares with the fewest
// rules.
//
// Immutable after New.
type index struct {
	always   []int
	paths    map[string][]int // by whole path, without its first slash
	prefixes map[string][]int // by the first segments of the path
	depth    int              // most segments of a prefix
	hosts    map[string][]int
	words    []wordIndex // conditions
}

// A wordIndex has the rules that require a value of one part.
type wordIndex struct {
	slot  int
	rules map[string][]int
}

// A place is where a rule can be filed.
type place struct {
	kind placeKind
	slot int // of placeWord
	text string
}

type placeKind uint8

const (
	placePath placeKind = iota
	placeWord
	placeHost
	placePrefix
)

func newIndex(rules []compiled) index {
	x := index{paths: make(map[string][]int), prefixes: make(map[string][]int), hosts: make(map[string][]int)}
	shared := make(map[place]int)
	for i := range rules {
		for _, p := range rules[i].places() {
			shared[p]++
		}
	}
	for i := range rules {
		places := rules[i].places()
		if len(places) == 0 {
			x.always = append(x.always, i)
			continue
		}
		best := places[0]
		for _, p := range places[1:] {
			if shared[p] < shared[best] {
				best = p
			}
		}
		x.add(best, i)
	}
	return x
}

// places returns where a rule can be filed. If equally many rules share several places,
// the first is used: in a descriptor file that of the most nested word.
func (c *compiled) places() (places []place) {
	if text, ok := c.pathOf.Literal(); ok {
		places = append(places, place{placePath, 0, text})
	}
	for k := len(c.conditions) - 1; k >= 0; k-- {
		if d := &c.conditions[k]; d.None == nil {
			places = append(places, place{placeWord, d.Slot, d.Word})
		}
	}
	if text, ok := c.hostOf.Literal(); ok {
		places = append(places, place{placeHost, 0, text})
	}
	if text := c.pathOf.Prefix(); text != "" {
		places = append(places, place{placePrefix, 0, text})
	}
	return places
}

func (x *index) add(p place, i int) {
	in := x.paths
	switch p.kind {
	case placeWord:
		in = x.word(p.slot)
	case placeHost:
		in = x.hosts
	case placePrefix:
		in = x.prefixes
		x.depth = max(x.depth, 1+strings.Count(p.text, "/"))
	}
	in[p.text] = append(in[p.text], i)
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
