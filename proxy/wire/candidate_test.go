package wire

import (
	"fmt"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
)

func limitOf(t *testing.T, permits int64) *limit.Limit {
	t.Helper()
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: century.Seconds()}))(t)
	return &l
}

// tried fails unless the candidate admits so many permits, and has admitted and
// refused so many requests, of which the limit in force has admitted and refused so
// many.
func (r *rig) tried(want string) {
	r.t.Helper()
	c := r.Tally.Candidate()
	if got := fmt.Sprint(c.Config.Limit, c.Admitted, c.Refused, c.Enforced.Admitted, c.Enforced.Refused); got != want {
		r.t.Errorf("of the candidate: %s, want %s", got, want)
	}
}

// The candidate is asked about every request, and refuses none. Its counts are separate.
func TestCandidate(t *testing.T) {
	r := serve(t, echoes, "RATE_LIMIT_LIMIT", "5")
	r.play(`GET / -> 200`)
	if _, there := r.samples()[ruleMetric("candidate", "forwarded")]; there {
		t.Error("a candidate is counted that nobody has set")
	}
	r.tried("0 0 0 0 0")
	r.Tally.SetCandidate(limitOf(t, 2))
	r.tried("2 0 0 0 0")
	r.play(`
		4 x GET / -> 200
		2 x GET / -> 429`)
	r.tried("2 2 4 4 2")
	r.Tally.SetCandidate(limitOf(t, 3)) // takes over what was consumed
	r.tried("3 0 0 0 0")
	r.play(`2 x GET / -> 429`)
	r.tried("3 1 1 0 2")
	r.Tally.SetCandidate(nil)
	r.play(`GET / -> 429`)
	r.tried("0 0 0 0 0")
	r.metrics(`candidate.shadow_forwarded=3 candidate.shadow_rejected=5 candidate.forwarded=0
		candidate.rejected=0 global.forwarded=5 global.rejected=5`)
}

// What another rule refuses is charged to no rule, nor to the candidate.
func TestCandidateBesideRules(t *testing.T) {
	rules := ruleFile(t, `rules: [{id: tight, match: {path: "/tight"}, limit: {algorithm: fixed, limit: 2, window: C}}]`)
	r := serve(t, echoes, "RULES_FILE", rules, "RATE_LIMIT_LIMIT", "5")
	r.Tally.SetCandidate(limitOf(t, 4))
	r.play(`
		2 x GET /tight -> 200
		8 x GET /tight -> 429`)
	r.tried("4 2 0 2 0")
	r.play(`
		3 x GET /other -> 200
		GET /other -> 429`)
	r.tried("4 4 2 5 1")
	r.play(`GET /tight -> 429`) // both refuse
	r.tried("4 4 2 5 1")
}
