package adaptive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/proxy/control/admin"
	"weir/proxy/limit"
	"weir/proxy/store"
)

const token50 = `{"algorithm":"token","capacity":200,"fillRate":50,"predictedRps":48.5,"validFor":300,"confidence":0.8,` +
	`"reason":"forecast=50 req/s","forecast":[1,2,3]}`

// One update: what is sent, what is applied, what is logged.
func TestApplied(t *testing.T) {
	r := begun(t)
	r.traffic.Admitted, r.traffic.Denied, r.traffic.Ended, r.traffic.Failed = 600, 300, 500, 50
	r.oracle.says(token50)
	r.turns(Applied, "token 200/50 advisor", "")
	r.logged("INFO ConfigController - Applied new config: algorithm=token, capacity=200, fillRate=50, source=advisor",
		"INFO RateLimiter - Switched rate-limiting algorithm from FixedWindow to TokenBucket",
		"INFO Adaptive - AI update applied: algorithm=token, limit from 100/s to 50/s, capacity=200, fillRate=50, "+
			"reason: forecast=50 req/s")
	want := map[string]any{"timestamp": "2026-01-19T16:30:30Z", "interval": 30.0, "observedRps": 30.0,
		"forwardedRps": 20.0, "rejectedRate": strict.RoundTo15Digits(1.0 / 3),
		"latencyP95": 0.0, "errors5xx": 0.1, "algorithm": "fixed", "limit": 100.0, "window": 1.0, "instance": "one",
		"ended": 500.0, "mode": "normal", "store": "local", "inFlight": 0.0, "gateLimit": 0.0, "gateShare": 0.0,
		"healthyTargets": 0.0}
	if got := r.oracle.asked(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("asked\n%v\nwant\n%v", got, want)
	}
	if a := r.limits.Active(); !a.Stored || a.Version != 1 || a.Pinned {
		t.Errorf("in force %+v", a)
	}
	r.sampled(`ratelimiter_adaptive_updates_total{result="applied"} 1`,
		`ratelimiter_adaptive_updates_total{result="failed"} 0`,
		"ratelimiter_adaptive_predicted_rps 48.5", "ratelimiter_adaptive_last_success_timestamp_seconds 1.76884023e+09",
		"ratelimiter_adaptive_stale 0",
		"ratelimiter_adaptive_leader 1")
	r.turns(Unchanged, "token 200/50 advisor", "")
	r.logged()
	if got := r.oracle.asked(); got["fillRate"] != 50.0 || got["observedRps"] != 0.0 || got["window"] != nil {
		t.Errorf("then asked %v", got)
	}
}

func TestGuarded(t *testing.T) {
	r := begun(t)
	const loud = `{"algorithm":"fixed","limit":1000000,"window":1}`
	r.oracle.says(loud)
	r.turns(Applied, "fixed 400/1 advisor", "1000000/s is out of range; too large a step from 100/s")
	r.logged("WARN Adaptive - AI provided out-of-range value, using cap 100000/s recommended=1000000/s",
		"INFO ConfigController - Applied new config: algorithm=fixed, limit=400, window=1, source=advisor",
		"INFO Adaptive - AI update applied: algorithm=fixed, limit from 100/s to 400/s, limit=400, window=1")
	r.turns(Applied, "fixed 1600/1 advisor", "out of range")
	r.logged("INFO ConfigController - Applied new config: algorithm=fixed, limit=1600, window=1, source=advisor",
		"INFO Adaptive - AI update applied: algorithm=fixed, limit from 400/s to 1600/s, limit=1600, window=1")
	r.oracle.says(`{"algorithm":"fixed","limit":1600,"window":1}`)
	r.turns(Unchanged, "fixed 1600/1 advisor", "")
	r.oracle.says(`{"algorithm":"fixed","limit":1,"window":1}`)
	r.turns(Applied, "fixed 400/1 advisor", "out of range")
	if lines := r.log.Taken(); !strings.Contains(strings.Join(lines, "\n"), "using cap 5/s") {
		t.Errorf("logged %v", lines)
	}
	r.oracle.says(`{"algorithm":"off"}`)
	r.turns(Refused, "fixed 400/1 advisor", "off, which only people may choose")
	r.logged()
}

