package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/redis/redistest"
)

// century is a window in which all tests fall, in seconds.
const century = 3153600000

// windows has the windows C in rules be a century.
func windows(rules string) string {
	return strings.ReplaceAll(rules, "window: C", fmt.Sprint("window: ", century))
}

// ruleFile writes rules, with windows, into a file.
func ruleFile(t *testing.T, rules string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "rules.yaml")
	testkit.WriteFile(t, name, windows(rules))
	return name
}

// counted is how many requests a rule has decided so, or -1 if the metrics do not say.
func (p *running) counted(rule, decision string) int {
	p.T.Helper()
	n, there := p.Metrics()[fmt.Sprintf("ratelimiter_rule_decisions_total{rule=%q,decision=%q}", rule, decision)]
	if !there {
		return -1
	}
	return int(n)
}

// undecided is how many requests the failure mode has answered.
func (p *running) undecided() (n int) {
	p.T.Helper()
	for name, value := range p.Metrics() {
		if strings.HasPrefix(name, "ratelimiter_store_undecided_total") {
			n += int(value)
		}
	}
	return n
}

// Keys can be looked at, forgotten, and given more.
func TestKeys(t *testing.T) {
	file := ruleFile(t, `rules:
- {id: partner, key: ["header:X-Partner", method], limit: {algorithm: fixed, limit: 2, window: C}}
- {id: all, match: {path: /all}, limit: {algorithm: token, capacity: 1, fillRate: 0.000001}}`)
	p := launch(t, []string{"RULES_FILE", file})
	for i := range 5 {
		p.Require("GET / X-Partner=acme", []int{200, 200, 429, 429, 429}[i], "")
	}
	p.Require("GET / X-Partner=other", 200, "")
	p.Require("GET /", 200, "")
	var top struct {
		Parts            []string
		Busiest, Refused struct {
			Total int64
			Keys  []struct {
				Key          []*string
				Count, Error int64
			}
		}
	}
	p.Decode("/config/keys?rule=partner", &top)
	if len(top.Busiest.Keys) != 3 || top.Busiest.Total != 7 || len(top.Refused.Keys) != 1 ||
		top.Refused.Keys[0].Count != 3 {
		t.Errorf("the keys are %s", testkit.JSON(top))
	} else if first := top.Busiest.Keys[0]; first.Count != 5 || len(first.Key) != 2 || first.Key[0] == nil ||
		*first.Key[0] != "acme" || *first.Key[1] != "GET" {
		t.Errorf("the busiest key is %s", testkit.JSON(first))
	}
	p.Require("DELETE /config/keys?rule=partner&key=%5B%22acme%22,%22GET%22%5D", 200, `"changed":true`)
	p.Require("GET / X-Partner=acme", 200, "")
	p.Require("GET / X-Partner=acme", 200, "")
	p.Require("GET / X-Partner=acme", 429, `"rule":"partner"`)
	p.Require("POST /config/keys", 200, `"changed":true`, `{"rule":"partner","key":["acme","GET"],"add":1}`)
	p.Require("GET / X-Partner=acme", 200, "")
	p.Require("GET / X-Partner=acme", 429, `"rule":"partner"`)

	p.Require("GET /all X-Partner=a", 200, "")
	p.Require("GET /all X-Partner=b", 429, `"rule":"all"`)
	p.Require("DELETE /config/keys?rule=all", 200, `"changed":true`)
	p.Require("GET /all X-Partner=b", 200, "")

	p.Require("GET /config/keys?rule=none", 404, `"path":"rule"`)
	p.Require("DELETE /config/keys?rule=partner&key=acme", 400, `"path":"key`)
	p.Require("POST /config/keys", 400, `"path":"add"`, `{"rule":"partner","key":["acme","GET"],"add":0}`)
	p.Require("PUT /config/rules", 409, file, "rules: []")
}

// Rules of several megabytes pass the client's port, the store and the other proxy.
func TestLargeRulesAreShared(t *testing.T) {
	a, b := pair(t, echo(t))
	var rules strings.Builder
	for i := range 550 {
		fmt.Fprintf(&rules, `{id: r%d, match: {headers: {`, i)
		for k := range 6 {
			fmt.Fprintf(&rules, "X%d: %q, ", k, fmt.Sprint(i)+strings.Repeat("<", 1000))
		}
		rules.WriteString("Y: z}}, limit: {algorithm: fixed, limit: 1, window: C}}, ")
	}
	share(t, a, b, "rules: ["+rules.String()+"]")
	a.Require("PUT /config/rules", 413, "larger than", strings.Repeat(" ", 5<<20))
}

