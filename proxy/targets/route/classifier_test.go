package route

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/proxy/rules/rule"
	"weir/proxy/rules/rule/ruletest"
	"weir/proxy/targets/gate"
)

// The rule with the longest path names the route, and keeps its number as long as there
// is a rule with its id.
func TestRoutes(t *testing.T) {
	const plain, plan, host, api, report = "id: plain", "id: plan, match: {headers: {X-Plan: free}}",
		"id: host, match: {host: a.example}",
		"id: api, match: {path: /api/**}", "id: report, match: {path: /api/report}"
	set := ruletest.Set(t, plain, plan, host, api, report)
	r := new(Classifier).NewLoopClassifier()
	for _, test := range []struct {
		ids  string
		same string // the one that names the route
	}{
		{"", ""}, {"plain", ""}, {"plain plan", "plan"}, {"plan host", "host"}, {"host api", "api"},
		{"plain plan host api report", "report"},
	} {
		got := r.NumberOf(set, ruletest.Hits(set, strings.Fields(test.ids)...))
		want := r.NumberOf(set, ruletest.Hits(set, test.same))
		if got != want || (got == 0) != (test.same == "") {
			t.Errorf("%q: route %d, want %d, that of %q", test.ids, got, want, test.same)
		}
	}
	before := r.NumberOf(set, ruletest.Hits(set, "api"))
	shorter := ruletest.Set(t, "id: new, match: {path: /new}", "id: api, match: {path: /v2/**}")
	if after, other := r.NumberOf(shorter, ruletest.Hits(shorter, "api")),
		r.NumberOf(shorter, ruletest.Hits(shorter, "new")); after != before || other == before || other == 0 {
		t.Errorf("api was route %d and is %d; a new rule is %d", before, after, other)
	}
}

// However many rules and methods there are, there are no more classes; the routes that
// are asked most have one to themselves, whenever they came, and keep it.
func TestRouteClasses(t *testing.T) {
	var lines, ids []string
	for i := range 400 {
		ids = append(ids, fmt.Sprint("r", i))
		lines = append(lines, fmt.Sprintf("id: r%d, match: {path: /r%d}", i, i))
	}
	set := ruletest.Set(t, lines...)
	for seed := range uint64(20) {
		r := new(Classifier).NewLoopClassifier()
		rng := rand.New(rand.NewPCG(seed, 1))
		numbers := make([]uint16, len(ids))
		for i, id := range ids {
			numbers[i] = r.NumberOf(set, ruletest.Hits(set, id))
			r.Class(numbers[i], http1.GET, 200) // each once
		}
		busy := rng.Perm(routesMax)[:8]
		for range 40_000 {
			i := rng.IntN(len(ids))
			if rng.IntN(4) > 0 {
				i = busy[rng.IntN(len(busy))]
			}
			if c := r.Class(numbers[i], http1.Method(rng.IntN(10)), 200+rng.IntN(400)); c < 0 || c >= gate.LatencyClasses {
				t.Fatalf("class %d", c)
			}
		}
		owner := make(map[int]int)
		for _, i := range busy {
			c := r.Class(numbers[i], http1.POST, 200)
			if other, taken := owner[c]; taken || c == gate.LatencyClasses-1 {
				t.Errorf("seed %d: POST of the busy route %d has class %d, like route %d", seed, i, c, other)
			}
			owner[c] = i
		}
	}
}

// Queries about a resource, and changes of it, are in other classes than reading it.
func TestRouteKinds(t *testing.T) {
	r := new(Classifier).NewLoopClassifier()
	reads, writes, asks := r.Class(0, http1.GET, 200), r.Class(0, http1.POST, 200), r.Class(0, http1.HEAD, 200)
	if reads == writes || writes == asks || reads == asks {
		t.Errorf("GET, POST and HEAD have the classes %d, %d, %d", reads, writes, asks)
	}
	for _, test := range []struct {
		method http1.Method
		status int
		want   int
	}{
		{http1.GET, 404, reads}, {http1.GET, 304, asks}, {http1.OPTIONS, 204, asks}, {http1.HEAD, 500, asks},
		{http1.PUT, 201, writes}, {http1.DELETE, 204, writes}, {http1.PATCH, 200, writes},
		{http1.MethodOther, 200, writes}, {http1.POST, 0, writes},
	} {
		if got := r.Class(0, test.method, test.status); got != test.want {
			t.Errorf("%v answered %d is of class %d, want %d", test.method, test.status, got, test.want)
		}
	}
}