// The algorithm changes at most every three minutes of the snapshots' clock, even if another
// writer made the last change.
func TestDwells(t *testing.T) {
	for _, scale := range []float64{1, 60} {
		r := start(t, func(c *Config) { c.Settings.Scale = scale })
		r.oracle.says(`{"algorithm":"token","capacity":100,"fillRate":100}`)
		r.turns(Applied, "token 100/100 advisor", "") // at 30 s
		r.oracle.says(`{"algorithm":"sliding","limit":6000,"window":60}`)
		for range 5 {
			r.turns(Unchanged, "token 100/100 advisor", "too soon")
		}
		r.turns(Applied, "sliding 6000/60 advisor", "") // at 210 s
		r.change(100, false)                            // a person, a nanosecond later
		r.oracle.says(`{"algorithm":"token","capacity":50,"fillRate":50}`)
		for range 6 {
			r.turn()
		}
		r.inForce("fixed 50/1 advisor")
		r.turns(Applied, "token 50/50 advisor", "")
	}
}

// What a person does between a snapshot and its answer wins.
func TestPersonWins(t *testing.T) {
	r := begun(t)
	r.oracle.says(token50)
	u := r.ask()
	r.change(70, false)
	r.conclude(r.now, u)
	r.inForce("fixed 70/1 api")
	if l := r.read().lines[0]; l.Result != Conflict || l.Config != nil {
		t.Errorf("remembered %+v", l)
	}
	r.turns(Applied, "token 200/50 advisor", "") // goes on from there
	u = r.ask()
	if _, err := r.limits.Delete(r.now, -1); err != nil {
		t.Fatal(err)
	}
	r.conclude(r.now, u)
	r.inForce("fixed 100/1 default")
}

// Also where a person's change has the version that another had before it, as happens
// when the store was away or has lost something.
func TestPersonWinsWithTheSameVersion(t *testing.T) {
	r := begun(t)
	r.oracle.says(token50)
	r.change(70, false)
	u := r.ask()
	r.limits.Observe(r.now, store.Document{Version: 1,
		Body: []byte(
			`{"config":{"algorithm":"fixed","limit":90,"window":1},"source":"api","updatedAt":"2026-01-19T16:30:20Z"}`)})
	r.conclude(r.now, u)
	r.inForce("fixed 90/1 api")
	if l := r.read().lines[0]; l.Result != Conflict || r.limits.Active().Version != u.inForce.Version {
		t.Errorf("remembered %+v", l)
	}
}

func TestPinnedIsLeftAlone(t *testing.T) {
	r := begun(t)
	r.oracle.says(`{"algorithm":"fixed","limit":50,"window":1}`)
	r.change(70, true)
	r.turns(Pinned, "fixed 70/1 api", "pinned until")
	if _, err := r.limits.Apply(r.now, admin.LimitChange{Config: limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 1},
		Source: admin.SourceAdvisor, IfMatch: -1}); err != admin.ErrPinned {
		t.Errorf("a change by the advisor: %v", err)
	}
	u := r.ask()
	r.change(80, true)
	r.conclude(r.now, u)
	r.inForce("fixed 80/1 api")
	r.change(90, false)
	r.turns(Applied, "fixed 50/1 advisor", "")
	r.change(70, true)
	if _, err := r.limits.Delete(r.now, -1); err != nil {
		t.Fatal(err)
	}
	r.turns(Applied, "fixed 50/1 advisor", "")
}

