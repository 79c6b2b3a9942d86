package rule

import "testing"

// A search that is given up refuses, and says that it is in doubt.
func TestOverlapInDoubt(t *testing.T) {
	rules := make([]compiled, 12)
	for i := range rules { // each meets all others but one
		rules[i].conditions = []condition{{slot: i / 2, word: string(rune('a' + i%2))}}
	}
	list := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	if q := (overlap{rules: rules, left: overlapWork}); q.find(list, 7) != nil || q.doubt() != "" {
		t.Error("six pairs of rules that exclude each other are seven that could apply")
	}
	if q := (overlap{rules: rules, left: overlapWork}); len(q.find(list, 6)) != 6 {
		t.Error("of six pairs of rules that exclude each other six do not apply")
	}
	if q := (overlap{rules: rules, left: 0}); len(q.find(list, 6)) != 6 || q.doubt() == "" {
		t.Error("a search that is given up finds nothing, or is sure")
	}
}