// Rules that come and go leave no class behind that can no longer be used.
func TestRoutesOfNewRules(t *testing.T) {
	r := new(Classifier).NewLoopClassifier()
	for round := range 100 {
		var lines []string
		for i := range 300 {
			lines = append(lines, fmt.Sprintf("id: r%d-%d, match: {path: /%d}", round, i, i))
		}
		set := ruletest.Set(t, lines...)
		first := r.NumberOf(set, ruletest.Hits(set, fmt.Sprintf("r%d-0", round)))
		if first == 0 {
			t.Fatalf("round %d: the first rule has no route", round)
		}
		if c := r.Class(first, http1.GET, 200); c == gate.LatencyClasses-1 {
			t.Fatalf("round %d: the only route asked shares the last class", round)
		}
	}
}

// Loops agree about routes and classes, in whichever order they see requests and new rules.
func TestLoopsAgree(t *testing.T) {
	before := ruletest.Set(t, "id: a, match: {path: /a}", "id: b, match: {path: /b}")
	after := ruletest.Set(t, "id: c, match: {path: /c}", "id: b, match: {path: /b}")
	var classifier Classifier
	first, second := classifier.NewLoopClassifier(), classifier.NewLoopClassifier()
	classes := func(l *LoopClassifier, set *rule.Set, ids ...string) (list []int) {
		for _, id := range ids {
			list = append(list, l.Class(l.NumberOf(set, ruletest.Hits(set, id)), http1.GET, 200))
		}
		return list
	}
	a := classes(first, before, "a", "b")
	if b := classes(second, before, "b", "a"); a[0] == a[1] || b[0] != a[1] || b[1] != a[0] {
		t.Errorf("a and b have the classes %d on one loop, b and a %d on the other", a, b)
	}
	c := classes(first, after, "c", "b")
	_ = classes(second, before, "a", "b") // as it does until its next request
	if d := classes(second, after, "c", "b"); c[0] != d[0] || c[1] != d[1] || c[0] == c[1] || c[1] != a[1] {
		t.Errorf("c and b have the classes %d on one loop, %d on the other, after %d for a and b", c, d, a)
	}
	// What one loop is asked often takes the class of what another was asked once.
	var table2 Classifier
	first, second = table2.NewLoopClassifier(), table2.NewLoopClassifier()
	const last = gate.LatencyClasses - 1
	for n := range uint16(gate.LatencyClasses) {
		first.Class(n, http1.GET, 200)
	}
	if c := first.Class(last, http1.GET, 200); c != last {
		t.Fatalf("the last has class %d", c)
	}
	for range 10 * askAfter {
		second.Class(last, http1.GET, 200)
	}
	for range askAfter {
		first.Class(last, http1.GET, 200)
	}
	if a, b := first.Class(last, http1.GET, 200), second.Class(last, http1.GET, 200); a != b || a == last {
		t.Errorf("the busiest has the classes %d and %d", a, b)
	}
}

func TestRoutesDoNotAllocate(t *testing.T) {
	set := ruletest.Set(t, "id: a, match: {path: /a}", "id: b, match: {path: /b}")
	matched := ruletest.Hits(set, "a", "b")
	r := new(Classifier).NewLoopClassifier()
	r.Class(r.NumberOf(set, matched), http1.GET, 200)
	if n := testing.AllocsPerRun(1000, func() { r.Class(r.NumberOf(set, matched), http1.GET, 200) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
