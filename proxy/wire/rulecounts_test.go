package wire

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"weir/proxy/decide"
	"weir/proxy/limit"
	"weir/proxy/rule"
)

// policyOf returns a policy with n rules beside the global one, called prefix0 and
// so on.
func policyOf(t *testing.T, prefix string, n int) *decide.Policy {
	t.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"id":"%s%d","match":{"path":"/%d"},"limit":{"algorithm":"off"}}`, prefix, i, i))
	}
	set, err := rule.Read([]byte(`{"rules":[`+strings.Join(list, ",")+`]}`), rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := limit.New(limit.Config{Algorithm: limit.Off})
	if err != nil {
		t.Fatal(err)
	}
	return decide.NewPolicy(rule.Global, l).With(set, prefix)
}

// So many rules are counted by themselves, and the others together. Those that are
// gone make room.
func TestRuleCountsAreBounded(t *testing.T) {
	b := newRuleBook(maphash.MakeSeed())
	counts := func(p *decide.Policy, rules, want int, wantOther uint64) {
		t.Helper()
		for i := range rules {
			b.of(p, i).forwarded.Inc()
		}
		other := uint64(0)
		if c := b.byID[otherRules]; c != nil {
			other = c.forwarded.Load()
		}
		if len(b.byID) != want || other != wantOther {
			t.Errorf("with %d rules %d are counted, and %d of the others; want %d and %d", rules, len(b.byID), other, want, wantOther)
		}
	}
	const all = ruleCountsMax - 1 // and the global one
	counts(policyOf(t, "a", all), all, ruleCountsMax, 0)
	counts(policyOf(t, "b", 5), 5, 1+5, 0) // there was no room for both
	counts(policyOf(t, "c", 5), 5, 1+5+5, 0)
	counts(policyOf(t, "d", all+1), all+1, ruleCountsMax+1, 1)
	counts(policyOf(t, "d", all+7), all+7, ruleCountsMax+1, 1+7)
	if n := b.byID["d0"].forwarded.Load(); n != 2 {
		t.Errorf("a rule that stays was counted %d times, want 2", n)
	}
}

// The counts of a rule are told for an hour after it was in force.
func TestCountsOfGoneRules(t *testing.T) {
	r := startRules(t, `rules: [{id: old, match: {path: /old}, limit: {algorithm: off}}, {id: stays, limit: {algorithm: off}}]`)
	conn := r.dial()
	conn.Send(request("/old"))
	conn.Status(200)
	with, without := r.cfg.Policy(), policyOf(t, "new", 1)
	var gone departures
	now := time.Now()
	told := func(at time.Duration, p *decide.Policy, want bool) {
		t.Helper()
		gone.drop(now.Add(at), r.Front, p)
		totals := r.ruleTotals()
		if _, told := totals["old"]; told != want {
			t.Errorf("%v: the rule is told: %v", at, told)
		}
		if _, told := totals["global"]; !told {
			t.Errorf("%v: a rule in force is not told", at)
		}
	}
	told(0, without, true)
	told(ruleCountsKept-time.Second, without, true)
	told(ruleCountsKept, with, true)
	told(ruleCountsKept+time.Second, without, true)
	told(2*ruleCountsKept, without, true)
	told(2*ruleCountsKept+time.Second, without, false)
	if _, told := r.ruleTotals()["stays"]; told {
		t.Error("the other rule is told")
	}
}
