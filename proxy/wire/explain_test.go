package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// Every 429 carries a decision id that says all of why.
func TestExplain(t *testing.T) {
	r := startRules(t, `rules:
- {id: partner, match: {path: /p}, key: ["header:X-Partner", method], limit: {algorithm: sliding_log, limit: 1, window: 86400}}
- {id: soon, match: {path: /t}, limit: {algorithm: token, capacity: 2, fillRate: 0.001}, cost: 2}
- {id: never, match: {path: /n}, key: [ip], limit: {algorithm: fixed, limit: 2, window: C}, cost: 3}
- {id: login, match: {path: /s}, key: ["secret:header:X-Partner"], limit: {algorithm: fixed, limit: 1, window: C}}`)
	for _, test := range []struct {
		path string
		asks int    // the last of which is refused
		want string // of what is the same in all runs
	}{
		{"/p", 2, `{"rule":"partner","mode":"enforce","key":["header:X-Partner","method"],"counter":"\"4:acme3:GET\"","algorithm":"sliding_log","window":86400,"cost":1,"client":"127.0.0.1","limit":1,"remaining":0,"configuration":"limits 0 of default, rules 1 of file"}`},
		{"/t", 2, `{"rule":"soon","mode":"enforce","key":["global"],"counter":"\"\"","algorithm":"token","cost":2,"client":"127.0.0.1","limit":2,"remaining":0,"configuration":"limits 0 of default, rules 1 of file"}`},
		{"/n", 1, `{"rule":"never","mode":"enforce","key":["ip"],"counter":"\"9:127.0.0.1\"","algorithm":"fixed","window":3153600000,"cost":3,"client":"127.0.0.1","limit":2,"remaining":2,"configuration":"limits 0 of default, rules 1 of file"}`},
		{"/s", 2, `{"rule":"login","mode":"enforce","key":["secret:header:X-Partner"],"counter":"\"19:sha256:822b33ad87c1\"","algorithm":"fixed","window":3153600000,"cost":1,"client":"127.0.0.1","limit":1,"remaining":0,"configuration":"limits 0 of default, rules 1 of file"}`},
	} {
		t.Run(test.path, func(t *testing.T) {
			for range test.asks - 1 {
				r.playf(`a GET %s X-Partner=acme -> 200`, test.path)
			}
			r.playf(`a GET %s X-Partner=acme -> 429`, test.path)
			a := r.last("a")
			res, id := a.res, a.res.Header.Get("X-Weir-Decision")
			r.playf(`a GET /config/decisions/%s -> 200`, id)
			var got map[string]json.RawMessage
			a.decode(&got)
			_, comesBack := got["retryAfter"]
			if string(got["id"]) != `"`+id+`"` || got["at"] == nil || got["resetAfter"] == nil ||
				comesBack != (res.Header.Get("Retry-After") != "") {
				t.Errorf("explained as %s", a.body)
			}
			var want map[string]json.RawMessage
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			for name, value := range want {
				if string(got[name]) != string(value) {
					t.Errorf("%s is %s, want %s", name, got[name], value)
				}
			}
			for name := range got {
				if want[name] == nil && !strings.Contains("id at resetAfter retryAfter", name) {
					t.Errorf("says %s: %s", name, got[name])
				}
			}
		})
	}
}

