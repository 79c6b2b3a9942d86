package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/config"
)

// askerRules tell requests apart by all that describes them.
const askerRules = `rules:
- {id: posts, match: {methods: [POST], path: /only, host: a.example}, key: [ip, "header:X-Key"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: busy, match: {path: /busy}, refusal: {status: 503}, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: queue, match: {path: /queue}, limit: {algorithm: leaky, capacity: 100, fillRate: 0.00001}}
- {id: gets, match: {methods: [GET], path: /only/**}, key: ["header:X-Key"], limit: {algorithm: fixed, limit: 2, window: C}}
`

// An asker is a program in front of an application that asks a proxy, as configured under
// deploy/decision.
type asker struct {
	testkit.Endpoint
	proxy *running
	app   string // URL of the application
}

// startDecider starts a proxy that only decides, with further settings, and returns its decision port.
func startDecider(t *testing.T, env ...string) (p *running, decisions testkit.Endpoint) {
	t.Helper()
	port := cmp.Or(testkit.Env(env)("DECISION_PORT"), testkit.FreePort(t))
	p = launch(t, append([]string{"TARGET_URL", "none", "DECISION_PORT", port, "ADMIN_OPEN", "true", "EVENT_LOOPS", "1"},
		env...))
	return p, p.At(port)
}

// startAsker starts a proxy with further settings, an application and the program.
func startAsker(t *testing.T, f front, env ...string) *asker {
	t.Helper()
	testkit.FindOrSkip(t, f.folder)
	p, decisions := startDecider(t, append(env, "RULES_FILE", ruleFile(t, askerRules))...)
	app := echo(t)
	return &asker{f.start(t, decisions.Addr, app), p, app}
}

// try sends a request and returns the status and the fields of its answer. POST has a body.
func (a *asker) try(line string) (int, http.Header, error) {
	body := ""
	if strings.HasPrefix(line, "POST ") {
		body = "0123456789"
	}
	res, _, err := a.Try(line, body)
	if err != nil {
		return 0, nil, err
	}
	return res.StatusCode, res.Header, nil
}

func (a *asker) gets(line string, want int) http.Header {
	a.T.Helper()
	status, header, err := a.try(line)
	if err != nil || status != want {
		a.T.Errorf("%s: %d, %v, want %d", line, status, err, want)
	}
	return header
}

// lies are fields of a client that describe another request, by any form.
const lies = " X-Original-Method=PUT X-Original-URI=/free X-Original-Host=b.example X-Forwarded-Method=PUT " +
	"X-Forwarded-Uri=/free" +
	" X-Forwarded-Host=b.example X-Forwarded-For=192.0.2.7 X-Original-URL=/free X_Original_URI=/free " +
	"X-HTTP-Method-Override=PUT Forwarded=for=192.0.2.7" +
	" Connection=X-Original-URI,X-Forwarded-Uri,X-Forwarded-For"

// byPage are fields of a browser on a page of another origin.
const byPage = " Origin=https://page.example Referer=https://page.example/ Sec-Fetch-Site=cross-site" +
	" Sec-Fetch-Mode=cors Sec-Fetch-Dest=empty"

