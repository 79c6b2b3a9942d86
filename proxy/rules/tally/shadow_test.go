package tally

import (
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis"
	"weir/proxy/store/simredis"
)

func limitOf(t *testing.T, permits int64) *limit.Limit {
	t.Helper()
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: 1e9}))(t)
	return &l
}

// offlineShard returns a LoopTally whose lane answers at once, because its Redis has never been
// available.
func offlineShard(t *testing.T) *LoopTally {
	t.Helper()
	local := testkit.Must(simredis.NewStore(simredis.Config{KeysMax: 1000}))(t)
	client := testkit.Must(redis.New(redis.Config{Addrs: []string{"127.0.0.1:1"},
		Config: lane.Config{Failure: store.Local, Local: local}}))(t)
	alone := client.NewLane(func(func(time.Time)) {})
	t.Cleanup(func() { alone.Close(); client.Close(); local.Close() })
	return New(nil, nil).NewShard(alone.Ask)
}

// With Redis a candidate and rules in shadow cost requests no memory either.
func TestShadowAllocates(t *testing.T) {
	b, now := offlineShard(t), time.Now()
	set := testkit.Must(rule.Read(
		[]byte(`{"rules":[{"id":"trial","mode":"shadow","limit":{"algorithm":"fixed","limit":3,"window":60}}]}`),
		rule.Options{}))(t)
	p := decide.NewPolicy(*limitOf(t, 5)).With(set, "1")
	trial := set.Rule(0)
	shadow := decide.ChargedCounter{Rule: trial, Counter: store.Counter{Rule: trial.ID, Key: []byte("somebody"),
		Limit: limitOf(t, 3), Cost: 1}}
	ans := store.Answer{Granted: 1, Decisions: []limit.Decision{{Allowed: true}}}
	b.tally.SetCandidate(limitOf(t, 4))
	decided := decide.CounterResults{Policy: p, Asked: []decide.ChargedCounter{{Index: -1}}, Answer: &ans}
	if n := testing.AllocsPerRun(1000, func() { b.shadow(now, p, &shadow) }); n != 0 {
		t.Errorf("a rule in shadow: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { b.Judged(now, &decided) }); n != 0 {
		t.Errorf("a candidate: %v allocations", n)
	}
	if c := b.tally.Candidate(); c.Admitted != 4 || c.Refused != 997 || c.Enforced.Admitted != 1001 {
		t.Errorf("of the candidate: %+v", c)
	}
	if c := b.byID["trial"]; c[shadowPass].Load() != 3 || c[shadowRefused].Load() != 998 {
		t.Errorf("of the rule in shadow: %d and %d", c[shadowPass].Load(), c[shadowRefused].Load())
	}
	if busiest, _ := b.board.Ranking(now, "trial"); len(busiest.Entries) != 1 ||
		string(busiest.Entries[0].Key) != "somebody" {
		t.Errorf("the keys of the rule in shadow: %+v", busiest)
	}
}
