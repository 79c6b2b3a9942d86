package serve

import (
	"strings"
	"testing"

	"weir/advisor/core"
	"weir/advisor/policy"
	"weir/internal/test/testkit"
)

// Refused snapshots are logged in one line per reason.
func TestVoice(t *testing.T) {
	log := new(testkit.Log)
	v := &resultLog{log: log.Logger()}
	v.say()
	for range 1000 {
		v.refuse(core.Old, "the last one")
	}
	v.refuse(core.Doubtful, "far away")
	v.refuse(core.Failed, "a stack")
	v.say()
	v.say()
	text := log.String()
	for _, want := range []string{
		`level=WARN msg="Snapshots refused" why=old count=1000 latest="the last one"`,
		`level=WARN msg="Snapshots not learned from" why=doubtful count=1 latest="far away"`,
		`level=ERROR msg="Internal error of the advisor, limits stay unchanged" count=1 stack="a stack"`,
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the log has not once %s:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n != 3 {
		t.Errorf("the log has %d lines, want 3", n)
	}
}

// Each change of the recommendation is logged, up to a number per second.
func TestVoiceOfChanges(t *testing.T) {
	log := new(testkit.Log)
	v := &resultLog{log: log.Logger()}
	c := &core.Change{
		At: monday, From: policy.Limit{Algorithm: "sliding", Limit: 1000, Window: 60}, Reason: "forecast=50 req/s",
		To: policy.Limit{Algorithm: "token", Capacity: 200, FillRate: 50}, Confidence: 0.456,
	}
	for range changesPerPause + 7 {
		v.changed(c)
	}
	v.say()
	v.changed(c)
	text := log.String()
	want := `msg="Recommendation changed: algorithm=token, limit from 16.67/s to 50/s, capacity=200, fillRate=50, reason: forecast=50 req/s" at=2026-01-19T00:00:00.000Z confidence=0.46`
	if n := strings.Count(text, want); n != changesPerPause+1 {
		t.Errorf("%d changes are told, want %d:\n%s", n, changesPerPause+1, text)
	}
	if !strings.Contains(text, `msg="Further changes of recommendations" count=7`) {
		t.Errorf("the rest is not told:\n%s", text)
	}
	for _, c := range []struct {
		limit policy.Limit
		want  string
	}{
		{policy.Limit{Algorithm: "off"}, "off"}, {policy.Limit{Algorithm: "quantum"}, "quantum, limit=0, window=0"},
		{policy.Limit{Algorithm: "gcra", Limit: 1, Window: 3}, "0.3333/s, limit=1, window=3"},
	} {
		if got := perSecond(c.limit) + parameters(c.limit); got != c.want {
			t.Errorf("%+v is told as %s, want %s", c.limit, got, c.want)
		}
	}
}
