package wire

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// In the rules of these tests C stands for a window of a century.
func rulesText(text string) string {
	return strings.ReplaceAll(text, "window: C", "window: "+strconv.Itoa(int(century.Seconds())))
}

// ruleFile writes a file of rules, which only its test sees.
func ruleFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rules.yaml")
	replaceFile(t, name, rulesText(text))
	return name
}

// replaceFile writes a file as editors and deployments do: whole, or not at all.
func replaceFile(t *testing.T, name, text string) {
	t.Helper()
	err := os.WriteFile(name+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// startRules is start with rules.
func startRules(t *testing.T, rules string, env ...string) *rig {
	t.Helper()
	return startAt(t, newTarget(t, echoes).url(), rules, env...)
}

// startAt is startRules in front of another target.
func startAt(t *testing.T, target, rules string, env ...string) *rig {
	t.Helper()
	return start(t, target, append(env, "RULES_FILE", ruleFile(t, rules))...)
}

// gist is what a script says of an answer.
func gist(res *http.Response) string {
	told := res.Header.Get("RateLimit")
	if told == "" {
		return fmt.Sprint(res.StatusCode, " -")
	}
	id, rest, _ := strings.Cut(strings.TrimPrefix(told, `"`), `";r=`)
	left, _, _ := strings.Cut(rest, ";")
	return fmt.Sprintf("%d %s %s", res.StatusCode, id, left)
}

// ruleMetric is the sample that counts a rule's decisions.
func ruleMetric(rule, decision string) string {
	return fmt.Sprintf("ratelimiter_rule_decisions_total{rule=%q,decision=%q}", rule, decision)
}

// A request is admitted only if all of its rules admit it, and when one refuses
// nothing is charged to the others: what remains for them, and to the last the
// global limit of 5, tells.
func TestAllRulesOrNone(t *testing.T) {
	r := startRules(t, `rules:
- {id: a, key: ["header:X-A"], limit: {algorithm: fixed, limit: 2, window: C}}
- {id: b, key: ["header:X-B"], limit: {algorithm: fixed, limit: 3, window: C}}
- {id: elsewhere, match: {path: /else/**}, limit: {algorithm: fixed, limit: 1, window: C}}`, "RATE_LIMIT_LIMIT", "5")
	r.play(`
		GET / X-A=1 X-B=1 -> 200 a 1
		GET / X-A=1 X-B=1 -> 200 a 0
		GET / X-A=1 X-B=1 -> 429 a 0
		GET / X-A=1 X-B=1 -> 429 a 0
		GET / X-A=2 X-B=1 -> 200 b 0
		GET / X-A=2 X-B=1 -> 429 b 0
		GET / X-A=2 X-B=2 -> 200 a 0
		GET / X-A=3 X-B=3 -> 200 global 0
		GET / X-A=4 X-B=4 -> 429 global 0`)
	r.metrics(`forwarded=5 rejected=4 a.forwarded=5 a.rejected=2 b.forwarded=5 b.rejected=1 global.forwarded=5
		global.rejected=1 elsewhere.forwarded=0`)
}

// Requests without a part of a key share one key.
func TestMissingPartIsShared(t *testing.T) {
	startRules(t, `rules: [{id: q, key: ["query:k", method], limit: {algorithm: fixed, limit: 2, window: C}}]`).play(`
		GET /one -> 200 q 1
		GET /two -> 200 q 0
		GET /one?k=1 -> 200 q 1
		GET /three?j=1 -> 429 q 0
		POST /one -> 200 q 1
		GET /?k= -> 200 q 1`)
}

// clientFile writes a file of clients.
func clientFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "clients.json")
	replaceFile(t, name, clientText(text))
	return name
}

func clientText(text string) string {
	return strings.ReplaceAll(text, `"window":C`, `"window":`+strconv.Itoa(int(century.Seconds())))
}

