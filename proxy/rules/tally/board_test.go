package tally

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func ids(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint("rule ", i))
	}
	return list
}

// tell returns the rankings of a rule: "a=2 b=1 / b=1".
func tell(b *TopKeys, rule string) string {
	busiest, refused := b.Ranking(epoch, rule)
	var words []string
	for _, v := range []Ranking{busiest, refused} {
		for _, e := range v.Entries {
			words = append(words, fmt.Sprintf("%s=%d", e.Key, e.Count))
		}
		words = append(words, "/")
	}
	return strings.Join(words[:len(words)-1], " ")
}

// Rules are known by their ids, wherever they move to.
func TestBoard(t *testing.T) {
	b := NewTopKeys(time.Minute, seed)
	b.SetRules([]string{"one", "two"})
	touch := func(i int, key string, refused bool) { b.Observe(epoch, i, []byte(key), refused) }
	touch(0, "a", false)
	touch(0, "a", false)
	touch(0, "b", true)
	touch(1, "c", true)
	b.SetRules([]string{"three", "one"})
	touch(0, "d", false)
	touch(1, "b", true)
	for rule, want := range map[string]string{"one": "a=2 b=2 / b=2", "two": "/", "three": "d=1 /", "": "/"} {
		got := tell(b, rule)
		if rule == "one" {
			got = strings.Replace(got, "b=2 a=2", "a=2 b=2", 1) // equals have no order
		}
		if got != want {
			t.Errorf("rule %s: %s, want %s", rule, got, want)
		}
	}
}

// The counters of all rules together are bounded, and so is the number of rules
// that have some.
func TestBoardBound(t *testing.T) {
	b := NewTopKeys(time.Minute, seed)
	for _, n := range []int{1, 32, 33, 100, watchedMax, watchedMax + 1, 10_000} {
		b.SetRules(ids(n))
		for i := range n {
			b.Observe(epoch, i, []byte("k"), true)
		}
		counters, seen := 0, 0
		for _, w := range b.rules {
			if w.busiest != nil {
				seen++
				counters += w.busiest.Size() + w.refused.Size()
			}
		}
		if want := min(n, watchedMax); seen != want {
			t.Errorf("of %d rules %d are watched, want %d", n, seen, want)
		}
		if counters > 4*countersMax {
			t.Errorf("%d rules have %d counters", n, counters)
		}
	}
	if got := tell(b, "rule 0"); !strings.HasPrefix(got, "k=") {
		t.Errorf("rule 0 was given up: %s", got)
	}
	b.SetRules(nil)
	if b.watched != 0 {
		t.Errorf("%d rules watched, and there is none", b.watched)
	}
}
