package rule_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/rule"
)

// fixed is a limit for rules that are wrong elsewhere.
const fixed = "limit: {algorithm: fixed, limit: 1, window: 1}"

func TestFaults(t *testing.T) {
	f := func(line, path, message string) {
		t.Helper()
		text := "rules:\n  - {" + line + "}\n"
		_, err := rule.Read([]byte(text), rule.Options{})
		faults, ok := errors.AsType[strict.Faults](err)
		if !ok || len(faults) != 1 {
			t.Errorf("%s:\nhave %v\nwant %s: %s", line, err, path, message)
			return
		}
		if path != "" {
			path = "rules[0]." + path
		} else {
			path = "rules[0]"
		}
		if got := faults[0]; got.Line != 2 || got.Path != path || !strings.HasPrefix(got.Message, message) {
			t.Errorf("%s:\nhave line %d, %s: %s\nwant %s: %s", line, got.Line, got.Path, got.Message, path, message)
		}
	}
	id := "id: a, " + fixed + ", "
	f(fixed, "id", "is missing")
	f("id: 5, "+fixed, "id", "must be a string, is 5")
	f("id: '', "+fixed, "id", "must not be empty")
	f("id: a b, "+fixed, "id",
		`must be at most 100 visible ASCII characters without quotes, backslashes and braces, is "a b"`)
	f("id: global, "+fixed, "id", `must not be "global", which is a built-in rule`)
	f("id: candidate, "+fixed, "id", `must not be "candidate", which is a built-in rule`)
	f(id+"limits: 1", "limits",
		"unknown field; allowed: id, exempt, match, key, limit, clients, cost, mode, soft, priority, maxDelay, missing")
	f(id+"Key: [ip]", "Key", "must be written key")
	f(id+"mode: enforce, mode: shadow", "mode", "given twice")
	f(id+"mode: off", "mode", `must be one of enforce, shadow, is "off"`)
	f(id+"mode: 1", "mode", "must be one of enforce, shadow, is 1")
	f(id+"mode:", "mode", "must be one of enforce, shadow, is null")
	f(id+"key: [ip, header: X-Id]", "key[1]",
		"must be one of global, ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, "+
			"secret:header:N, is an object")
	f(id+"match: {addresses: [7]}", "match.addresses[0]",
		"must be a network or an address such as 10.0.0.0/8 or 2001:db8::1, is 7")
	f(id+"clients: yes, key: [ip]", "clients", `must be true or false, is "yes"`)
	f(id+"clients: true", "key", "is missing")
	f(id+"clients: true, key: [ip, path]", "key", "must be one part")
	f(id+"key: ip", "key", `must be a list, is "ip"`)
	f(id+"key: []", "key", "must have from 1 to 8 parts, has 0")
	f(id+"key: [global, ip]", "key", "must not combine global")
	f(id+"key: [header:X-A, 'header:x-a']", "key[1]", "given twice")
	f(id+`key: ["secret:ip"]`, "key[0]", `must be secret:header:N, secret:cookie:N or secret:query:N, is "secret:ip"`)
	f(id+`key: ["secret:secret:header:N"]`, "key[0]",
		`must be secret:header:N, secret:cookie:N or secret:query:N, is "secret:secret:header:N"`)
	f(id+`key: ["header:X-Api-Key", "secret:header:x-api-key"]`, "key[1]", "given twice")
	f(id+"key: [ips]", "key[0]",
		`must be one of global, ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, secret:header:N, is "ips"`)
	f(id+"key: [ip/0]", "key[0]", "must have a prefix of 1 to 32")
	f(id+"key: [ip/129]", "key[0]", "must have a prefix of 1 to 32")
	f(id+"key: [ip/024]", "key[0]", "must have a prefix of 1 to 32")
	f(id+"key: ['header:']", "key[0]", "must name a header")
	f(id+"key: ['header:X Id']", "key[0]", "must name a header")
	f(id+"match: 1", "match", "must be an object, is 1")
	f(id+"match:", "match", "must be an object, is null")
	f(id+"match: {}, match: {}", "match", "given twice")
	f(id+"match: {paths: /}", "match.paths", "unknown field; allowed: methods, path, host, headers, addresses")
	f(id+"match: {methods: []}", "match.methods", "must not be empty")
	f(id+"match: {methods: [get]}", "match.methods[0]", `must be a method in upper case, such as GET, is "get"`)
	f(id+"match: {methods: [GET, GET]}", "match.methods[1]", "given twice")
	f(id+"match: {path: api}", "match.path", `must begin with /, is "api"`)
	f(id+"match: {path: /api/}", "match.path",
		`must not end in /, is "/api/": write /api for that path alone, /api/** to include all paths below it`)
	f(id+"match: {path: /a//b/../c}", "match.path", `must be in normal form, is "/a//b/../c": write /a/c`)
	f(id+"match: {path: /a?b=c}", "match.path", "must be a path without ? and #")
	f(id+"match: {path: /a/*.jpg}", "match.path", "must have * (one segment) and ** (any number) as whole segments")
	f(id+"match: {host: 'a.example:80'}", "match.host", "must be a host without port")
	f(id+"match: {headers: {X-Plan: [a]}}", "match.headers.X-Plan", "must be a string, is a list")
	f(id+"match: {headers: {X-Plan: a, x-plan: b}}", "match.headers.x-plan", "given twice")
	f(id+"match: {headers: {X Plan: a}}", `match.headers["X Plan"]`, "must be a field name")
	f("id: a", "limit", "is missing")
	f("id: a, limit: {algorithm: fixed, limit: 1}", "limit.window", "is missing or 0")
	f("id: a, limit: {algorithm: fix, limit: 1, window: 1}", "limit.algorithm", "must be one of fixed")
	f("id: a, limit: {algorithm: 7, limit: 1, window: 1}", "limit.algorithm",
		"must be one of fixed, sliding, token, sliding_log, gcra, leaky, off, is 7")
	f("id: a, limit: {algorithm: fixed, limit: '1', window: 1}", "limit.limit", `must be a whole number, is "1"`)
	f("id: a, limit: {algorithm: fixed, limit: 1.5, window: 1}", "limit.limit", "must be a whole number, is 1.5")
	f("id: a, limit: {algorithm: fixed, limit: 1, window: true}", "limit.window", "must be a number, is true")
	f("id: a, limit: {algorithm: fixed, limit: 0x10, window: 1}", "limit.limit", `must be a whole number, is "0x10"`)
	f("id: a, limit: {algorithm: fixed, limit: 1, window: 1, windows: 1}", "limit.windows",
		"unknown field; allowed: algorithm, limit, window")
	f(id+"cost: 0", "cost", "must be a whole number from 1 to 1000000000, is 0")
	f(id+"cost: 1.5", "cost", "must be a whole number, is 1.5")
	f(id+"cost: a", "cost", `must be a whole number, is "a"`)
	f(id+"cost: {default: 1}", "cost", "must be a number, or have one of header and methods")
	f(id+"cost: {header: X-Cost, methods: {GET: 1}}", "cost", "must be a number, or have one of header and methods")
	f(id+"cost: {header: X-Cost, default: 5, max: 4}", "cost.max", "must be a whole number from 5")
	f(id+"cost: {methods: {get: 1}}", "cost.methods.get", "must be a method in upper case")
	f(id+"cost: {methods: {}}", "cost.methods", "must not be empty")
	f(id+"soft: {overshoot: 0.2}", "soft.for", "is missing")
	f(id+"soft: {overshoot: 0, for: 1}", "soft.overshoot", "must be")
	f("id: a, limit: {algorithm: gcra, limit: 10, window: 1}, priority: {classes: {a: 0, b: 0.5}, default: a}",
		"priority", "has no effect: nothing can be kept back from a limit of one permit at a time (with gcra, "+
			"burst sets how many)")
	f("id: a, limit: {algorithm: fixed, limit: 1, window: 1}, priority: {classes: {a: 0, b: 0.5}, default: a}",
		"priority", "has no effect")
	f("id: a, limit: {algorithm: leaky, capacity: 5, fillRate: 1}, maxDelay: 0", "maxDelay",
		"must be at least 0.000001 seconds, is 0; without it a request may wait as long as the queue is")
	f("id: a, limit: {algorithm: leaky, capacity: 5, fillRate: 1}, maxDelay: 0.0000001", "maxDelay",
		"must be at least 0.000001 seconds, is 0.0000001")
	f("id: a, limit: {algorithm: leaky, capacity: 5, fillRate: 1}, maxDelay: -1", "maxDelay",
		"must be from 0 to 86400, is -1")
	f(id+"key: [ip], missing: drop", "missing", `must be one of share, skip, refuse, is "drop"`)
	f(id+"missing: skip", "missing", "is allowed only with a key that requests may lack")
	f(id+"priority: urgent", "priority",
		`must be an object such as {header: X-Priority, classes: {high: 0, low: 0.3}, default: low}; is "urgent"`)
	f("id: a, limit: {algorithm: fixed, limit: 1, window: 1, priority: urgent}", "limit.priority",
		"unknown field; allowed: algorithm, limit, window, capacity, fillRate, burst")
	f(id+"priority: {classes: {a: 1}, default: a}", "priority.classes.a", "must be from 0 to 0.999, is 1")
	f(id+"priority: {classes: {a: 0.1234}, default: a}", "priority.classes.a", "must have at most 3 decimals")
	f(id+"priority: {classes: {a: 0}, default: b}", "priority.default", `must be one of the classes, is "b"`)
	f(id+"priority: {classes: {a: 0}}", "priority.default", "is missing")
	f(id+"priority: {default: a}", "priority.classes", "is missing")
	f(id+"maxDelay: 5", "maxDelay", "is allowed only with algorithm leaky")
	f("id: a, limit: {algorithm: leaky, capacity: 1, fillRate: 1}, maxDelay: -1", "maxDelay",
		"must be from 0 to 86400, is -1")
}