// Requests are limited by what they are, whatever their fields claim, and are admitted when Weir
// hangs or is down.
func (a *asker) limits() {
	a.gets("POST /only Host=a.example X-Key=1", 200)
	header := a.gets("POST /only Host=a.example X-Key=1", 429)
	if after, err := strconv.Atoi(header.Get("Retry-After")); err != nil || after < 1 {
		a.T.Errorf("Retry-After is %q", header.Get("Retry-After"))
	}
	a.gets("POST /only Host=a.example X-Key=1"+lies, 429)
	a.gets("POST /only?a=b Host=a.example X-Key=1"+lies, 429)
	a.gets("POST /only Host=a.example X-Key=1 Transfer-Encoding=chunked"+lies, 429)
	a.gets("POST /other Host=a.example X-Key=1 Transfer-Encoding=chunked"+lies, 200)
	for _, other := range []string{"POST /only Host=a.example X-Key=2", "POST /only Host=b.example X-Key=1",
		"POST /other Host=a.example X-Key=1", "GET /other"} {
		a.gets(other+lies, 200)
	}
	a.gets("GET /only/x%2fy?a=b X-Key=3"+lies, 200)
	a.gets("GET /only/%C3%A9 X-Key=3"+lies, 200)
	a.gets("GET /only/z X-Key=3"+lies, 429)
	a.gets("GET /busy", 200)
	if status, _, err := a.try("GET /busy"); err != nil || status != 429 && status != 503 {
		a.T.Errorf("a rule that refuses with 503: %d, %v", status, err)
	}
	a.gets("POST /only Host=a.example X-Key=1"+byPage, 429)
	a.gets("POST /only Host=a.example X-Key=4"+byPage, 200)
	a.queues()
	a.keepsConnections()
	a.refusesLarge()
	testkit.Freeze(a.T, a.proxy.Process.Pid)
	a.gets("POST /only Host=a.example X-Key=1", 200)
	a.proxy.Kill()
	testkit.Eventually(a.T, "requests pass without Weir", func() bool {
		status, _, err := a.try("POST /only Host=a.example X-Key=1")
		return err == nil && status == 200
	})
}

// queues fails unless a queue whose slots are further away than its asker waits admits the first
// request alone.
func (a *asker) queues() {
	a.T.Helper()
	const requests = 10
	statuses := make(chan int, requests)
	for range requests {
		go func() {
			status, header, err := a.try("GET /queue")
			if status == 429 && header.Get("Retry-After") == "" {
				err = errors.New("there is no Retry-After")
			}
			if err != nil {
				a.T.Error(err)
			}
			statuses <- status
		}()
	}
	got := make(map[int]int)
	for range requests {
		got[<-statuses]++
	}
	if want := map[int]int{200: 1, 429: requests - 1}; !maps.Equal(got, want) {
		a.T.Errorf("statuses of requests to a slow queue: %v, want %v", got, want)
	}
}

// keepsConnections fails if the program opens a connection for each refused request: at some rate it would
// run out of ports, and admit what it cannot ask about.
func (a *asker) keepsConnections() {
	a.T.Helper()
	accepted := func() float64 { return a.proxy.Metrics()["ratelimiter_check_connections_total"] }
	const requests = 30
	before := accepted()
	for range requests {
		a.gets("POST /only Host=a.example X-Key=1", 429)
	}
	if n := accepted() - before; n > requests/10 {
		a.T.Errorf("%d refused requests take %v connections", requests, n)
	}
}

// refusesLarge fails unless a request that is refused is refused however many or large the fields
// are that its client adds: a question that Weir cannot read must not pass as one that it does not
// answer.
func (a *asker) refusesLarge() {
	a.T.Helper()
	for n := 50; n < 110; n++ {
		if status, _, err := a.try("POST /only Host=a.example X-Key=1" + strings.Repeat(" X-F=1", n)); err != nil ||
			status < 400 {
			a.T.Errorf("with %d fields: %d, %v", n, status, err)
		}
		names := ""
		for i := range n {
			names += fmt.Sprintf(" X-F%d=1", i)
		}
		if status, _, err := a.try("POST /only Host=a.example X-Key=1" + names); err != nil || status < 400 {
			a.T.Errorf("with %d fields of different names: %d, %v", n, status, err)
		}
	}
	for n := 7000; n < 34000; n += 500 {
		if status, _, err := a.try("POST /only Host=a.example X-Key=1 X-F=" + strings.Repeat("x", n)); err == nil &&
			status < 400 {
			a.T.Errorf("with a field of %d bytes: %d", n, status)
		}
	}
}

func TestNginxAsks(t *testing.T)   { startAsker(t, nginx()).limits() }
func TestHAProxyAsks(t *testing.T) { startAsker(t, haproxy()).limits() }
func TestCaddyAsks(t *testing.T)   { startAsker(t, caddy()).limits() }

