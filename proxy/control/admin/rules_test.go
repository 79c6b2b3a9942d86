package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// What is in force at the start, and what keeps the proxy from starting.
func TestRulesAtStart(t *testing.T) {
	for _, test := range []struct {
		name           string
		rules, clients string // what the files hold; -: not there; empty: no such setting
		stored         string // rules in the store
		want           string // in force, or the error
	}{
		{"nothing", "", "", "", "v0 default"},
		{"a rules file", oneRule("a", 7), "", "", "a=7 v1 file"},
		{"no rules in it", rule.NoRules, "", "", "v1 file"},
		{"both files", oneRule("a", 7), acmeOnly, "", "a=7 clients v1 file clients=1"},
		{"clients only", "", acmeOnly, "", "clients v0 default clients=1"},
		{"no clients", "", "{}", "", "clients v0 default"},
		{"rules in the store", "", "", `{"rules":[]}`, "v1 api stored"},
		{"a file before the store", oneRule("a", 7), "", `{"rules":[]}`, "a=7 v1 file"},
		{"clients, and rules in the store", "", acmeOnly, `{"rules":[]}`, "clients v1 api stored clients=1"},
		{"descriptors", "domain: auth\ndescriptors:\n  - key: auth_type\n    value: login\n    rate_limit: {unit: minute, " +
			"requests_per_unit: 5}\n", "", "",
			"auth/auth_type=login=5 v1 file"},

		{"no such rules file", "-", "", "", `RULES_FILE: "rules.yaml" cannot be read: no such file or directory`},
		{"no such clients file", "", "-", "", `CLIENTS_FILE: "clients.json" cannot be read: no such file or directory`},
		{"a faulty rules file", "rules:\n  - id: a\n    key: [nonsense]\n", "", "",
			`RULES_FILE: "rules.yaml" is invalid: line 2: rules[0].limit: is missing`},
		{"all its faults", "rules:\n  - id: a\n    key: [nonsense]\n", "", "",
			`; line 3: rules[0].key[0]: must be one of global,`},
		{"a faulty clients file", oneRule("a", 7), "{\n\"acme\":{\"algorithm\":\"fixed\"}}", "",
			`CLIENTS_FILE: "clients.json" is invalid: line 2: acme`},
		{"a faulty clients file of secrets",
			"rules:\n- {id: a, key: [header:X-Api-Key], clients: true, limit: {algorithm: fixed, limit: 7, window: 1}}",
			"{\n\"acme\":{\"algorithm\":\"fixed\"}}", "",
			`CLIENTS_FILE: "clients.json" is invalid: line 2: ["sha256:822b33ad87c1"]`},
		{"clients that do not go with the rules", strings.Replace(oneRule("a", 7), "key:",
			"priority: {header: P, classes: {low: 0.5, high: 0}, default: high}\n    key:", 1),
			`{"acme":{"algorithm":"fixed","limit":5,"window":1,"priority":"middle"}}`, "",
			`CLIENTS_FILE: "clients.json" is invalid: does not match the rules of rules.yaml: must have the class "middle"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, docs := t.TempDir(), new(simredis.DocumentStore)
			var files RuleFiles
			for name, text := range map[string]string{"rules.yaml": test.rules, "clients.json": test.clients} {
				if text == "" {
					continue
				}
				if name == "rules.yaml" {
					files.Rules = name
				} else {
					files.Clients = name
				}
				if text != "-" {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if test.stored != "" {
				body := fmt.Sprintf(`{"document":%s,"updatedAt":"2026-01-01T00:00:00Z"}`, test.stored)
				if _, ok, err := docs.CompareAndSet(RulesName, 0, []byte(body)); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			r, err := startRules(t, dir, files, docs)
			if err == nil {
				r.inForce(test.want)
				return
			}
			if _, ok := errors.AsType[*service.SettingError](err); !ok {
				t.Errorf("the error is a %T", err)
			}
			if got := strings.ReplaceAll(err.Error(), dir+"/", ""); !strings.Contains(got, test.want) {
				t.Errorf("told %s, want %s", got, test.want)
			}
		})
	}
}

// Rules that are set by the API, and the answers about them.
func TestRulesEndpoints(t *testing.T) {
	r := mustStartRules(t, t.TempDir(), RuleFiles{}, new(simredis.DocumentStore))
	for _, test := range []struct {
		method, path, body string
		ifMatch            string
		status             int
		answer             string // a part
		then               string // in force
	}{
		{"GET", "/config/rules", "", "", 200,
			`{"rules":[],"version":0,"epoch":0,"source":"default","updatedAt":"2026-01-19T16:30:00Z","stored":false}`,
			"v0 default"},
		{"PUT", "/config/rules", oneRule("a", 7), "", 200,
			`{"rules":[{"id":"a","key":["ip"],"limit":{"algorithm":"fixed","limit":7,"window":60},"mode":"enforce"}],"version":1,`, "a=7 v1 api stored"},
		{"GET", "/config/rules", "", "", 200, `"version":1,"epoch":1,"source":"api"`, "a=7 v1 api stored"},
		{"PUT", "/config/rules", `{"rules":[{"id":"b","limit":{"algorithm":"gcra","limit":1,"window":3}}]}`, "", 200,
			`"id":"b"`, "b=1 v2 api stored"},
		{"PUT", "/config/rules", oneRule("c", 1), `"1"`, 409, `"error":"the configuration has changed meanwhile`,
			"b=1 v2 api stored"},
		{"PUT", "/config/rules", oneRule("c", 1), `"2"`, 200, `"id":"c"`, "c=1 v3 api stored"},
		{"PUT", "/config/rules", oneRule("c", 2), "three", 400, `"path":"If-Match"`, "c=1 v3 api stored"},
		{"PUT", "/config/rules", "", "", 400, `"faults":[{`, "c=1 v3 api stored"},
		{"PUT", "/config/rules", "rules:\n  - id: global\n    key: [nonsense]\n    limt: {}\n", "", 400,
			`"path":"rules[0].id","faults":[{"line":2,"path":"rules[0].id","message":"must not be \"global\"`,
			"c=1 v3 api stored"},
		{"PUT", "/config/rules", "rules:\n  - id: global\n    key: [nonsense]\n    limt: {}\n", "", 400,
			`{"line":3,"path":"rules[0].key[0]","message":"must be one of`, "c=1 v3 api stored"},
		{"PUT", "/config/rules", "rules:\n  - id: global\n    key: [nonsense]\n    limt: {}\n", "", 400,
			`{"line":4,"path":"rules[0].limt"`, "c=1 v3 api stored"},
		{"PUT", "/config/rules", "rules: []\nversion: 3\n", "", 400, `"line":2,"path":"version"`, "c=1 v3 api stored"},
		{"PUT", "/config/rules", strings.Repeat(" ", 4<<20+1), "", 413, `4 MiB`, "c=1 v3 api stored"},
		{"POST", "/config/rules", "", "", 405, `allowed: GET, HEAD, PUT`, "c=1 v3 api stored"},
		{"POST", "/reload", "", "", 200, `"algorithm":"fixed"`, "c=1 v3 api stored"},
		{"PUT", "/config/rules", "domain: auth\ndescriptors:\n  - key: auth_type\n    value: login\n    rate_limit: " +
			"{unit: minute, requests_per_unit: 5}\n", "", 200,
			`{"domain":"auth","descriptors":[{"key":"auth_type","value":"login","rate_limit":{"unit":"minute","requests_per_unit":5}}],"version":4,`, "auth/auth_type=login=5 v4 api stored"},
		{"PUT", "/config/rules", "rules: []", "", 200, `{"rules":[],"version":5,`, "v5 api stored"},
		{"PUT", "/config/rules",
			`{"rules":[{"id":"c","limit":{"algorithm":"fixed","limit":1,"window":60,"burst":9}}],"notes":[]}`, "", 200,
			`"notes":[{"line":1,"path":"rules[0].limit.burst","message":"has no effect with algorithm fixed, which uses limit, window"}]`, "c=1 v6 api stored"},
	} {
		var fields []string
		if test.ifMatch != "" {
			fields = []string{"If-Match", test.ifMatch}
		}
		w := r.do(test.method, test.path, test.body, fields...)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.answer) {
			t.Errorf("%s %s %.40q: %d %s\nwant %d with %s", test.method, test.path, test.body, w.Code, w.Body, test.status,
				test.answer)
		}
		if ct := w.Header().Get("Content-Type"); ct != "application/json" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: content type %s, %s", test.method, test.path, ct, w.Body)
		}
		if etag := w.Header().Get("ETag"); test.status == 200 && test.path == "/config/rules" &&
			etag != fmt.Sprintf(`"%d"`, r.Active().Version) {
			t.Errorf("%s %s: ETag %s in version %d", test.method, test.path, etag, r.Active().Version)
		}
		r.inForce(test.then)
	}
	if r.changes != 6 || r.Active().Epoch != 6 || r.Set().Len() != 1 {
		t.Errorf("%d changes told, epoch %d, %d rules; want 6, 6, 1", r.changes, r.Active().Epoch, r.Set().Len())
	}
}