// All faults of a file are reported, each with its position.
func TestAllFaultsAtOnce(t *testing.T) {
	_, err := rule.Read([]byte(`rules:
  - id: one
    match:
      path: api
      methods: [get]
    limit:
      algorithm: fixed
      limit: -1
      window: 1
  - id: one
    key: [ip, header:X]
    limit: {algorithm: sliding, limit: 1, window: 1}
    cost: 0
`), rule.Options{})
	want := []string{
		`line 4: rules[0].match.path: must begin with /, is "api"`,
		`line 5: rules[0].match.methods[0]: must be a method in upper case, such as GET, is "get"`,
		`line 8: rules[0].limit.limit: must be greater than 0, is -1`,
		`line 10: rules[1].id: must be unique, "one" is also that of rules[0]`,
		`line 13: rules[1].cost: must be a whole number from 1 to 1000000000, is 0`,
	}
	if err == nil || err.Error() != strings.Join(want, "; ") {
		t.Errorf("have %v\nwant %s", err, strings.Join(want, "; "))
	}
}

func TestFilesThatAreNoRules(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := rule.Read([]byte(text), rule.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: have %v, want %s", text, err, want)
		}
	}
	f("", "is empty; must be an object with rules")
	f("# nothing\n", "is empty")
	only := func(text, want string) {
		t.Helper()
		if _, err := rule.Read([]byte(text), rule.Options{}); err == nil || err.Error() != want {
			t.Errorf("%q: have %v, want %s and nothing else", text, err, want)
		}
	}
	only("[]", "line 1: must be an object, is a list")
	only("null", "line 1: must be an object, is null")
	only("# a word\nrules", `line 2: must be an object, is "rules"`)
	f("{}", "rules: is missing; must be a list, [] for no rules")
	f("rules:\n", "rules: must be a list, is null")
	f("rules: {}\n", "rules: must be a list, is an object")
	f("rules: [\n  {id: a,\n", "line 3: not valid YAML")
	f("rules: []\nrules: []\n", "line 2: rules: given twice")
	f("rules: []\nrule: 1\n", "line 2: rule: unknown field; allowed: rules")
	f("rules: []\n---\nrules: []\n", "line 3: must be one YAML document")
	if _, err := rule.Read([]byte("rules: []\n---\n"), rule.Options{}); err != nil {
		t.Errorf("with a last line of ---: %v", err)
	}
	f("rules: &a []\n", "anchors, tags and merge keys are not supported")
	f("rules: !!seq []\n", "anchors, tags and merge keys are not supported")
	f("rules: [{match: {host: *.example.com}}]\n",
		"line 1: aliases are not supported; a string that begins with * must be in quotes")
	f("rules: [&a {}, *a]\n", "line 1: rules[1]: aliases are not supported")
	f("rules: []\n<<: {a: 1}\n", "anchors, tags and merge keys are not supported")
	f("rules: \"\xff\"", "line 1: must be UTF-8")
	f(strings.Repeat("[", 100_000), "nested deeper than 32 levels")
	f("- "+strings.Repeat("[", 100_000), "exceeded max depth")
	f(strings.Repeat("- ", 100_000)+"a", "exceeded max depth")
	f(strings.Repeat("- ", 60)+"a", "nested deeper than 32 levels")
	f(strings.Repeat("[", 60)+strings.Repeat("]", 60), "nested deeper than 32 levels")
	for _, end := range []string{"\n", "\r", "\r\n", "\u2028"} {
		f("rules: []\n"+strings.Repeat(end, 1<<19), "must be at most 524288 lines and commas")
	}
	f("rules: []\n"+strings.Repeat("a: 1\n", 10_000), "line 3: a: given twice")
	f(strings.Repeat(" ", 9<<20), "must be at most 8388608 bytes")
	f(rules(make([]string, 0)...)+strings.Repeat("  - {}\n", 10_001), "rules: must be at most 10000 rules, is 10001")
	f("domain: a\ndescriptors: []\nrules: []\n", "rules: unknown field; allowed: domain, descriptors")
}

