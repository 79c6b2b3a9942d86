package rule

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// matchesByDefinition tries everything that ** may take.
func matchesByDefinition(segments []segment, text []byte, separator byte) bool {
	if len(segments) == 0 {
		return len(text) == 0
	}
	if segments[0].wild == wildAny && matchesByDefinition(segments[1:], text, separator) {
		return true
	}
	if len(text) == 0 {
		return false
	}
	first, rest := cut(text, separator)
	if segments[0].wild == wildAny {
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
		p, err := parsePattern(words(6, "a", "b", "*", "**", "**"), '.')
		if err != nil {
			t.Fatal(err)
		}
		text := []byte(words(7, "a", "a", "b", "")) // with empty ones, which hosts may have
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

// A long path is not tried segment by segment for each rule: that would hold up a
// loop for seconds.
func TestLongPathAndManyPatterns(t *testing.T) {
	for _, match := range []string{"path: /**/x%d", "path: /a/**/x%d", `host: "*.h%d.example", path: /**/x/**`} {
		var file strings.Builder
		file.WriteString("rules:\n")
		for i := range 3000 {
			fmt.Fprintf(&file, "  - {id: r%d, match: {"+match+"}, limit: {algorithm: fixed, limit: 1, window: 1}}\n", i, i)
		}
		set, err := Read([]byte(file.String()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := &HTTP{MethodText: []byte("GET"), Host: []byte("localhost"), Path: []byte("/a%2F;" + strings.Repeat("/a", 7000))}
		var x Scratch
		began := time.Now()
		if hits := set.Match(h, netip.Addr{}, &x); len(hits) != 0 {
			t.Errorf("%s: %d hits", match, len(hits))
		}
		took := time.Since(began)
		t.Logf("%s: %v", match, took)
		if took > 300*time.Millisecond { // it takes about 1 ms, and seconds if each rule tries every segment
			t.Errorf("%s: %v", match, took)
		}
	}
}