// pair starts two proxies that share a redis-server.
func pair(t *testing.T, target string) (a, b *running) {
	t.Helper()
	return pairOn(t, target, "redis", inRedis(redistest.Start(t))...)
}

// pairOn starts two proxies that share the store which the settings name. Each has one
// loop: what one remembers all of it does.
func pairOn(t *testing.T, target, name string, settings ...string) (a, b *running) {
	t.Helper()
	env := append(append(limited(1_000_000_000), "TARGET_URL", target, "STORE_FAILURE_MODE", "closed", "EVENT_LOOPS", "1"),
		settings...)
	a, b = launch(t, env), launch(t, env)
	for _, p := range []*running{a, b} {
		p.Await("GET /actuator/health", 200, `"mode":"`+name+`"`)
	}
	return a, b
}

// share puts rules at one of the proxies and waits until the other has them.
func share(t *testing.T, at, other *running, rules string) {
	t.Helper()
	at.Require("PUT /config/rules", 200, `"stored":true`, windows(rules))
	document := func(p *running) string {
		document, _, _ := strings.Cut(p.Require("GET /config/rules", 200, ""), `,"epoch":`) // each counts its own
		return document
	}
	want := document(at)
	testkit.Eventually(t, "the other proxy has the rules", func() bool { return document(other) == want })
}

// The keys of a rule in shadow are seen, with the store in the process and with
// Redis.
func TestKeysInShadow(t *testing.T) {
	one := launch(t, nil)
	two, _ := pair(t, echo(t))
	for p, stored := range map[*running]string{one: `"stored":"memory"`, two: `"stored":true`} {
		p.Require("PUT /config/rules", 200, stored,
			windows(`rules: [{id: trial, mode: shadow, key: ["header:X-A"], limit: {algorithm: fixed, limit: 2, window: C}}]`))
		for range 3 {
			p.Require("GET / X-A=acme", 200, "")
		}
		p.Require("GET / X-A=other", 200, "")
		testkit.Eventually(t, "the keys are seen", func() bool {
			_, text := p.Call("GET /config/keys?rule=trial")
			return strings.Contains(text, `"busiest":{"total":4,"keys":[{"key":["acme"],"count":3,`) &&
				strings.Contains(text, `"refused":{"total":1,"keys":[{"key":["acme"],"count":1,`)
		})
	}
}

// Two proxies share rules, what was consumed under them, and what is forgotten.
func TestRulesOfTwoProxies(t *testing.T) {
	t.Run("Redis", func(t *testing.T) {
		a, b := pair(t, echo(t))
		rulesOfTwo(t, a, b)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		a, b := pairOn(t, echo(t), "postgres", inPostgres(postgrestest.Start(t).URL("weir", "weir"))...)
		rulesOfTwo(t, a, b)
	})
}

