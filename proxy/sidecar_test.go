package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
)

// startMaster is startDecider for a master of sidecars.
func startMaster(t *testing.T, env ...string) (p *running, decisions testkit.Endpoint) {
	t.Helper()
	return startDecider(t, append([]string{"DECISION_TOKEN", "secret"}, env...)...)
}

// startSidecar starts a sidecar of masters.
func startSidecar(t *testing.T, env ...string) *running {
	t.Helper()
	return launch(t, append([]string{"REMOTE_TOKEN", "secret", "REMOTE_TIMEOUT", "2s",
		"ADMIN_OPEN", "true", "EVENT_LOOPS", "1"}, env...))
}

// Sidecars share the limits that are kept at their master, whose configuration they follow.
// When it is killed they let everything pass, and limit again when there is another one.
func TestSidecars(t *testing.T) {
	m, at := startMaster(t)
	m.Require("GET /", 404, "nothing is forwarded here")
	url := "http://" + at.Addr
	a, b := startSidecar(t, "REMOTE_URL", url), startSidecar(t, "REMOTE_URL", url)
	m.Require("POST /config/limits", 200, `"limit":3`, fmt.Sprintf(`{"algorithm":"fixed","limit":3,"window":%d}`, century))
	for _, s := range []*running{a, b} {
		s.Await("GET /config/limits", 200, `"limit":3,`)
		s.Require("POST /config/limits", 409, "change it there", `{"algorithm":"fixed","limit":9,"window":1}`)
		s.Require("PUT /config/rules", 409, "change it there", "rules: []")
	}
	shareLimit(t, 3, a, b)
	m.Require("GET /metrics", 200, `ratelimiter_check_requests_total{api="remote",code="200"}`)
	m.Require("GET /x", 404, "") // and is not limited
	m.Kill()
	for _, s := range []*running{a, b} {
		s.Logged("WARN RemoteStore - Master lost, entering fail-open mode")
		s.Require("GET /x", 200, "/x")
	}
	startMaster(t, "DECISION_PORT", at.Port(), "RATE_LIMIT_LIMIT", "7")
	for _, s := range []*running{a, b} {
		s.Logged("INFO RemoteStore - Master is back")
	}
	shareLimit(t, 3, a, b)
}

// shareLimit has sidecars ask in turn until all are refused, and fails unless the limit was admitted.
// Those count beside it that were admitted undecided: on a busy machine an answer may miss even the
// longest REMOTE_TIMEOUT.
func shareLimit(t *testing.T, limit int, sidecars ...*running) {
	t.Helper()
	undecided := func() (n int) {
		for _, s := range sidecars {
			n += s.undecided()
		}
		return n
	}
	before, admitted := undecided(), 0
	testkit.Eventually(t, "all are refused", func() bool {
		refused := 0
		for _, s := range sidecars {
			switch status, text := s.Call("GET /x"); {
			case status == 200 && strings.Contains(text, "/x"):
				admitted++
			case status == 429 && strings.Contains(text, `"rule":"global"`):
				refused++
			default:
				t.Errorf("answered %d %.300s", status, text)
			}
		}
		return refused == len(sidecars)
	})
	if late := undecided() - before; admitted < limit || admitted > limit+late {
		t.Errorf("%d requests are admitted, %d of them undecided, want %d decided", admitted, late, limit)
	}
}

// A master that accepts and says nothing is passed over for the next one. While that one is
// frozen every request is admitted, and then limits hold again.
func TestMastersThatFail(t *testing.T) {
	m, at := startMaster(t, limited(1)...)
	silent := testkit.Listen(t) // accepts, and says nothing
	s := startSidecar(t, append(limited(1), "REMOTE_TIMEOUT", "50ms",
		"REMOTE_URL", "http://"+silent.Addr().String()+",http://"+at.Addr)...)
	s.Await("GET /x", 429, "") // the second master decides
	testkit.Freeze(t, m.Process.Pid)
	s.Await("GET /actuator/health", 200, `"mode":"failopen"`)
	for range 3 {
		s.Require("GET /x", 200, "/x")
	}
	m.Signal(syscall.SIGCONT)
	s.Await("GET /x", 429, "") // the master decides again
}