// Of a file with very many faults a hundred are reported, with the number of the others.
func TestManyFaults(t *testing.T) {
	_, err := rule.Read([]byte("rules:\n"+strings.Repeat("  - 1\n", 150)), rule.Options{})
	faults, _ := errors.AsType[strict.Faults](err)
	if n := len(faults); n != 101 || !strings.HasPrefix(faults[100].Message, "and ") {
		t.Errorf("%d faults, the last is %v", n, faults[n-1])
	}
}

func TestTooManyRulesCouldApply(t *testing.T) {
	few := clients(t, `{"a":{"algorithm":"fixed","limit":1,"window":1}}`)
	key := part(t, "ip")
	n := func(n int, format string) (lines []string) {
		for i := range n {
			lines = append(lines, strings.ReplaceAll(format, "N", fmt.Sprint(i)))
		}
		return lines
	}
	for _, test := range []struct {
		name  string
		lines []string
		o     rule.Options
		want  string
	}{
		{"eight of all", n(8, "id: rN"), rule.Options{}, ""},
		{"nine of all", n(9, "id: rN"), rule.Options{},
			"line 10: rules[8]: the rules r0, r1, r2, r3, r4, r5, r6, r7, r8 could all apply to one request; at most 8 may"},
		{"seven and the clients", n(7, "id: rN"), rule.Options{Clients: few, ClientKey: key}, ""},
		{"eight and the clients", n(8, "id: rN"), rule.Options{Clients: few, ClientKey: key},
			"r0, r1, r2, r3, r4, r5, r6, r7 could all apply to one request; at most 7 may"},
		{"paths", n(50, "id: rN, match: {path: /N/**}"), rule.Options{}, ""},
		{"globs", n(50, "id: rN, match: {path: '/**/N'}"), rule.Options{}, ""},
		{"globs that meet", append(n(5, "id: aN, match: {path: '/N/**'}"), n(9, "id: bN, match: {path: '/*/**/x'}")...),
			rule.Options{}, "a0, b0, b1, b2, b3, b4, b5, b6, b7 could"},
		{"hosts", n(50, "id: rN, match: {host: 'N.example.com'}"), rule.Options{}, ""},
		{"methods", append(n(6, "id: rN, match: {methods: [GET]}"), n(6, "id: sN, match: {methods: [PUT, POST]}")...),
			rule.Options{}, ""},
		{"fields", n(50, "id: rN, match: {headers: {X-Plan: N}}"), rule.Options{}, ""},
		{"different fields", n(9, "id: rN, match: {headers: {X-N: a}}"), rule.Options{}, "could all apply"},
		{"grid", append(append(n(40, "id: aN, match: {headers: {A: N}}"), n(40, "id: bN, match: {path: /N}")...),
			n(6, "id: cN")...), rule.Options{}, ""},
		{"grid and one", append(append(n(40, "id: aN, match: {headers: {A: N}}"), n(40, "id: bN, match: {path: /N}")...),
			n(7, "id: cN")...), rule.Options{}, "a0, b0, c0, c1, c2, c3, c4, c5, c6"},
	} {
		_, err := rule.Read([]byte(rules(test.lines...)), test.o)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: have %v, want %q", test.name, err, test.want)
		}
	}
}

