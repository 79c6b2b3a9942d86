package wire

import (
	"fmt"
	"hash/maphash"
	"testing"
	"time"

	"weir/proxy/decide"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis"
	"weir/proxy/store/simredis"
)

func limitOf(t *testing.T, permits int64) *limit.Limit {
	t.Helper()
	l, err := limit.New(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: century.Seconds()})
	if err != nil {
		t.Fatal(err)
	}
	return &l
}

// tried fails unless the candidate admits so many permits, and has admitted and
// refused so many requests, of which the limit in force has admitted and refused so
// many.
func (r *rig) tried(want string) {
	r.t.Helper()
	c := r.Candidate()
	if got := fmt.Sprint(c.Config.Limit, c.Admitted, c.Refused, c.Enforced.Admitted, c.Enforced.Refused); got != want {
		r.t.Errorf("of the candidate: %s, want %s", got, want)
	}
}

// The candidate is asked about every request, and refuses none. What is told of it is
// its own.
func TestCandidate(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "RATE_LIMIT_LIMIT", "5")
	conn := r.dial()
	conn.Ask(get, 200)
	if _, there := r.samples()[ruleMetric("candidate", "forwarded")]; there {
		t.Error("a candidate is counted that nobody has set")
	}
	r.tried("0 0 0 0 0")
	r.SetCandidate(limitOf(t, 2))
	r.tried("2 0 0 0 0")
	for i := range 6 {
		conn.Ask(get, []int{200, 200, 200, 200, 429, 429}[i])
	}
	r.tried("2 2 4 4 2")
	r.SetCandidate(limitOf(t, 3)) // takes over what was consumed
	r.tried("3 0 0 0 0")
	conn.Ask(get, 429)
	conn.Ask(get, 429)
	r.tried("3 1 1 0 2")
	r.SetCandidate(nil)
	conn.Ask(get, 429)
	r.tried("0 0 0 0 0")
	r.samplesAre(ruleMetric("candidate", "shadow_forwarded"), 3, ruleMetric("candidate", "shadow_rejected"), 5,
		ruleMetric("candidate", "forwarded"), 0, ruleMetric("candidate", "rejected"), 0,
		ruleMetric("global", "forwarded"), 5, ruleMetric("global", "rejected"), 5)
}

// What another rule refuses is charged to no rule, nor to the candidate.
func TestCandidateBesideRules(t *testing.T) {
	rules := ruleFile(t, `rules: [{id: tight, match: {path: "/tight"}, limit: {algorithm: fixed, limit: 2, window: C}}]`)
	r := start(t, newTarget(t, echoes).url(), "RULES_FILE", rules, "RATE_LIMIT_LIMIT", "5")
	r.SetCandidate(limitOf(t, 4))
	conn := r.dial()
	for i := range 10 {
		conn.Ask(request("/tight"), []int{200, 200, 429, 429, 429, 429, 429, 429, 429, 429}[i])
	}
	r.tried("4 2 0 2 0")
	for i := range 4 {
		conn.Ask(request("/other"), []int{200, 200, 200, 429}[i])
	}
	r.tried("4 4 2 5 1")
	conn.Ask(request("/tight"), 429) // both refuse
	r.tried("4 4 2 5 1")
}

// A lonelySide is one without a loop, whose lane answers on the spot: its Redis is
// away, and was never there.
func lonelySide(t *testing.T) *side {
	t.Helper()
	local, err := simredis.NewStore(simredis.Config{KeysMax: 1000})
	if err != nil {
		t.Fatal(err)
	}
	client, err := redis.New(redis.Config{Addrs: []string{"127.0.0.1:1"}, Config: lane.Config{Failure: store.Local, Local: local}})
	if err != nil {
		t.Fatal(err)
	}
	alone := client.NewLane(func(func(time.Time)) {})
	t.Cleanup(func() { alone.Close(); client.Close(); local.Close() })
	f := &Front{seed: maphash.MakeSeed()}
	s := &side{front: f, lane: alone, counts: newCounts(), rules: newRuleBook(f.seed)}
	f.sides = []*side{s}
	return s
}

// With Redis a candidate and rules in shadow cost requests no memory either.
func TestShadowAllocates(t *testing.T) {
	s, now := lonelySide(t), time.Now()
	set, err := rule.Read([]byte(`{"rules":[{"id":"trial","mode":"shadow","limit":{"algorithm":"fixed","limit":3,"window":60}}]}`), rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := decide.NewPolicy("global", *limitOf(t, 5)).With(set, "1")
	trial := set.Rule(0)
	counted := decide.Counted{Rule: trial, Limit: limitOf(t, 3), Cost: 1, Key: []byte("somebody")}
	shadow := decide.Shadow{Counted: counted, Counter: store.Counter{Rule: trial.ID, Key: counted.Key, Limit: counted.Limit, Cost: 1}}
	ans := store.Answer{Granted: 1, Decisions: []limit.Decision{{Allowed: true}}}
	s.front.SetCandidate(limitOf(t, 4))
	decided := decide.Decided{Policy: p, Asked: []decide.Counted{{Index: -1}}, Answer: &ans}
	if n := testing.AllocsPerRun(1000, func() { s.shadow(now, p, &shadow) }); n != 0 {
		t.Errorf("a rule in shadow: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { s.judged(now, &decided) }); n != 0 {
		t.Errorf("a candidate: %v allocations", n)
	}
	if c := s.front.Candidate(); c.Admitted != 4 || c.Refused != 997 || c.Enforced.Admitted != 1001 {
		t.Errorf("of the candidate: %+v", c)
	}
	if c := s.rules.byID["trial"]; c.shadowPass.Load() != 3 || c.shadowRefused.Load() != 998 {
		t.Errorf("of the rule in shadow: %d and %d", c.shadowPass.Load(), c.shadowRefused.Load())
	}
	if busiest, _ := s.rules.board.View(now, "trial"); len(busiest.Entries) != 1 || string(busiest.Entries[0].Key) != "somebody" {
		t.Errorf("the keys of the rule in shadow: %+v", busiest)
	}
}
