package tally

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
)

// policyOf returns a policy with n rules beside the global one, called prefix0 and
// so on.
func policyOf(t *testing.T, prefix string, n int) *decide.Policy {
	t.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"id":"%s%d","match":{"path":"/%d"},"limit":{"algorithm":"off"}}`, prefix, i, i))
	}
	set := testkit.Must(rule.Read([]byte(`{"rules":[`+strings.Join(list, ",")+`]}`), rule.Options{}))(t)
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Off}))(t)
	return decide.NewPolicy(l).With(set, prefix)
}

// A bounded number of rules is counted separately, and the others together. Removed rules make room.
func TestRuleCountsAreBounded(t *testing.T) {
	b := New(nil, nil).NewShard(nil)
	counts := func(p *decide.Policy, rules, want int, wantOther uint64) {
		t.Helper()
		for i := range rules {
			b.of(p, i)[forwarded].Inc()
		}
		other := uint64(0)
		if c := b.byID[otherRules]; c != nil {
			other = c[forwarded].Load()
		}
		if len(b.byID) != want || other != wantOther {
			t.Errorf("with %d rules %d are counted, and %d of the others; want %d and %d", rules, len(b.byID), other, want,
				wantOther)
		}
	}
	const all = countsMax - 1 // and the global one
	counts(policyOf(t, "a", all), all, countsMax, 0)
	counts(policyOf(t, "b", 5), 5, 1+5, 0) // there was no room for both
	counts(policyOf(t, "c", 5), 5, 1+5+5, 0)
	counts(policyOf(t, "d", all+1), all+1, countsMax+1, 1)
	counts(policyOf(t, "d", all+7), all+7, countsMax+1, 1+7)
	if n := b.byID["d0"][forwarded].Load(); n != 2 {
		t.Errorf("a rule that stays was counted %d times, want 2", n)
	}
}

// The counts of a rule are shown for an hour after it was in force.
func TestCountsOfGoneRules(t *testing.T) {
	with, without := policyOf(t, "old", 2), policyOf(t, "new", 1)
	var inForce *decide.Policy
	all := New(func() *decide.Policy { return inForce }, nil)
	for i := range 2 {
		all.NewShard(nil).of(with, i)[forwarded].Inc()
	}
	house := all.NewRefusalLogger()
	told := func(at time.Duration, p *decide.Policy, want bool) {
		t.Helper()
		inForce = p
		house.drop(time.Unix(1000, 0).Add(at))
		totals := all.totals()
		for _, id := range []string{"old0", "old1"} {
			if _, told := totals[id]; told != want {
				t.Errorf("%v: the rule %s is told: %v", at, id, told)
			}
		}
		if _, told := totals["global"]; !told {
			t.Errorf("%v: a rule in force is not told", at)
		}
	}
	told(0, without, true)
	told(countsKept-time.Second, without, true)
	told(countsKept, with, true)
	told(countsKept+time.Second, without, true)
	told(2*countsKept, without, true)
	told(2*countsKept+time.Second, without, false)
}

// The log says once that requests without a part of a rule's key share one limit, and each
// second how many a rule has refused, and why.
func TestHousekeeper(t *testing.T) {
	p := policyOf(t, "r", 2)
	log := new(testkit.Log)
	all := New(func() *decide.Policy { return p }, log.Logger())
	b, house := all.NewShard(nil), all.NewRefusalLogger()
	for second, step := range []struct {
		refused, shared, lacking, unavailable uint64
		want                                  []string
	}{
		{},
		{5, 1, 3, 0, []string{"limit exceeded\" rule=r0 count=5", "skip or refuse changes that\" rule=r0",
			"key is missing\" rule=r1 count=3"}},
		{},
		{2, 1, 0, 4, []string{"limit exceeded\" rule=r0 count=2", "STORE_FAILURE_MODE is closed\" count=4"}},
	} {
		b.of(p, 0)[rejected].Add(step.refused)
		b.of(p, 0)[shared].Add(step.shared)
		b.of(p, 1)[lacking].Add(step.lacking)
		b.of(p, -1)[unavailable].Add(step.unavailable)
		log.Reset()
		house.Tick(time.Unix(int64(second), 0))
		lines := log.Lines("level=WARN")
		if len(lines) != len(step.want) {
			t.Errorf("second %d: logged %q", second, lines)
			continue
		}
		for i, want := range step.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("second %d: logged %q, want %q", second, lines[i], want)
			}
		}
	}
}