// What GET answers is a document for PUT, and so is what it answered when edited.
func TestRulesAnswerIsDocument(t *testing.T) {
	dir := t.TempDir()
	r := mustStartRules(t, dir, RuleFiles{}, new(simredis.DocumentStore))
	r.do("PUT", "/config/rules", oneRule("a", 7))
	got := r.do("GET", "/config/rules", "").Body.String()
	if w := r.do("PUT", "/config/rules", got); w.Code != 200 {
		t.Errorf("the answer %s cannot be put: %d %s", got, w.Code, w.Body)
	}
	document, err := r.Set().MarshalJSON()
	if err != nil || !strings.HasPrefix(got, strings.TrimSuffix(string(document), "}")) {
		t.Errorf("the answer %s became %s, %v", got, document, err)
	}
	for _, test := range []struct {
		text string
		want int
	}{
		{`{"version":1,"rules":[]}`, 200},
		{`{"rules":[],"version":{"a":[1]},"epoch":null,"source":1,"updatedAt":1,"stored":1,"file":1,"clients":1,"clientsFile":1,"notes":1}`, 200},
		{`{"version":1}`, 400},
		{`{"rules":[{"version":1}]}`, 400},
		{`{"rules":[],"x":1}`, 400},
		{`[1]`, 400},
		{`{"version"`, 400},
		{``, 400},
	} {
		if w := r.do("PUT", "/config/rules", test.text); w.Code != test.want {
			t.Errorf("%s: %d %s, want %d", test.text, w.Code, w.Body, test.want)
		}
	}
}