func rulesOfTwo(t *testing.T, a, b *running) {
	t.Helper()
	share(t, a, b, `rules:
- {id: x, key: ["header:X-A"], limit: {algorithm: fixed, limit: 2, window: C}}
- {id: y, key: ["header:X-B"], limit: {algorithm: gcra, limit: 3, window: 8640000, burst: 3}}
- {id: trial, mode: shadow, limit: {algorithm: fixed, limit: 1, window: C}}`)
	for _, ask := range []struct {
		p      *running
		line   string
		status int
		part   string
	}{
		{a, "GET / X-A=1 X-B=1", 200, ""}, {b, "GET / X-A=1 X-B=1", 200, ""},
		{a, "GET / X-A=1 X-B=1", 429, `"rule":"x"`}, {b, "GET / X-A=1 X-B=1", 429, `"rule":"x"`},
		{b, "GET / X-A=1 X-B=1", 429, `"rule":"x"`},
		{b, "GET / X-A=2 X-B=1", 200, ""}, // the refused were not charged to y
		{a, "GET / X-A=2 X-B=1", 429, `"rule":"y"`}, {b, "GET / X-A=2 X-B=1", 429, `"rule":"y"`},
		{a, "GET / X-A=2 X-B=2", 200, ""}, // nor these to x
		{b, "GET / X-A=2 X-B=2", 429, `"rule":"x"`},
	} {
		ask.p.Require(ask.line, ask.status, ask.part)
	}
	if atA, atB := a.counted("x", "forwarded"), b.counted("x", "forwarded"); atA != 2 || atB != 2 {
		t.Errorf("x has admitted %d at a and %d at b, want 2 at each", atA, atB)
	}
	for p, want := range map[*running]int{a: 3, b: 6} {
		testkit.Eventually(t, "what is in shadow is counted",
			func() bool { return p.counted("trial", "shadow_rejected") == want })
	}

	// Both proxies remember that this is refused.
	a.Require("GET / X-A=1 X-B=3", 429, `"rule":"x"`)
	b.Require("GET / X-A=1 X-B=3", 429, `"rule":"x"`)
	a.Require("DELETE /config/keys?rule=x&key=1", 200, `"changed":true`)
	b.Await("GET / X-A=1 X-B=3", 200, "") // it knows that the key was forgotten
	a.Require("GET / X-A=1 X-B=3", 200, "")
	a.Require("GET / X-A=1 X-B=3", 429, `"rule":"x"`)
	b.Require("GET / X-A=1 X-B=3", 429, `"rule":"x"`)
	b.Require("POST /config/keys", 200, `"changed":true`, `{"rule":"x","key":"1","add":1}`)
	a.Await("GET / X-A=1 X-B=3", 200, "") // it knows that the key was given more
	b.Require("GET / X-A=1 X-B=3", 429, `"rule":`)

	// Only a number changes: what was consumed stays so, and what was remembered is gone.
	share(t, b, a, `rules: [{id: x, key: ["header:X-A"], limit: {algorithm: fixed, limit: 3, window: C}}]`)
	a.Require("GET / X-A=2", 200, "")
	a.Require("GET / X-A=2", 429, `"rule":"x"`)
	b.Require("GET / X-A=2", 429, `"rule":"x"`)
}

// A queue is shared by both proxies: each place is given once, its rate is that of both together,
// and a client that leaves one proxy makes room at the other.
func TestQueueOfTwoProxies(t *testing.T) {
	const rate, requests = 20, 8
	var began time.Time
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, time.Since(began).Microseconds()) })
	a, b := pair(t, target)
	share(t, a, b, fmt.Sprintf(`rules:
- {id: flow, match: {path: /flow}, limit: {algorithm: leaky, capacity: 100, fillRate: %d}}
- {id: rare, match: {path: /rare}, limit: {algorithm: leaky, capacity: 2, fillRate: 0.001}}
- {id: apart, key: ["query:n"], limit: {algorithm: fixed, limit: 1000, window: C}}`, rate))
	both := []*running{a, b}
	began = time.Now()
	var conns []*testkit.Conn
	for i := range requests {
		conns = append(conns, both[i%2].Open("/flow"))
		testkit.Eventually(t, "the request has a place",
			func() bool { return both[i%2].counted("flow", "forwarded") == i/2+1 })
	}
	for i, conn := range conns {
		var at int64
		_, body := conn.Status(200)
		if _, err := fmt.Sscan(body, &at); err != nil {
			t.Fatal(err)
		}
		if slot := time.Duration(i) * time.Second / rate; time.Duration(at)*time.Microsecond < slot {
			t.Errorf("request %d was at the target after %d µs, before its slot at %v", i, at, slot)
		}
	}

	a.Require("GET /rare", 200, "")
	b.Open("/rare")
	testkit.Eventually(t, "the first waits", func() bool { return b.counted("rare", "forwarded") == 1 })
	leaves := a.Open("/rare")
	testkit.Eventually(t, "the second waits", func() bool { return a.counted("rare", "forwarded") == 2 })
	b.Require("GET /rare", 429, `"rule":"rare"`)
	leaves.Reset() // after a FIN alone it could still read
	tries := 0     // each under a key of its own: a refusal is remembered
	testkit.Eventually(t, "the place of who left is free", func() bool {
		before := b.counted("rare", "rejected")
		tries++
		b.Open(fmt.Sprint("/rare?n=", tries))
		testkit.Eventually(t, "the request is decided", func() bool {
			return b.counted("rare", "forwarded") == 2 || b.counted("rare", "rejected") != before
		})
		return b.counted("rare", "forwarded") == 2
	})
	a.Require("GET /rare", 429, `"rule":"rare"`)
}