// Settings that contradict each other, and a master that refuses us, end the start with one
// line.
func TestMisconfiguredSidecars(t *testing.T) {
	m, at := startMaster(t)
	url := "http://" + at.Addr
	for _, test := range []struct {
		told string
		env  []string
	}{
		{"REMOTE_TOKEN", []string{"REMOTE_URL", url, "REMOTE_TOKEN", "s3cret"}},
		{"REMOTE_TOKEN", []string{"REMOTE_URL", url}},
		{"not the kind of store that the settings describe", []string{"REMOTE_URL", "http://" + m.Addr}},
		{"excludes REDIS_HOST", []string{"REMOTE_URL", url, "REDIS_HOST", "localhost"}},
		{"the master follows the advisor", []string{"REMOTE_URL", url, "ADAPTIVE_MODE", "true"}},
		{"has more than host and port", []string{"REMOTE_URL", "http://u:s3cret@localhost"}},
		{"cannot be used", []string{"REMOTE_URL", url, "REMOTE_CA_FILE", "/nowhere.pem"}},
		{"leaves nothing to do", []string{"TARGET_URL", "none"}},
		{"lets other machines ask without authentication", []string{"DECISION_PORT", "8083", "DECISION_BIND", "0.0.0.0"}},
		{"is that of ADMIN_PORT", []string{"DECISION_PORT", "8083", "ADMIN_PORT", "8083"}},
	} {
		cannotStart(t, test.env, 2, test.told)
	}
}

// A sidecar whose settings say nothing about the global limit has that of its master, whether that comes from
// settings or was changed; one with settings keeps its own until the limit is changed.
func TestSidecarHasTheLimitOfItsMaster(t *testing.T) {
	m, at := startMaster(t, "RATE_LIMIT_LIMIT", "1000", "RATE_LIMIT_WINDOW", "7")
	url := "http://" + at.Addr
	rules := ruleFile(t, "rules: [{id: a, match: {path: /a}, limit: {algorithm: fixed, limit: 5, window: C}}]\n")
	bare := startSidecar(t, "REMOTE_URL", url)
	ruled := startSidecar(t, "REMOTE_URL", url, "RULES_FILE", rules)
	own := startSidecar(t, "REMOTE_URL", url, "RATE_LIMIT_LIMIT", "100")
	for _, s := range []*running{bare, ruled} {
		s.Logged("INFO Proxy - Ready addr=" + s.Addr + " ")
		s.Await("GET /config/limits", 200, `"limit":1000,"window":7`)
	}
	own.Require("GET /config/limits", 200, `"limit":100,`)
	own.Logged(` limit="algorithm=fixed, limit=100, window=1" limitFrom=settings`)
	m.Require("POST /config/limits", 200, `"limit":3`, fmt.Sprintf(`{"algorithm":"fixed","limit":3,"window":%d}`, century))
	for _, s := range []*running{bare, ruled, own} {
		s.Await("GET /config/limits", 200, `"limit":3,`)
	}
	m.Require("DELETE /config/limits", 200, `"limit":1000`)
	bare.Await("GET /config/limits", 200, `"limit":1000,`)
}

// Without settings of a global limit there is none as long as there are rules, clients or descriptors.
func TestImpliedLimit(t *testing.T) {
	rules := ruleFile(t, "rules: [{id: a, match: {path: /a}, limit: {algorithm: fixed, limit: 5, window: C}}]\n")
	clients, descriptors := t.TempDir()+"/clients.json", t.TempDir()+"/limits.yaml"
	testkit.WriteFile(t, clients, `{"acme":{"algorithm":"fixed","limit":5,"window":1}}`)
	testkit.WriteFile(t, descriptors,
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 6}}]\n")
	const none, some = `limit=algorithm=off limitFrom="none, since there are rules or descriptors"`,
		`limit="algorithm=fixed, limit=100, window=1" limitFrom=`
	for _, test := range []struct {
		env   []string
		ready string
	}{
		{nil, some + "default"},
		{[]string{"EXEMPT", "/health"}, some + "default"},
		{[]string{"RULES_FILE", rules}, none},
		{[]string{"CLIENTS_FILE", clients}, none},
		{[]string{"RATELIMIT_CONFIG", descriptors, "DECISION_PORT", testkit.FreePort(t)}, none},
		{[]string{"RULES_FILE", rules, "RATE_LIMIT_LIMIT", "100"}, some + "settings"}, // its default, but given
		{[]string{"RULES_FILE", rules, "ADAPTIVE_MODE", "shadow"}, some + "settings"},
	} {
		p := launch(t, append([]string{"ADMIN_OPEN", "true", "EVENT_LOOPS", "1"}, test.env...))
		if line := p.Logged("INFO Proxy - Ready"); !strings.Contains(line, test.ready) {
			t.Errorf("%q: %s, want %s", test.env, line, test.ready)
		}
	}
	p := launch(t, []string{"ADMIN_OPEN", "true", "EVENT_LOOPS", "1"})
	const stored = "rules: [{id: a, match: {path: /a}, limit: {algorithm: fixed, limit: 5, window: 9}}]"
	for _, step := range [][2]string{{stored, "off"}, {"rules: []", "fixed"}, {stored, "off"}} {
		p.Require("PUT /config/rules", 200, "", step[0])
		p.Require("GET /config/limits", 200, `"algorithm":"`+step[1])
	}
	p.Require("POST /config/limits", 200, `"limit":7`, `{"algorithm":"fixed","limit":7,"window":1}`)
	p.Require("PUT /config/rules", 200, "", "rules: []")
	p.Require("GET /config/limits", 200, `"limit":7`)
}