// waits are the settings of the shipped configurations that say how long their programs wait for an
// answer, with the unit of numbers.
var waits = map[string][]struct {
	file, setting string
	unit          time.Duration // 0: the setting has one
}{
	"caddy": {{"Caddyfile", `response_header_timeout (\S+)`, 0}},
	"envoy": {{"envoy.yaml", `cluster: weir, timeout: (\S+)\}`, 0},
		{"ratelimit.yaml", `timeout: (\S+)`, 0}},
	"haproxy": {{"weir.lua", `timeout = (\d+)`, time.Millisecond}},
	"nginx":   {{"nginx.conf", `proxy_read_timeout (\S+);`, 0}},
	"traefik": {{"traefik.yaml", `it waits for (\S+), which cannot be set`, 0}},
}

// A shipped configuration waits for longer than Weir takes with default settings: for its store, and
// for a slot in a queue. Otherwise the asker gives up, and admits what has not been decided.
func TestAskersWaitForAnswers(t *testing.T) {
	var c config.Config
	s := service.NewSettings("proxy")
	c.Register(s)
	testkit.Must(s.Parse(nil, testkit.Env([]string{"REDIS_HOST", "redis"})))(t)
	most := c.Decision.HoldMax + c.StoreTimeout()
	folders := testkit.Must(os.ReadDir(filepath.Join("..", "deploy", "decision")))(t)
	for _, folder := range folders {
		if len(waits[folder.Name()]) == 0 {
			t.Errorf("it is unknown how long %s waits", folder.Name())
		}
		for _, w := range waits[folder.Name()] {
			text := testkit.Must(os.ReadFile(filepath.Join("..", "deploy", "decision", folder.Name(), w.file)))(t)
			found := regexp.MustCompile(w.setting).FindSubmatch(text)
			if found == nil {
				t.Errorf("%s has no %s", w.file, w.setting)
				continue
			}
			wait, err := time.ParseDuration(string(found[1]))
			if w.unit > 0 {
				n, bad := strconv.Atoi(string(found[1]))
				wait, err = time.Duration(n)*w.unit, bad
			}
			if err != nil || wait <= most {
				t.Errorf("%s waits for %v (%v), want more than %v", w.file, wait, err, most)
			}
		}
	}
}

