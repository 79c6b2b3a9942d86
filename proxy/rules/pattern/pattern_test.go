package pattern

import (
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// matchesByDefinition tries every number of segments for each **.
func matchesByDefinition(segments []Segment, text []byte, separator byte) bool {
	if len(segments) == 0 {
		return len(text) == 0
	}
	if segments[0].Wild == WildAny && matchesByDefinition(segments[1:], text, separator) {
		return true
	}
	if len(text) == 0 {
		return false
	}
	first, rest := cut(text, separator)
	if segments[0].Wild == WildAny {
		return matchesByDefinition(segments, rest, separator)
	}
	return segments[0].takes(first) && matchesByDefinition(segments[1:], rest, separator)
}

func TestWalkAsDefined(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	words := func(most int, of ...string) string {
		list := make([]string, chance.IntN(most+1))
		for i := range list {
			list[i] = of[chance.IntN(len(of))]
		}
		return strings.Join(list, ".")
	}
	matched := 0
	for range 200_000 {
		p := testkit.Must(parse(words(6, "a", "b", "*", "**", "**"), '.'))(t)
		text := []byte(words(7, "a", "a", "b", "")) // also empty segments, which hosts may have
		want := matchesByDefinition(p.segments, text, '.')
		if got := p.walk(text); got != want {
			t.Fatalf("%+v matches %q: %t, want %t", p.segments, text, got, want)
		}
		if want {
			matched++
		}
	}
	if matched < 10_000 {
		t.Errorf("only %d match", matched)
	}
}
