package deploy

import (
	"regexp"
	"slices"
	"testing"
)

// Parts of PromQL that are not names of metrics: strings, labels, ranges and numbers. After their
// removal, names, functions and keywords are left.
var (
	texts      = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	aside      = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b\d[\w.]*|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	reserved   = []string{"and", "or", "unless", "bool", "offset", "inf", "nan"}
)

// metrics returns the names of metrics in an expression.
func metrics(expr string) (names []string) {
	expr = aside.ReplaceAllString(texts.ReplaceAllString(expr, `""`), " ")
	for _, word := range identifier.FindAllString(expr, -1) {
		if word[len(word)-1] != '(' {
			if name := regexp.MustCompile(`\s+$`).ReplaceAllString(word, ""); !slices.Contains(reserved, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func TestMetrics(t *testing.T) {
	f := func(expr string, want ...string) {
		t.Helper()
		if have := metrics(expr); !slices.Equal(have, want) {
			t.Errorf("%s: have %q, want %q", expr, have, want)
		}
	}
	f(`up`, "up")
	f(`sum by (job, le) (rate(a_bucket{x="y", z=~"a{b}\"c"}[5m])) / on (job) group_left (x) b:c1 > 0.5`, "a_bucket", "b:c1")
	f(`a or vector(0) and time() - max(d > 0) unless e offset 5m`, "a", "d", "e")
	f(`histogram_quantile(0.99, sum(h_bucket))`, "h_bucket")
	f(`sum (x) without (y) + 1e3`, "x")
}