// Clients of the file have limit, cost and class of their own, the others those of
// the rule.
func TestClients(t *testing.T) {
	clients := clientFile(t, `{"acme":{"algorithm":"fixed","limit":10,"window":C,"cost":5,"priority":"high"},
		"tiny":{"algorithm":"fixed","limit":1,"window":C,"priority":"high"}}`)
	startRules(t, `rules:
- id: partner
  key: ["header:X-Client"]
  clients: true
  limit: {algorithm: fixed, limit: 4, window: C}
  priority: {header: X-Class, classes: {high: 0, normal: 0.5}, default: normal}`, "CLIENTS_FILE", clients).play(`
		GET / X-Client=other -> 200 partner 1
		GET / X-Client=other -> 200 partner 0
		GET / X-Client=other -> 429 partner 0
		GET / X-Client=other X-Class=high -> 200 partner 1
		GET / X-Client=acme -> 200 partner 5
		GET / X-Client=acme X-Class=normal -> 200 partner 0
		GET / X-Client=acme -> 429 partner 0 X-RateLimit-Limit=10 RateLimit-Policy="partner";q=10;w=3153600000
		GET / X-Client=tiny -> 200 partner 0
		GET / X-Client=tiny -> 429 partner 0`)
}

// Without a rule for clients there is the built-in one, whose key CLIENT_KEY says;
// whom the file does not name has the global limit only.
func TestBuiltInRuleForClients(t *testing.T) {
	clients := clientFile(t, `{"acme":{"algorithm":"fixed","limit":2,"window":C}}`)
	r := serve(t, echoes, "CLIENTS_FILE", clients, "CLIENT_KEY", "query:client",
		"RATE_LIMIT_LIMIT", "100")
	r.play(`
		GET /?client=acme -> 200 clients 1
		GET /?client=acme -> 200 clients 0
		GET /?client=acme -> 429 clients 0
		GET /?client=other -> 200 global 97
		GET / X-Client-Id=acme -> 200 global 96`)
}

// A rule in shadow is counted and never refuses, also when another rule does.
func TestShadow(t *testing.T) {
	r := startRules(t, `rules:
- {id: trial, mode: shadow, key: ["header:X-A"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: real, key: ["header:X-A"], limit: {algorithm: fixed, limit: 3, window: C}}`)
	r.play(`
		GET / X-A=1 -> 200 real 2
		GET / X-A=1 -> 200 real 1
		GET / X-A=1 -> 200 real 0
		GET / X-A=1 -> 429 real 0
		GET / X-A=2 -> 200 real 2`)
	r.metrics(`forwarded=4 rejected=1 trial.shadow_forwarded=2 trial.shadow_rejected=3 trial.rejected=0
		real.rejected=1`)
}

// Under the limit's last share lower classes are refused first.
func TestPriority(t *testing.T) {
	startRules(t, `rules:
- id: p
  key: [ip]
  limit: {algorithm: fixed, limit: 4, window: C}
  priority: {header: X-Priority, classes: {high: 0, normal: 0.25, low: 0.5}, default: normal}`).play(`
		GET / X-Priority=low -> 200 p 1
		GET / X-Priority=low -> 200 p 0
		GET / X-Priority=low -> 429 p 0
		GET / X-Priority=none-such -> 200 p 0
		GET / -> 429 p 0
		GET / X-Priority=high -> 200 p 0
		GET / X-Priority=high -> 429 p 0`)
}

// A soft limit may be exceeded for the stated time, here decades and then hardly
// at all.
func TestSoft(t *testing.T) {
	startRules(t, `rules:
- {id: long, match: {path: /long}, limit: {algorithm: fixed, limit: 2, window: C}, soft: {overshoot: 1, for: 1000000000}}
- {id: short, match: {path: /short}, limit: {algorithm: fixed, limit: 2, window: C}, soft: {overshoot: 1, for: 0.000001}}`).play(`
		GET /long -> 200 long 1
		GET /long -> 200 long 0
		GET /long -> 200 long 0
		GET /long -> 200 long 0
		GET /long -> 429 long 0
		GET /short -> 200 short 1
		GET /short -> 200 short 0
		GET /short -> 200 short 0
		GET /short -> 429 short 0`)
}

// Requests cost what a field or their method says; a cost that the limit can never
// hold is refused without a time to come back.
func TestCosts(t *testing.T) {
	startRules(t, `rules:
- {id: f, match: {path: /field}, limit: {algorithm: fixed, limit: 10, window: C}, cost: {header: X-Cost, default: 2, max: 5}}
- {id: m, match: {path: /method}, limit: {algorithm: fixed, limit: 10, window: C}, cost: {methods: {POST: 4}, default: 1}}
- {id: never, match: {path: /never}, limit: {algorithm: fixed, limit: 2, window: C}, cost: 3}`).play(`
		GET /field X-Cost=1 -> 200 f 9
		GET /field -> 200 f 7
		GET /field X-Cost=1000 -> 200 f 2
		GET /field X-Cost=3 -> 429 f 2
		GET /field X-Cost=2 -> 200 f 0
		POST /method -> 200 m 6
		GET /method -> 200 m 5
		POST /method -> 200 m 1
		POST /method -> 429 m 1
		PUT /method -> 200 m 0
		GET /never -> 429 Retry-After= X-RateLimit-Retry-After= "can never hold"`)
}