// A precondition counts for requests only that would be a success without it (RFC 9110
// section 13.2.1).
func TestFaultyRulesWithAnOldVersion(t *testing.T) {
	r := mustStartRules(t, t.TempDir(), RuleFiles{}, new(simredis.DocumentStore))
	for text, want := range map[string]int{`{"rules":[5]}`: 400, `{"rules":[]}`: 409} {
		if w := r.do("PUT", "/config/rules", text, "If-Match", `"99"`); w.Code != want {
			t.Errorf("%s: %d %s, want %d", text, w.Code, w.Body, want)
		}
	}
}

// With RULES_FILE the API says where rules are changed.
func TestRulesOfFile(t *testing.T) {
	dir := t.TempDir()
	docs := new(simredis.DocumentStore)
	other := mustStartRules(t, dir, RuleFiles{}, docs)
	other.do("PUT", "/config/rules", oneRule("stored", 1))
	other.write("rules.yaml", oneRule("a", 7))
	r := mustStartRules(t, dir, RuleFiles{Rules: "rules.yaml"}, docs)
	r.logged("INFO ConfigController - Applied new rules: rules=1, clients=0, source=file",
		"WARN ConfigController - RULES_FILE overrides the rules in the store file=rules.yaml")
	w := r.do("PUT", "/config/rules", oneRule("b", 1))
	if w.Code != 409 || !strings.Contains(w.Body.String(), `"the rules are those of RULES_FILE, `+r.path("rules.yaml")) {
		t.Errorf("PUT: %d %s, want 409 with the file", w.Code, w.Body)
	}
	w = r.do("GET", "/config/rules", "")
	if !strings.Contains(w.Body.String(), `"source":"file"`) ||
		!strings.Contains(w.Body.String(), `"file":"`+r.path("rules.yaml")) {
		t.Errorf("GET: %s, want source and file", w.Body)
	}
	r.Observe(epoch, store.Document{})
	r.Sync(epoch)
	r.inForce("a=7 v1 file")
	other.inForce("stored=1 v1 api stored")
}