// Of several proxies one applies recommendations: another one when the lease is lost, and none
// while the store is unavailable.
func TestLeaders(t *testing.T) {
	s := &shared{holder: "two"}
	r := start(t, func(c *Config) { c.Store, c.Shared = s, true })
	r.oracle.says(token50)
	r.turns(Following, "fixed 100/1 default", "another proxy")
	r.sampled("ratelimiter_adaptive_leader 0")
	r.logged()
	s.holder = ""
	r.turns(Applied, "token 200/50 advisor", "")
	if lines := r.log.Taken(); !strings.Contains(strings.Join(lines, "\n"),
		"INFO Adaptive - This proxy applies AI updates") {
		t.Errorf("logged %v", lines)
	}
	r.oracle.says(`{"algorithm":"token","capacity":200,"fillRate":60}`)
	u := r.ask()
	s.holder = "two" // it has ended meanwhile, which is known at the next renewal
	r.conclude(r.now.Add(leaseTime), u)
	r.inForce("token 200/50 advisor")
	r.renew(r.now)
	r.logged("INFO Adaptive - This proxy no longer applies AI updates")
	s.holder = ""
	for _, mode := range []store.Mode{store.FailOpen, store.Local, store.Closed} {
		s.mode = mode
		r.turns(Unavailable, "token 200/50 advisor", "the store is unavailable, mode "+mode.String())
	}
	s.mode, s.broken = store.Exact, true
	r.turns(Unavailable, "token 200/50 advisor", "not known yet which proxy")
	s.broken = false
	r.turns(Applied, "token 200/60 advisor", "")
	if r.lease.release(r.now); s.holder != "" {
		t.Errorf("after its end %q holds the lease", s.holder)
	}
}

// What the store has granted holds until its end, also when a renewal fails; not when
// another proxy has taken it.
func TestLeaseOutlastsAFailedRenewal(t *testing.T) {
	s := new(shared)
	r := start(t, func(c *Config) { c.Store, c.Shared = s, true })
	r.oracle.says(token50)
	u := r.ask()
	s.broken = true
	r.renew(r.now.Add(leasePause))
	r.conclude(r.now.Add(leasePause), u)
	r.inForce("token 200/50 advisor")
	r.sampled("ratelimiter_adaptive_leader 1")
	r.log.Taken()
	r.renew(r.now.Add(leaseTime))
	r.sampled("ratelimiter_adaptive_leader 0")
	r.logged("INFO Adaptive - This proxy no longer applies AI updates")
	s.broken = false
	r.renew(r.now)
	s.holder = "two"
	r.renew(r.now.Add(leasePause))
	r.sampled("ratelimiter_adaptive_leader 0")
	u = r.ask()
	s.broken = true
	r.renew(r.now) // now nobody knows about the other either
	r.conclude(r.now, u)
	if l := r.read().lines[1]; l.Result != Unavailable || !strings.Contains(l.Reason, "not known yet which proxy") {
		t.Errorf("%v, %s", l.Result, l.Reason)
	}
}

// In mode shadow nothing is applied, and the lease is not taken.
func TestShadow(t *testing.T) {
	s := new(shared)
	r := start(t, func(c *Config) { c.Settings.Mode, c.Store, c.Shared = "shadow", s, true })
	r.oracle.says(token50)
	r.turns(Shadowed, "fixed 100/1 default", "shadow")
	r.logged("INFO Adaptive - AI update not applied (shadow): algorithm=token, limit from 100/s to 50/s, capacity=200, " +
		"fillRate=50, reason: forecast=50 req/s")
	if r.trial == nil || r.trial.Config() != (limit.Config{Algorithm: limit.Token, Capacity: 200, FillRate: 50}) ||
		s.holder != "" {
		t.Errorf("on trial %+v, holder %q", r.trial, s.holder)
	}
	r.tries(700, 40, 740, 0)
	r.turns(Shadowed, "fixed 100/1 default", "shadow")
	r.logged()
	r.tries(200, 100, 250, 50)
	r.turns(Shadowed, "fixed 100/1 default", "shadow")
	const token = "algorithm:token capacity:200 "
	if told := r.told(); told["mode"] != "shadow" || fmt.Sprint(told["candidate"]) != "map[admitted:900 "+token+
		"enforced:map[admitted:990 refused:50] fillRate:50 refused:140]" {
		t.Errorf("told %v", told)
	}
	r.oracle.says(`{"algorithm":"fixed","limit":1000000,"window":1}`)
	r.tries(10, 90, 60, 40)
	r.turns(Shadowed, "fixed 100/1 default", "out of range") // what was tried until now is the one before
	if r.trial.Rate() != 400 {
		t.Errorf("on trial at %v/s", r.trial.Rate())
	}
	if got := fmt.Sprint(r.told()["candidate"]); got != "map[admitted:0 algorithm:fixed enforced:map[admitted:0 "+
		"refused:0] limit:400 refused:0 window:1]" {
		t.Errorf("told of the next candidate %s", got)
	}
	r.tries(5, 1, 4, 2)
	r.turns(Shadowed, "fixed 100/1 default", "out of range")
	updates := r.told()["updates"].([]any)
	for i, want := range []string{"map[admitted:5 algorithm:fixed enforced:map[admitted:4 refused:2] limit:400 " +
		"refused:1 window:1]",
		"map[admitted:10 " + token + "enforced:map[admitted:60 refused:40] fillRate:50 refused:90]",
		"map[admitted:200 " + token + "enforced:map[admitted:250 refused:50] fillRate:50 refused:100]",
		"map[admitted:700 " + token + "enforced:map[admitted:740 refused:0] fillRate:50 refused:40]", "<nil>"} {
		if got := fmt.Sprint(updates[i].(map[string]any)["candidate"]); got != want {
			t.Errorf("update %d: the candidate did %s, want %s", i, got, want)
		}
	}
}