// One request in three seconds for each partner, however they come.
func TestOneInThreeSeconds(t *testing.T) {
	r := startRules(t, `rules: [{id: partner, match: {path: /api/**}, key: ["header:X-Partner"], limit: {algorithm: gcra, limit: 1, window: 3}}]`)
	r.play(`
		a GET /api/a X-Partner=acme + GET /api/b X-Partner=acme + GET /api/b X-Partner=other
		a -> 200 + 429 Retry-After=1|2|3 X-RateLimit-Limit=1 RateLimit-Policy="partner";q=1;w=3 + 200
		a GET /else X-Partner=acme -> 200 global 999999997`)
}

// Envoy descriptor files with nested entries. Their windows are those of the clock: when one
// ends during the requests, they are made again.
func TestDescriptorFiles(t *testing.T) {
	for _, test := range []struct {
		rules, id, hit, other string
		window                time.Duration
		env                   []string
	}{
		{rules: "domain: messaging\ndescriptors:\n  - key: message_type\n    value: marketing\n    rate_limit: {unit: " +
			"day, requests_per_unit: 5}\n",
			id: "messaging/message_type=marketing", hit: "GET /send Message-Type=marketing",
			other: "GET /send Message-Type=news", window: 24 * time.Hour},
		{rules: "domain: auth\ndescriptors:\n  - key: auth_type\n    Value: login\n    rate_limit: {unit: minute, " +
			"requests_per_unit: 5}\n",
			id: "auth/auth_type=login", hit: "GET /x?kind=login", other: "GET /x?kind=logout", window: time.Minute,
			env: []string{"DESCRIPTOR_KEYS", "auth_type=query:kind"}},
	} {
		t.Run(test.id, func(t *testing.T) {
			for {
				r := startRules(t, test.rules, test.env...)
				conn, began := r.dial(), time.Now()
				conn.Send(strings.Repeat(r.request(words(test.hit)).text, 6) + r.request(words(test.other)).text)
				var got []string
				for range 7 {
					res, _ := conn.Answer("GET")
					got = append(got, gist(res))
				}
				if !time.Now().Truncate(test.window).Equal(began.Truncate(test.window)) {
					continue
				}
				want := fmt.Sprintf(
					"[200 %[1]s 4 200 %[1]s 3 200 %[1]s 2 200 %[1]s 1 200 %[1]s 0 429 %[1]s 0 200 global 999999994]", test.id)
				equal(t, "answered", fmt.Sprint(got), want)
				return
			}
		})
	}
}

// An untrusted client cannot choose the address under which it is counted. Behind a trusted proxy
// it is the last address that is not trusted.
func TestAddressOfClients(t *testing.T) {
	const rules = `rules: [{id: per-ip, key: [ip], limit: {algorithm: fixed, limit: 3, window: C}}]`
	startRules(t, rules).play(`
		GET / -> 200 per-ip 2
		GET / X-Forwarded-For=192.0.2.1 -> 200 per-ip 1
		GET / X-Forwarded-For=192.0.2.2 X-Real-IP=192.0.2.3 Forwarded=for=192.0.2.4 -> 200 per-ip 0
		GET / X-Forwarded-For=192.0.2.5,127.0.0.1 True-Client-IP=192.0.2.6 -> 429 per-ip 0`)
	startRules(t, rules, "TRUSTED_PROXIES", "127.0.0.1/32,198.51.100.0/24").play(`
		GET / X-Forwarded-For=192.0.2.1 -> 200 per-ip 2
		GET / X-Forwarded-For="6.6.6.6, 192.0.2.1" -> 200 per-ip 1
		GET / X-Forwarded-For=7.7.7.7,192.0.2.1,198.51.100.9 -> 200 per-ip 0
		GET / X-Forwarded-For=8.8.8.8,192.0.2.1 -> 429 per-ip 0
		GET / X-Forwarded-For=192.0.2.2 -> 200 per-ip 2
		GET / X-Forwarded-For=2001:db8::1 -> 200 per-ip 2
		GET / X-Forwarded-For=2001:db8::2:3 -> 200 per-ip 1
		GET / X-Forwarded-For=2001:db8:0:1::1 -> 200 per-ip 2
		GET / -> 200 per-ip 2
		b@127.0.0.2 GET / X-Forwarded-For=192.0.2.7 -> 200 per-ip 2
		b GET / X-Forwarded-For=192.0.2.8 -> 200 per-ip 1`)
}