// put is a request that replaces the rules.
func put(rules string) string {
	text := rulesText(rules)
	return fmt.Sprintf("PUT /config/rules HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}

// Rules that are put count for the very next request. What was consumed stays
// consumed while only numbers change; another window or algorithm counts by itself.
func TestPutRules(t *testing.T) {
	r := serve(t, echoes)
	rules := func(limit string) string {
		return `{"rules":[{"id":"k","key":["header:X-K"],"limit":` + limit + `}]}`
	}
	century := `"window":` + fmt.Sprint(int(century.Seconds()))
	for _, step := range []struct {
		rules  string
		status int
		then   string
	}{
		{"rules: []", 200, "200 global 999999999"},
		{rules(`{"algorithm":"fixed","limit":2,` + century + `}`), 200, "200 k 1"},
		{rules(`{"algorithm":"fixed","limit":9,` + century + `}`), 200, "200 k 7"},
		{rules(`{"algorithm":"fixed","limit":3,` + century + `}`), 200, "200 k 0"},
		{rules(`{"algorithm":"fixed","limit":2,` + century + `}`), 200, "429 k 0"},
		{rules(`{"algorithm":"fixed","limit":-2,` + century + `}`), 400, "429 k 0"},
		{"rules: [{id: k, key: [nothing], limit: {algorithm: fixed, limit: 5, window: C}}]", 400, "429 k 0"},
		{rules(`{"algorithm":"fixed","limit":2,"window":1576800000}`), 200, "200 k 1"},
		{rules(`{"algorithm":"token","capacity":3,"fillRate":0.000001}`), 200, "200 k 2"},
		{rules(`{"algorithm":"token","capacity":2,"fillRate":0.000001}`), 200, "200 k 0"},
		{"rules: [{id: other, key: [\"header:X-K\"], limit: {algorithm: fixed, limit: 5, window: C}}]", 200, "200 other 4"},
		{"rules: []", 200, "200 global 999999991"},
	} {
		told := ""
		if step.status == 400 {
			told = `"\"path\":\"rules[0]."`
		}
		r.playf(`a %q + GET / X-K=1; a -> %d %s + %s`, put(step.rules), step.status, told, step.then)
	}
	conn := r.dial()
	put := conn.Ask(put(rules(`{"algorithm":"fixed","limit":2,`+century+`}`)), 200)
	r.playf(`GET /config/rules -> 200 =%q ~"source":"api" ~"id":"k"`, put)
}

// With RULES_FILE rules cannot be set by the API.
func TestPutRulesOfFile(t *testing.T) {
	file := ruleFile(t, "rules: [{id: k, limit: {algorithm: fixed, limit: 5, window: C}}]")
	serve(t, echoes, "RULES_FILE", file).playf(`
		a %q -> 409 %q
		GET / -> 200 k 4; GET /config/rules -> 200 ~"source":"file" ~"id":"k"`, put("rules: []"), file)
}

// Both files are followed: what is broken changes nothing and says where it is.
func TestFilesAreFollowed(t *testing.T) {
	t.Parallel() // files are looked at twice a second
	const rules = "rules:\n- {id: k, key: [\"header:X-K\"], clients: true, limit: {algorithm: fixed, " +
		"limit: %d, window: C}}\n"
	dir := t.TempDir()
	file, clients := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "clients.json")
	replaceFile(t, file, rulesText(fmt.Sprintf(rules, 5)))
	replaceFile(t, clients, clientText(`{"acme":{"algorithm":"fixed","limit":50,"window":C}}`))
	r := serve(t, echoes, "RULES_FILE", file, "CLIENTS_FILE", clients)
	conn := r.dial()
	limits := func(other, acme string) {
		t.Helper()
		r.until("the limits are those of the files: "+other+", "+acme, func() bool {
			conn.Send(r.request(words("GET / X-K=1")).text + r.request(words("GET / X-K=acme")).text)
			one, _ := conn.Answer("GET")
			two, _ := conn.Answer("GET")
			return one.Header.Get("X-RateLimit-Limit") == other && two.Header.Get("X-RateLimit-Limit") == acme
		})
	}
	limits("5", "50")
	replaceFile(t, file, rulesText(fmt.Sprintf(rules, 6)))
	limits("6", "50")
	replaceFile(t, clients, clientText(`{"acme":{"algorithm":"fixed","limit":60,"window":C}}`))
	limits("6", "60")

	epoch := r.rules.Active().Epoch
	replaceFile(t, file,
		rulesText(fmt.Sprintf(rules, 7)+"- {id: l, key: [nothing], limit: {algorithm: fixed, limit: 1, window: C}}\n"))
	const ignored = `logged "level=ERROR" "File ignored" setting=%s %s %q`
	r.playf(ignored, "RULES_FILE", file, "line 3: rules[1].key[0]")
	replaceFile(t, clients, clientText(
		"{\"acme\":{\"algorithm\":\"fixed\",\"limit\":70,\"window\":C},\n\"b\":{\"algorithm\":\"fixed\",\"limit\":\"x\",\"window\":C}}"))
	replaceFile(t, file, rulesText(fmt.Sprintf(rules, 6))) // as it was, or the clients would not be looked at
	r.playf(ignored, "CLIENTS_FILE", clients, "line 2: b.limit")
	limits("6", "60")
	equal(t, "the epoch, which nothing broken changes", r.rules.Active().Epoch, epoch)
	replaceFile(t, clients, "{}")
	limits("6", "6")
}

// A Kubernetes ConfigMap changes by a symbolic link beside the file.
func TestConfigMapIsFollowed(t *testing.T) {
	t.Parallel() // files are looked at twice a second
	dir := t.TempDir()
	version := func(name string, limit int) {
		t.Helper()
		err := os.Mkdir(filepath.Join(dir, name), 0o700)
		if err == nil {
			replaceFile(t, filepath.Join(dir, name, "rules.yaml"),
				rulesText(fmt.Sprintf("rules: [{id: k, limit: {algorithm: fixed, limit: %d, window: C}}]", limit)))
			err = os.Symlink(name, filepath.Join(dir, "..new"))
		}
		if err == nil {
			err = os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	version("..one", 5)
	file := filepath.Join(dir, "rules.yaml")
	if err := os.Symlink("..data/rules.yaml", file); err != nil {
		t.Fatal(err)
	}
	r := serve(t, echoes, "RULES_FILE", file)
	r.play(`GET / -> 200 k 4`)
	version("..two", 8)
	r.until("the new rules are in force", func() bool { return r.rules.Active().Epoch == 2 })
	r.play(`GET / -> 200 k 6`)
}

// Two rules are always changed together, so that either a is tight or b, and each
// request costs either 1 of both or 2 of both. An answer that tells of a wide one
// has seen two wide ones, and counters that differ tell of a request that was
// charged under one of each.
func TestChangeUnderLoad(t *testing.T) {
	const changes, clients, tight, wide = 120, 6, 1_000_000, 1_000_000_000
	pair := func(a, b, cost int) string {
		return fmt.Sprintf(`rules:
- {id: a, limit: {algorithm: fixed, limit: %d, window: C}, cost: %d}
- {id: b, limit: {algorithm: fixed, limit: %d, window: C}, cost: %d}`, a, cost, b, cost)
	}
	r := serve(t, echoes)
	ops := r.dial()
	ops.Ask(put(pair(tight, wide, 1)), 200)
	allowed := map[string]bool{`"a";q=1000000;w=3153600000`: true, `"b";q=1000000;w=3153600000`: true}
	asked, end := r.load(clients, func(_ int, c *testkit.Conn) bool {
		c.Send(get)
		res, _ := c.Answer("GET")
		policy := res.Header.Get("RateLimit-Policy")
		if res.StatusCode != http.StatusOK || !allowed[policy] {
			t.Errorf("answered %d under %s, which was never in force", res.StatusCode, policy)
		}
		return allowed[policy]
	})
	for i := range changes {
		ops.Ask(put([]string{pair(wide, tight, 2), pair(tight, wide, 1)}[i%2]), 200)
		for since := asked.Load(); asked.Load() < since+clients && !t.Failed(); time.Sleep(100 * time.Microsecond) {
		}
	}
	end()
	left := func(rules string) (n int) {
		t.Helper()
		ops.Ask(put(rules), 200)
		ops.Send(get)
		res, _ := ops.Status(200)
		if _, err := fmt.Sscan(res.Header.Get("X-RateLimit-Remaining"), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b := left(pair(tight, wide, 1)), left(pair(wide, tight, 1))
	if b != a-1 || a == 0 {
		t.Errorf("of a remained %d, and one request later of b %d: a request was charged under half of a change", a, b)
	}
}