// The fields that are decoded one by one are those of package limit.
func TestLimitFieldsAreThoseOfLimit(t *testing.T) {
	_, err := rule.Read([]byte("rules:\n  - {id: a, limit: {x: 1}}\n"), rule.Options{})
	var names []string
	for f := range reflect.TypeFor[limit.Config]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	if want := "unknown field; allowed: " + strings.Join(names, ", "); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("have %v, want %s", err, want)
	}
}

// The largest group of counters is store.CountersMax, one of them global.
func TestHitsMaxLeavesRoomForGlobal(t *testing.T) {
	source := testkit.Must(os.ReadFile("../../store/store.go"))(t)
	if want := fmt.Sprintf("const CountersMax = %d\n", rule.MatchedRulesMax+1); !strings.Contains(string(source), want) {
		t.Errorf("package store does not say %s", want)
	}
}

// In a file that a newer proxy may have written, unknown fields are reported and ignored; all
// other faults remain faults.
func TestUnknownFieldsPassedOver(t *testing.T) {
	const text = `{"rules":[{"id":"a","match":{"path":"/a","color":"red"},"limit":{"algorithm":"fixed","limit":1,"window":1,"shape":1},"note":{"x":[1]}}],"more":1}`
	var told []string
	o := rule.Options{Unknown: func(f strict.Fault) { told = append(told, f.Path) }}
	s, err := rule.Read([]byte(text), o)
	if got := strings.Join(told, " "); err != nil ||
		got != "rules[0].match.color rules[0].limit.shape rules[0].note more" {
		t.Errorf("%v, told %s", err, got)
	} else if document, _ := s.MarshalJSON(); string(
		document) != `{"rules":[{"id":"a","match":{"path":"/a"},"key":["global"],"limit":{"algorithm":"fixed","limit":1,"window":1},"mode":"enforce"}]}` {
		t.Errorf("read as %s", document)
	}
	for _, wrong := range []string{`{"Rules":[]}`, `{"rules":[],"rules":[]}`, `{"rules":[{"id":"a","note":1}]}`} {
		if _, err := rule.Read([]byte(wrong), o); err == nil {
			t.Errorf("%s is no fault", wrong)
		}
	}
	if _, err := rule.Read([]byte(text), rule.Options{}); err == nil {
		t.Error("unknown fields are no faults in a file")
	}
}
