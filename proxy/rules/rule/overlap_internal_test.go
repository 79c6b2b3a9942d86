package rule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/data/strict"
	"weir/proxy/rules/pattern"
)

// rulesOf returns the rules of a file, whatever overlaps in it.
func rulesOf(t testing.TB, text string) []compiled {
	t.Helper()
	j := judge{Reader: new(strict.Reader)}
	s := &Set{}
	if j.File([]byte(text), fileBytesMax) && given(j.Root, "domain") {
		_, s.rules = j.descriptors()
	} else if j.Root != nil {
		s.rules = j.rules()
	}
	if err := j.Err(); err != nil {
		t.Fatalf("%v in\n%.2000s", err, text)
	}
	s.assign()
	return s.rules
}

// fileOf returns a file of rules with these matches; N is a rule's number.
func fileOf(n int, matches ...string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		match := strings.NewReplacer("N", fmt.Sprint(i), "M", fmt.Sprint(i/100)).Replace(matches[i%len(matches)])
		fmt.Fprintf(&b, "  - {id: r%d, match: {%s}, limit: {algorithm: fixed, limit: 1, window: 1}}\n", i, match)
	}
	return b.String()
}

// keysOf returns a descriptor file of n entries of eight keys, bare ones too.
func keysOf(n int) string {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range n {
		value := fmt.Sprintf("value: v%d, ", i/8)
		if i < 8 {
			value = ""
		}
		fmt.Fprintf(&b, "  - {key: k%d, %srate_limit: {unit: day, requests_per_unit: 1}}\n", i%8, value)
	}
	return b.String()
}

// A search that is given up refuses, and says that it is in doubt.
func TestOverlapInDoubt(t *testing.T) {
	var matches []string
	for i := range 12 { // each meets all others but one
		matches = append(matches, fmt.Sprintf("headers: {X-%d: %d}", i/2, i%2))
	}
	text := fileOf(12, matches...)
	rules := demands(rulesOf(t, text))
	for _, c := range []struct {
		what             string
		most, work, want int
		sure             bool
	}{
		{"more than six", 6, pattern.OverlapStepsMax, 0, true},
		{"more than five", 5, pattern.OverlapStepsMax, 6, true},
		{"more than five, given up at once", 5, 0, 6, false},
	} {
		if found := pattern.FindOverlap(rules, c.most, c.work); len(found.Rules) != c.want || found.Sure != c.sure {
			t.Errorf("%s: of six pairs that exclude each other %d apply, sure %t; want %d, %t", c.what, len(found.Rules),
				found.Sure, c.want, c.sure)
		}
	}
}

// What the search says is what trying all groups of rules says.
func TestOverlapAsTryingAll(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	pick := func(words ...string) string { return words[chance.IntN(len(words))] }
	none, some := 0, 0
	for range 1_000 {
		var matches []string
		for range 3 + chance.IntN(8) {
			var path strings.Builder
			for range 1 + chance.IntN(4) {
				path.WriteString("/" + pick("a", "b", "*", "**"))
			}
			matches = append(matches, strings.Join([]string{
				pick("path: "+path.String(), "path: "+path.String(), "path: /", "headers: {}"),
				pick("methods: [GET, PUT]", "methods: [GET]", "methods: [PUT, POST]", "methods: [POST, GET]"),
				pick("host: a.example", `host: "*.example"`, `host: "**"`, `host: "**.a.example"`),
			}, ", "))
			if !strings.Contains(matches[len(matches)-1], "headers") {
				matches[len(matches)-1] += ", " + pick("headers: {X: a}", "headers: {X: b}", "headers: {Y: a, X: b}", "headers: {}")
			}
		}
		text := fileOf(len(matches), matches...)
		rules := demands(rulesOf(t, text))
		most := 1 + chance.IntN(4)
		group := pattern.FindOverlap(rules, most, pattern.OverlapStepsMax).Rules
		switch {
		case group == nil && tryAll(rules, nil, 0, most+1):
			t.Fatalf("%d rules could apply, and none are found:\n%s", most+1, text)
		case group != nil && (len(group) != most+1 || !slices.IsSorted(group) || !allMeet(rules, group)):
			t.Fatalf("the rules %v do not meet:\n%s", group, text)
		case group == nil:
			none++
		default:
			some++
		}
	}
	if none < 100 || some < 100 {
		t.Errorf("%d files were accepted and %d refused: not a test of both", none, some)
	}
}

// tryAll reports whether want rules from first on join group, so that all meet and
// have a method in common.
func tryAll(rules []pattern.Rule, group []int, first, want int) bool {
	if len(group) == want {
		return slices.ContainsFunc([]string{"GET", "PUT", "POST"}, func(method string) bool {
			return !slices.ContainsFunc(group, func(r int) bool { return !takesMethod(&rules[r], method) })
		})
	}
	for r := first; r < len(rules); r++ {
		if with := append(slices.Clone(group), r); allMeet(rules, with) && tryAll(rules, with, r+1, want) {
			return true
		}
	}
	return false
}

func takesMethod(r *pattern.Rule, method string) bool {
	return r.Methods == nil || slices.Contains(r.Methods, method)
}

func allMeet(rules []pattern.Rule, group []int) bool {
	for i, a := range group {
		for _, b := range group[i+1:] {
			if !rules[a].Overlaps(&rules[b]) {
				return false
			}
		}
	}
	return true
}