func TestTold(t *testing.T) {
	r := start(t, func(c *Config) { c.Settings.Scale = 30 })
	if got := r.told(); got["mode"] != "true" || got["leader"] != true || got["stale"] != false ||
		got["nextUpdate"] != "2026-01-19T16:30:01Z" || got["interval"] != 30.0 ||
		got["snapshot"] != nil || fmt.Sprint(got["updates"]) != "[]" {
		t.Errorf("at first %v", got)
	}
	for i := range linesMax + 5 {
		r.oracle.says(fmt.Sprintf(`{"algorithm":"fixed","limit":%d,"window":1,"reason":["growth","rises"]}`, 100+i))
		r.turn()
	}
	got := r.told()
	updates := got["updates"].([]any)
	first, last := updates[0].(map[string]any), updates[len(updates)-1].(map[string]any)
	if len(updates) != linesMax || first["at"] != "2026-01-19T16:31:45Z" || last["at"] != "2026-01-19T16:30:06Z" {
		t.Errorf("%d updates from %v to %v", len(updates), last["at"], first["at"])
	}
	if s := got["snapshot"].(map[string]any); s["limit"] != 203.0 || s["timestamp"] != "2026-01-19T17:22:30Z" ||
		s["interval"] != 30.0 {
		t.Errorf("the last snapshot %v", s)
	}
	if rec := got["recommendation"].(map[string]any); rec["limit"] != 204.0 || rec["reason"] != "growth, rises" ||
		got["result"] != "applied" ||
		first["version"] != 104.0 || first["config"].(map[string]any)["limit"] != 204.0 ||
		got["lastSuccess"] != "2026-01-19T16:31:45Z" {
		t.Errorf("told %v", got)
	}
}

// A proxy that is started again goes on from the store, and keeps the algorithm as
// long as it must have been in force.
func TestBeginsAgain(t *testing.T) {
	r := begun(t)
	r.oracle.says(token50)
	r.turns(Applied, "token 200/50 advisor", "")
	r.Follower = New(r.cfg)
	r.begin(r.now.Add(time.Second))
	r.oracle.says(`{"algorithm":"fixed","limit":60,"window":1}`)
	r.now = r.now.Add(time.Second)
	r.turns(Applied, "token 200/60 advisor", "too soon")
}

func TestOff(t *testing.T) {
	r := start(t, func(c *Config) { c.Settings.Mode = "false" })
	r.Run(t.Context()) // returns
	if got := r.told(); got["mode"] != "false" || fmt.Sprint(got["updates"]) != "[]" || got["advisor"] != nil {
		t.Errorf("told %v", got)
	}
}
