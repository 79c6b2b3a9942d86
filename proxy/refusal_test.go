package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
)

const asBrowser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

// Browsers get a page, others what they always got; folders of templates and rules change
// both, and what is wrong with them is named and changes nothing.
func TestRefusalsHaveForms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		testkit.WriteFile(t, name, text)
		return name
	}
	const api = `{"error":"rate limit exceeded","rule":"`
	refused := func(p *running, path, accept string, status int, kind, body string) http.Header {
		t.Helper()
		request := "GET " + path
		if accept != "" {
			request += " Accept=" + accept
		}
		res, got := p.Do(request)
		if res.StatusCode != status || res.Header.Get("Content-Type") != kind || !strings.Contains(got, body) ||
			res.Header.Get("Retry-After") == "" {
			t.Errorf("%s for %q: %d %v\n%s", path, accept, res.StatusCode, res.Header, got)
		}
		return res.Header
	}

	p := launch(t, append(limited(1), "REFUSAL_STATUS", "503", "REFUSAL_FIELDS", "Cache-Control: no-store"))
	p.Call("GET /")
	for _, accept := range []string{"", "*/*", "application/json"} {
		refused(p, "/", accept, 503, "application/json", api+`global","retryAfter":`)
	}
	h := refused(p, "/", asBrowser, 503, "text/html; charset=utf-8", "<h1>Service Unavailable</h1>")
	if h.Get("Vary") != "Accept" || h.Get("Cache-Control") != "no-store" || h.Get("X-Weir-Decision") == "" ||
		h.Get("X-RateLimit-Limit") != "1" {
		t.Errorf("a browser is told %v", h)
	}
	if res, body := p.Do("HEAD / Accept=" + asBrowser); body != "" || res.ContentLength < 500 || res.StatusCode != 503 {
		t.Errorf("HEAD: %d, %d bytes announced, %q", res.StatusCode, res.ContentLength, body)
	}

	folder := filepath.Dir(write("t/default.html", "<p>{{rule}}: {{advice}}"))
	write("t/partner.json", `{"rule":"{{rule}}","wait":{{retryAfter}},"id":"{{decision}}"}`)
	rules := write("rules.yaml", `rules:
- {id: partner, match: {path: /p}, limit: {algorithm: fixed, limit: 1, window: 31536000}, refusal: {status: 503, template: partner, fields: {X-Support: "https://example.com/?a=b"}}}
`)
	p = launch(t, append(limited(2), "REFUSAL_TEMPLATES", folder, "RULES_FILE", rules))
	p.Call("GET /p")
	h = refused(p, "/p", "", 503, "application/json", `{"rule":"partner","wait":`)
	if h.Get("X-Support") != "https://example.com/?a=b" || h.Get("Vary") != "Accept" {
		t.Errorf("a partner is told %v", h)
	}
	refused(p, "/p", asBrowser, 503, "text/html; charset=utf-8", "<p>partner: Please try again in ")
	p.Call("GET /") // that was the second of the global limit
	refused(p, "/", "", 429, "application/json", api+"global")
	write("t/default.html", "a\n{{nonsense}}")
	p.Signal(syscall.SIGHUP)
	p.Logged(`ERROR Proxy - Reload failed, the previous version stays in use part=templates reason="default.html: line 2: {{\"nonsense\"}} is unknown`)
	p.LoggedTimes("INFO Proxy - Reloaded ", 1)
	refused(p, "/", asBrowser, 429, "text/html; charset=utf-8", "<p>global: Please try again in ")
	write("t/default.html", "new {{status}}")
	p.Signal(syscall.SIGHUP)
	p.LoggedTimes("INFO Proxy - Reloaded ", 2)
	refused(p, "/", asBrowser, 429, "text/html; charset=utf-8", "new 429")

	write("t/default.html", "{{")
	rules = write("bad.yaml", "rules:\n- {id: a, limit: {algorithm: off},\n   refusal: {status: 500, fields: "+
		"{Retry-After: 1}}}\n- {id: b, limit: {algorithm: off}, refusal: {template: none}}\n")
	_, stderr := testkit.RequireExit(t,
		program(t, []string{"REFUSAL_TEMPLATES", folder, "REFUSAL_FIELDS", "Content-Length: 1", "RULES_FILE", rules}), 2)
	testkit.Contains(t, stderr, `REFUSAL_TEMPLATES: "`+folder+
		`" cannot be used: default.html: line 1: {{ without }}`, "REFUSAL_FIELDS: ",
		"Content-Length is set by the proxy itself",
		"line 3: rules[0].refusal.status: must be 429 or 503, is 500",
		"line 3: rules[0].refusal.fields.Retry-After: Retry-After is set by the proxy itself")
	write("t/default.html", "ok")
	_, stderr = testkit.RequireExit(t, program(t, []string{"REFUSAL_TEMPLATES", folder, "RULES_FILE", rules}), 2)
	want := `line 4: rules[1].refusal.template: there is no template "none" in the folder REFUSAL_TEMPLATES`
	if !strings.Contains(stderr, want) {
		t.Errorf("told\n%swant %s", stderr, want)
	}
}