// largeFiles are files of any number of rules, and how many rules of each meet.
var largeFiles = []struct {
	name string
	file func(n int) string
	meet int // at most this many; 0: more than may
}{
	{"prefixes", func(n int) string { return fileOf(n, "path: /api/N/**") }, 1},
	{"one path", func(n int) string { return fileOf(n, "path: /api, headers: {X-Tenant: tN}") }, 1},
	{"tenants", func(n int) string {
		return fileOf(n, "host: tN.example.com, path: /api/**", "host: tN.example.com, methods: [GET, HEAD]",
			`host: "*.tN.example.com"`)
	}, 1},
	{"tenants' paths", func(n int) string {
		return fileOf(n, "host: tM.example.com, path: /vN/**", "host: tM.example.com, path: '/*/N'",
			"host: tM.example.com, methods: [POST, PUT]")
	}, 0},
	{"nested paths",
		func(n int) string { return fileOf(n, "path: /M/**", "path: /M/N/**", "path: /M/N", "path: /M/*/N") }, 0},
	{"suffixes", func(n int) string { return fileOf(n, "path: /**/N", "path: /a/**/N/x") }, 1},
	{"grid", func(n int) string { return fileOf(n, "headers: {A: aN}", "path: /N", "host: hN.example") }, 3},
	{"descriptors", keysOf, 8},
	{"all requests", func(n int) string { return fileOf(n, "headers: {}") }, 0},
	{"one prefix", func(n int) string { return fileOf(n, "path: /api/**") }, 0},
	{"words in the middle", func(n int) string { return fileOf(n, "path: /a/**/N/**/b") }, 0},
	{"all methods", func(n int) string {
		return fileOf(n, "methods: [GET, PUT, POST, HEAD, PATCH, DELETE], path: /N",
			"methods: [GET, PUT, POST, HEAD], headers: {A: aN}")
	}, 2},
}

// The work grows with the number of rules and not faster, and no file takes more
// than the bound.
func TestOverlapWork(t *testing.T) {
	for _, test := range largeFiles {
		work := func(n int) int {
			most := max(test.meet, MatchedRulesMax)
			found := pattern.FindOverlap(demands(rulesOf(t, test.file(n))), most, pattern.OverlapStepsMax)
			if (found.Rules == nil) != (test.meet > 0) || !found.Sure {
				t.Errorf("%s: of %d rules could apply %+v, want %d", test.name, n, found, test.meet)
			}
			return found.Work
		}
		few, many := work(500), work(2_000)
		if many > 5*few {
			t.Errorf("%s: four times the rules are %.1f times the work: %d and %d", test.name, float64(many)/float64(few),
				few, many)
		}
	}
}

// A file made to be hard to judge is refused within the bound.
func TestOverlapWorkIsBounded(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 8))
	matches := make([]string, 2_000)
	for i := range matches { // nearly no two meet, and no field tells many apart
		var words []string
		for _, f := range chance.Perm(32)[:12] {
			words = append(words, fmt.Sprintf("F%d: %d", f, chance.IntN(2)))
		}
		matches[i] = "headers: {" + strings.Join(words, ", ") + "}"
	}
	found := pattern.FindOverlap(demands(rulesOf(t, fileOf(len(matches), matches...))), MatchedRulesMax,
		pattern.OverlapStepsMax)
	if step := len(matches) * 12 * 8; found.Work > pattern.OverlapStepsMax+step || found.Rules == nil || found.Sure {
		t.Errorf("found %+v", found)
	}
}

// The largest number of rules is read, and one more is refused with the number.
func TestRulesMax(t *testing.T) {
	read := func(n int) error {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"id":"r%d","match":{"path":"/%d"},"limit":{"algorithm":"fixed","limit":1,"window":1}}`, i, i)
		}
		_, err := Read([]byte(`{"rules":[`+b.String()[1:]+`]}`), Options{})
		return err
	}
	if err := read(rulesMax); err != nil {
		t.Errorf("%d rules: %v", rulesMax, err)
	}
	err := read(rulesMax + 1)
	if want := fmt.Sprintf("line 1: rules: must be at most %d rules, is %d", rulesMax, rulesMax+1); err == nil ||
		err.Error() != want {
		t.Errorf("have %v, want %s", err, want)
	}
}

func BenchmarkOverlap(b *testing.B) {
	for _, bench := range largeFiles {
		text := bench.file(rulesMax)
		b.Run(bench.name, func(b *testing.B) {
			rules := demands(rulesOf(b, text))
			for b.Loop() {
				pattern.FindOverlap(rules, max(bench.meet, MatchedRulesMax), pattern.OverlapStepsMax)
			}
		})
	}
}

// A request is compared with few rules, however many there are.
func TestIndexTellsRulesApart(t *testing.T) {
	const n = 500
	for _, matches := range [][]string{
		{"path: /api/N"}, {"path: /api/N/**"}, {"path: /api/N/*/x"}, {"path: /api, headers: {X-Tenant: tN}"},
		{"host: tN.example.com"}, {"host: tN.example.com, path: /api/**"}, {"host: tN.example.com, path: /api/login"},
		{"path: /api/vN/**, headers: {X-Plan: free}"}, {"headers: {A: aN}", "path: /N", "host: hN.example"},
	} {
		x := newIndex(rulesOf(t, fileOf(n, matches...)))
		most := len(x.always)
		for _, in := range append([]map[string][]int{x.paths, x.prefixes, x.hosts}, x.all()...) {
			for _, rules := range in {
				most = max(most, len(rules))
			}
		}
		if most != 1 {
			t.Errorf("%s: of %d rules %d are in one place", matches, n, most)
		}
	}
}

// all returns the rules by word of all parts.
func (x *index) all() (words []map[string][]int) {
	for _, w := range x.words {
		words = append(words, w.rules)
	}
	return words
}