// Each form describes requests only by its own fields, which must be present exactly once.
// Trusted askers may use them.
func TestForms(t *testing.T) {
	rules := ruleFile(t, `rules:
- {id: one, match: {methods: [POST], path: /only, host: a.example}, key: [ip, "query:q"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: busy, match: {path: /busy}, refusal: {status: 503, fields: {X-Why: busy}}, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: named, match: {path: /named}, key: ["header:X-Name"], missing: refuse, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: queue, match: {path: /queue}, limit: {algorithm: leaky, capacity: 1, fillRate: 20}}
- {id: free, match: {path: /exempt}, exempt: true}
`)
	p, at := startDecider(t, "RULES_FILE", rules)
	const (
		method, path, host = " X-Forwarded-Method=POST", " X-Forwarded-Uri=/only?q=1", " X-Forwarded-Host=a.example"
		client             = " X-Forwarded-For=192.0.2.1"
		described          = method + path + host
		forwarded          = described + client
	)
	large := client + " X-Name=" + strings.Repeat("n", 59<<10)
	for i := range 480 {
		large += fmt.Sprintf(" X-%d=a", i)
	}
	for i, test := range []struct {
		request string
		status  int
		part    string
	}{
		{"GET /check/forwarded" + forwarded, 200, ""},
		{"POST /check/forwarded" + forwarded, 429, `"rule":"one"`},
		{"GET /check/forwarded" + forwarded + " X-Original-URI=/free X-Original-Method=GET", 429, ""},
		{"GET /check/forwarded" + path + host + client, 400, "X-Forwarded-Method"},
		{"GET /check/forwarded" + method + " X-Forwarded-Uri=only X-Forwarded-Host=a", 200, ""}, // cannot be described
		{"GET /check/forwarded" + method + path + " X-Forwarded-Host=a\tb", 200, ""},            // no host
		{"GET /check/forwarded" + method + path + " X-Forwarded-Host=", 200, ""},
		{"GET /check/forwarded" + path + host + " X-Forwarded-Method=", 400, "X-Forwarded-Method must not be empty"},
		{"GET /check/forwarded?deny=403" + forwarded, 403, ""},
		{"GET /check/forwarded?deny=404" + forwarded, 400, "deny=403"},
		{"GET /check/forwarded" + described + " X-Forwarded-For=192.0.2.1,192.0.2.2", 200, ""},
		{"GET /check/forwarded" + described + " X-Forwarded-For=192.0.2.9,192.0.2.2", 429, ""},
		{"GET /check/forwarded" + forwarded + " x-forwarded-uri=/free", 400, "X-Forwarded-Uri must appear once"},
		{"POST /check/path/only?q=2" + forwarded, 200, ""}, // another host
		{"GET /check/path/busy" + client, 200, ""},
		{"GET /check/path/busy" + client, 503, `"rule":"busy"`},
		{"GET /check/path/busy", 403, "X-Forwarded-For"},
		{"GET /check/path/named" + client, 400, `"missing"`},
		{"GET /check/path/named X-Name=n" + client, 200, ""},
		{"GET /check/path/queue" + client, 200, ""},
		{"GET /check/path/queue" + client, 200, ""}, // when its slot has come
		{"GET /check/path/exempt" + client, 200, ""},
		{"GET /check/path/free" + large, 200, ""},
		{"GET /check/path/free Host=page.example:" + at.Port() + client, 403, "number of this port"}, // as of a page
		{"GET /check/path", 404, "unknown form"},
		{"GET /check/other", 404, "unknown form"},
	} {
		res, body := at.Do(test.request)
		if res.StatusCode != test.status || !strings.Contains(body, test.part) {
			t.Errorf("%d, %.200s: %d %q, want %d with %q", i, test.request, res.StatusCode, body, test.status, test.part)
		}
		if res.StatusCode == 503 && res.Header.Get("X-Why") != "busy" || strings.Contains(test.request, "deny=403") &&
			(res.Header.Get("X-Weir-Status") != "429" || body != "") {
			t.Errorf("%d, %s: %v", i, test.request, res.Header)
		}
	}
	p.Require("GET /metrics", 200, `ratelimiter_check_requests_total{api="check",code="429"} 3`)
	res, body := at.Do("GET /check/forwarded" + forwarded)
	id := res.Header.Get("X-Weir-Decision")
	if !strings.Contains(body, `"decision":"`+id+`"`) {
		t.Errorf("the decision id %q is not in %s", id, body)
	}
	p.Require("GET /config/decisions/"+id, 200, `"client":"192.0.2.1"`)
}

// Without targets, settings about targets are reported to have no effect, and none may be posted.
func TestSettingsWithoutTargets(t *testing.T) {
	p, _ := startDecider(t, "TARGET_TIMEOUT", "3s", "GATE_WAIT", "1s")
	for _, name := range []string{"TARGET_TIMEOUT", "GATE_WAIT"} {
		p.Logged("WARN Proxy - " + name + " has no effect with TARGET_URL=none")
	}
	p.Require("POST /config/targets", 409, "TARGET_URL is none", `{"targets":["http://127.0.0.1:1"]}`)
}

// An asker that is not on this machine, is not a trusted proxy and has no token may not describe
// requests.
func TestUntrustedAskers(t *testing.T) {
	_, at := startDecider(t, "DECISION_BIND", "0.0.0.0", "DECISION_TOKEN", "secret", "TRUSTED_PROXIES", "127.0.0.2/32")
	const request = "GET /check/path/x X-Forwarded-For=192.0.2.1"
	for _, test := range []struct {
		from, token string
		status      int
		part        string
	}{
		{"127.0.0.1", "", 403, "asker is not trusted"}, {"127.0.0.1", "wrong", 403, "asker is not trusted"},
		{"127.0.0.1", "secret", 200, ""}, {"127.0.0.2", "", 200, ""},
	} {
		at.From, at.Token = test.from, test.token
		at.Require(request, test.status, test.part)
	}
}