// Files are read again on request. An invalid file changes nothing and is reported with its
// position.
func TestRulesReload(t *testing.T) {
	dir := t.TempDir()
	prep := &ruleRig{asker: asker{t: t}, dir: dir}
	prep.write("rules.yaml", oneRule("a", 7))
	prep.write("clients.json", acmeOnly)
	r := mustStartRules(t, dir, RuleFiles{Rules: "rules.yaml", Clients: "clients.json"}, new(simredis.DocumentStore))
	r.log.Taken()
	for _, test := range []struct {
		name       string
		file, text string // written before; empty: removed
		status     int
		answer     string
		then       string
		logged     string
	}{
		{"nothing new", "rules.yaml", oneRule("a", 7), 200, `"limit":100`, "a=7 clients v1 file clients=1", ""},
		{"other rules", "rules.yaml", oneRule("a", 8), 200, `"limit":100`, "a=8 clients v2 file clients=1",
			"INFO ConfigController - Applied new rules: rules=2, clients=1, source=file"},
		{"broken rules", "rules.yaml",
			"rules:\n  - id: a\n    key: [ip]\n    limit: {algorithm: fixed, limit: 0, window: 1}\n", 500,
			`"faults":[{"line":4,"path":"rules[0].limit.limit","message":"is missing or 0`, "a=8 clients v2 file clients=1",
			"ERROR ConfigController - File ignored, the previous rules stay in force setting=RULES_FILE file=rules.yaml " +
				"reason=line 4: rules[0].limit.limit: is missing or 0"},
		{"as before", "rules.yaml", oneRule("a", 8), 200, `"limit":100`, "a=8 clients v2 file clients=1",
			"INFO ConfigController - File no longer ignored, its content is in force setting=RULES_FILE file=rules.yaml"},
		{"still so", "rules.yaml", oneRule("a", 8), 200, `"limit":100`, "a=8 clients v2 file clients=1", ""},
		{"no rules file", "rules.yaml", "", 500, `"error":"RULES_FILE: ` + r.path("rules.yaml") +
			`: no such file or directory"`, "a=8 clients v2 file clients=1",
			"ERROR ConfigController - File ignored, the previous rules stay in force setting=RULES_FILE file=rules.yaml " +
				"reason=no such file"},
		{"back", "rules.yaml", oneRule("b", 8), 200, `"limit":100`, "b=8 clients v3 file clients=1",
			"INFO ConfigController - Applied new rules: rules=2, clients=1, source=file"},
		{"broken clients", "clients.json", "{\n\n\"acme\":5}", 500,
			`"faults":[{"line":3,"path":"acme","message":"must be`, "b=8 clients v3 file clients=1",
			"ERROR ConfigController - File ignored, the previous rules stay in force setting=CLIENTS_FILE file=clients.json " +
				"reason=line 3: acme: must be"},
		{"clients as before", "clients.json", acmeOnly, 200, `"limit":100`, "b=8 clients v3 file clients=1",
			"INFO ConfigController - File no longer ignored, its content is in force setting=CLIENTS_FILE " +
				"file=clients.json"},
		{"clients", "clients.json", acmeOnly[:len(acmeOnly)-1] + `,"b":{"algorithm":"fixed","limit":5,"window":1}}`, 200,
			`"limit":100`, "b=8 clients v4 file clients=2",
			"INFO ConfigController - Applied new rules: rules=2, clients=2, source=file"},
	} {
		if test.text == "" {
			if err := os.Remove(r.path(test.file)); err != nil {
				t.Fatal(err)
			}
		} else {
			r.write(test.file, test.text)
		}
		w := r.do("POST", "/reload", "")
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.answer) {
			t.Errorf("%s: %d %s, want %d with %s", test.name, w.Code, w.Body, test.status, test.answer)
		}
		r.inForce(test.then)
		lines := strings.ReplaceAll(strings.Join(r.log.Taken(), "\n"), dir+"/", "")
		if (lines == "") != (test.logged == "") || !strings.HasPrefix(lines, test.logged) || strings.Contains(lines, "\n") {
			t.Errorf("%s: logged\n%s\nwant\n%s", test.name, lines, test.logged)
		}
	}
}

// A folder or a pipe in place of a file is an error, and the proxy does not wait for a pipe's
// writer.
func TestRulesNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "pipe"} {
		_, err := startRules(t, dir, RuleFiles{Rules: name}, new(simredis.DocumentStore))
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While rules change, readers see one complete set after another.
func TestRulesSwapWhole(t *testing.T) {
	r := mustStartRules(t, t.TempDir(), RuleFiles{}, new(simredis.DocumentStore))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := int64(0); ; {
				a := r.Active()
				if a.Epoch < last || int64(a.Set.Len()) != a.Epoch {
					t.Errorf("epoch %d after %d, with %d rules", a.Epoch, last, a.Set.Len())
				}
				last = a.Epoch
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	text := "rules:\n"
	for i := range 50 {
		text += fmt.Sprintf("  - {id: r%d, match: {path: /%d}, limit: {algorithm: fixed, limit: 5, window: 1}}\n", i, i)
		if _, err := r.Put(epoch.Add(time.Duration(i)*time.Second), []byte(text), -1); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}

// A fault that a reload has returned is not logged by the watcher of the files as well, until the
// file is saved again.
func TestFaultOfReloadIsToldOnce(t *testing.T) {
	prep := &ruleRig{asker: asker{t: t}, dir: t.TempDir()}
	prep.write("rules.yaml", oneRule("a", 1))
	r := mustStartRules(t, prep.dir, RuleFiles{Rules: "rules.yaml"}, new(simredis.DocumentStore))
	r.log.Taken()
	r.write("rules.yaml", "rules: 1")
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"reload", func() { _ = r.Reload(epoch) }, 0},
		{"the watcher", func() { r.refresh(epoch) }, 0},
		{"the watcher, after another save", func() { r.refresh(epoch) }, 1},
		{"POST /reload", func() { r.do("POST", "/reload", "") }, 1},
		{"the watcher, after it", func() { r.refresh(epoch) }, 0},
	} {
		step.do()
		if lines := r.log.Taken(); len(lines) != step.want {
			t.Errorf("%s logged %q, want %d lines", step.name, lines, step.want)
		}
	}
}
