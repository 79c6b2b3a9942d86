package gates

import (
	"fmt"
	"slices"
	"testing"

	"weir/proxy/rules/rule"
	"weir/proxy/rules/rule/ruletest"
)

// Classes have the names of the rules, keep their numbers when rules change, and are
// bounded.
func TestPriorityClasses(t *testing.T) {
	var names MetricClasses
	c := names.NewLoop()
	name := func(set *rule.Set, rank int, ids ...string) string {
		n := c.ClassOf(set, rank, ruletest.Hits(set, ids...))
		return names.list()[n]
	}
	set := ruletest.Set(t, "id: plain", "id: tiers, priority: {classes: {gold: 0, silver: 0.2}, default: silver}")
	for _, test := range []struct {
		rank int
		ids  []string
		want string
	}{
		{0, nil, "default"}, {0, []string{"plain"}, "default"}, {0, []string{"plain", "tiers"}, "gold"},
		{1, []string{"tiers"}, "silver"},
	} {
		if got := name(set, test.rank, test.ids...); got != test.want {
			t.Errorf("rank %d of %v is %q, want %q", test.rank, test.ids, got, test.want)
		}
	}
	nameless := ruletest.Set(t, `id: tiers, priority: {classes: {"": 0, silver: 0.2}, default: silver}`)
	if got := []string{name(nameless, 0, "tiers"), name(nameless, 1, "tiers")}; !slices.Equal(got,
		[]string{"default", "silver"}) {
		t.Errorf("with one without a name they are %q", got)
	}
	before := names.list()
	later := ruletest.Set(t, "id: tiers, priority: {classes: {platinum: 0, silver: 0.5}, default: silver}")
	if got := []string{name(later, 0, "tiers"), name(later, 1, "tiers")}; !slices.Equal(got,
		[]string{"platinum", "silver"}) {
		t.Errorf("of other rules they are %q", got)
	}
	for i, was := range before {
		if was != "" && names.list()[i] != was {
			t.Errorf("class %d was %q and is %q", i, was, names.list()[i])
		}
	}
	for round := range 10 {
		set := ruletest.Set(t, fmt.Sprintf(
			"id: r, priority: {classes: {a%d: 0, b%d: 0.1, c%d: 0.2, d%d: 0.3}, default: a%d}", round, round, round, round,
			round))
		for rank := range 4 {
			if n := c.ClassOf(set, rank, ruletest.Hits(set, "r")); n >= ClassesMax {
				t.Fatalf("class %d", n)
			}
		}
	}
	list := names.list()
	if unique := slices.Compact(slices.Sorted(slices.Values(list))); len(unique) != ClassesMax ||
		list[classOthers] != "other" {
		t.Errorf("the classes are %q", list)
	}
	if n := testing.AllocsPerRun(100, func() { c.ClassOf(set, 0, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