// Other fields that make claims about the origin of a request cannot choose a
// counter or a rule either: rules see those of trusted proxies only.
func TestClaimsOfClients(t *testing.T) {
	const rules = `rules:
- {id: url, match: {headers: {X-Original-URL: /free}}, limit: {algorithm: fixed, limit: 9, window: C}}
- {id: per-ip, key: ["header:X-Client-IP"], limit: {algorithm: fixed, limit: 3, window: C}}`
	startRules(t, rules).play(`
		GET / X-Client-IP=192.0.2.1 -> 200 per-ip 2
		GET / X-Client-IP=192.0.2.2 X-Original-URL=/free -> 200 per-ip 1
		GET / -> 200 per-ip 0
		GET / X-Client-IP=192.0.2.3 -> 429 per-ip 0`)
	startRules(t, rules, "TRUSTED_PROXIES", "127.0.0.1/32").play(`
		GET / X-Client-IP=192.0.2.1 -> 200 per-ip 2
		GET / X-Client-IP=192.0.2.2 -> 200 per-ip 2
		GET / X-Client-IP=192.0.2.1 -> 200 per-ip 1`)
}

// A flood of new keys gets the room that KEYS_MAX leaves and one shared bucket, and refused
// clients stay refused.
func TestFloodOfKeys(t *testing.T) {
	const places, flood = 16, 2000
	r := startRules(t, `rules: [{id: k, key: ["header:X-K"], limit: {algorithm: fixed, limit: 2, window: C}}]`,
		"KEYS_MAX", strconv.Itoa(places))
	conn := r.dial()
	r.play(`
		GET / X-K=victim -> 200 k 1
		GET / X-K=victim -> 200 k 0
		GET / X-K=victim -> 429 k 0`)
	admitted := 0
	for i := range flood {
		conn.Send(r.request([]string{"GET", "/", fmt.Sprint("X-K=", i)}).text)
		if res, _ := conn.Answer("GET"); res.StatusCode == 200 {
			admitted++
		}
	}
	// One place is the global rule's and one the victim's.
	equal(t, "requests of the flood that are admitted", admitted, places-2+2)
	r.play(`GET / X-K=victim -> 429 k 0`)
	r.metrics(`store_keys=%d store_overflowed_total=%d`, places, flood-(places-2))
	busiest, refused := r.Top("k")
	if len(busiest.Entries) > 1000 || len(refused.Entries) > 1000 {
		t.Errorf("%d busiest and %d refused keys are remembered", len(busiest.Entries), len(refused.Entries))
	}
}

// The fields show what the target allows if that is less than what the rules leave, and otherwise
// what the rules leave.
func TestFieldsOfTarget(t *testing.T) {
	const theirs = "X-RateLimit-Limit: 9\r\nX-RateLimit-Remaining: 3\r\nRateLimit-Policy: \"t\";q=9;w=1\r\n" +
		"RateLimit: \"t\";r=3;t=1\r\n"
	serve(t, says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+theirs+"\r\n"), "RULES_FILE", ruleFile(t, `rules:
- {id: wide, limit: {algorithm: fixed, limit: 100, window: C}}
- {id: narrow, match: {path: /narrow}, limit: {algorithm: fixed, limit: 5, window: C}}`)).play(`
		GET / -> 200 t 3 X-RateLimit-Limit=9 X-RateLimit-Remaining=3
		GET /narrow -> 200 t 3 X-RateLimit-Limit=9 X-RateLimit-Remaining=3
		GET /narrow -> 200 narrow 3 X-RateLimit-Limit=5 X-RateLimit-Remaining=3
		GET /narrow -> 200 narrow 2 X-RateLimit-Limit=5 X-RateLimit-Remaining=2
		GET / -> 200 t 3 X-RateLimit-Limit=9 X-RateLimit-Remaining=3`)
}
