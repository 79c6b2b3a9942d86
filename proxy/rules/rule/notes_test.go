package rule_test

import (
	"testing"

	"weir/internal/data/strict"
	"weir/proxy/rules/rule"
)

// Settings that are allowed and have no effect are reported, with their positions.
func TestNotes(t *testing.T) {
	f := func(have strict.Faults, want string) {
		t.Helper()
		if have.Error() != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	}
	const stray = `rules:
  - id: a
    limit:
      algorithm: fixed
      limit: 1
      window: 1
      burst: 5
  - id: b
    limit: {algorithm: token, capacity: 5, fillRate: 1,
      limit: 1}
  - {id: c, limit: {algorithm: off, limit: 1}}
  - {id: d, limit: {algorithm: gcra, limit: 1, window: 1, burst: 5}}`
	f(read(t, stray, rule.Options{}).Notes(),
		"line 7: rules[0].limit.burst: has no effect with algorithm fixed, which uses limit, window; "+
			"line 10: rules[1].limit.limit: has no effect with algorithm token, which uses capacity, fillRate; "+
			"line 11: rules[2].limit.limit: has no effect with algorithm off, which uses no numbers")
	const sweeping = `rules:
  - {id: a, exempt: true, match: {path: /**}}
  - {id: b, exempt: true, match: {path: /**, methods: [GET]}}
  - {id: c, exempt: true, match: {path: /**, addresses: [10.0.0.0/8]}}
  - {id: d, exempt: true, match: {addresses: [0.0.0.0/0]}}`
	f(read(t, sweeping, rule.Options{}).Notes(), `rule "a": /** exempts every request: nothing is limited; `+
		`rule "d": 0.0.0.0/0 exempts all clients with such addresses: no limit applies to them`)
	c := clients(t, `{"a":{"algorithm":"fixed","limit":1,"window":1},
		"b":{"algorithm":"fixed","limit":1,"window":1,"burst":5,"priority":"urgent"}}`)
	f(c.Notes(), "line 2: b.burst: has no effect with algorithm fixed, which uses limit, window")

	// Without rules, and with those of the store, clients may be ahead of the rules.
	const early = `the priority "urgent" of client "b" in the client file has no effect: no rule has priority classes`
	f(read(t, rule.NoRules, rule.Options{Clients: c, ClientKey: part(t, "ip")}).Notes(), early)
	f(read(t, rules("clients: true, key: [ip]"), rule.Options{Clients: c, Unknown: func(strict.Fault) {}}).Notes(), early)
	f(read(t, rules("clients: true, key: [ip], priority: {classes: {urgent: 0}, default: urgent}"),
		rule.Options{Clients: c}).Notes(), "")
}
