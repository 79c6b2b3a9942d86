package rule_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

const threeClients = `{
	"acme": {"algorithm":"token","capacity":50,"fillRate":5,"cost":2},
	"": {"algorithm":"fixed","limit":3,"window":1},
	"2001:db8:1:2::/64": {"algorithm":"fixed","limit":4,"window":1}
}`

func TestClientsOfARule(t *testing.T) {
	s := read(t, rules(
		"id: per, key: [header:X-Id], clients: true, cost: 7, soft: {overshoot: 0.5, for: 10}, limit: {algorithm: fixed, "+
			"limit: 10, window: 1}",
		"id: net, key: [ip], clients: true, match: {path: /net}",
	), rule.Options{Clients: clients(t, threeClients)})
	for _, test := range []struct {
		request   string
		id        string
		permits   int64
		cost      int64
		overshoot int64
	}{
		{"GET / | X-Id: acme", "per", 50, 2, 25},
		{"GET / | X-Id: Acme", "per", 10, 7, 5},
		{"GET / | X-Id:", "per", 3, 7, 1},
		{"GET /", "per", 10, 7, 5},
		{"GET /net", "net", 4, 1, 0},
	} {
		var x rule.Scratch
		found := s.Match(head(t, test.request), address("2001:db8:1:2::1"), &x)
		match := found[len(found)-1]
		overshoot, _ := match.Limit.Overshoot()
		if match.Rule.ID != test.id || match.Limit.Permits() != test.permits || match.Cost != test.cost ||
			overshoot != test.overshoot {
			t.Errorf("%s: rule %s, limit %+v and %d, cost %d; want %+v", test.request, match.Rule.ID, match.Limit.Config(),
				overshoot, match.Cost, test)
		}
	}
}

// Without a rule for clients a built-in one limits those that are named.
func TestBuiltInClientsRule(t *testing.T) {
	o := rule.Options{Clients: clients(t, threeClients), ClientKey: part(t, "header:X-Client-Id")}
	s := read(t, rule.NoRules, o)
	for request, want := range map[string]string{
		"GET / | X-Client-Id: acme":    "clients:4:acme",
		"GET / | X-Client-Id:":         "clients:0:",
		"GET / | X-Client-Id: unknown": "",
		"GET /":                        "",
	} {
		if got := matches(t, s, request, ""); got != want {
			t.Errorf("%s meets %q, want %q", request, got, want)
		}
	}
	if got := matches(t, read(t, messaging, o), "GET / | X-Client-Id: acme | Message-Type: marketing",
		""); got != "messaging/message_type=marketing: clients:4:acme" {
		t.Errorf("with descriptors: %s", got)
	}
	if got := matches(t, read(t, rules("id: r, clients: true, key: [ip]"), o), "GET / | X-Client-Id: acme",
		"192.0.2.7"); got != "r:9:192.0.2.7" {
		t.Errorf("with a rule for clients: %s", got)
	}
}

func TestClientsFaults(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := rule.ReadClients([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v, want %s", text, err, want)
		}
	}
	f(``, "line 1: not valid JSON: column 1: want a value, have the end")
	f(`[]`, "line 1: must be an object, is a list")
	f("{\n\"a\": {\n\"algorithm\": }}", "line 3: not valid JSON")
	f(`{"a":{"algorithm":"fixed","limit":1,"window":1},}`, "not valid JSON")
	f("{\n\"a\":1}", "line 2: a: must be an object, is 1")
	f(`{"a":{}}`, "line 1: a.algorithm: is missing")
	f("{\"a\":{\"algorithm\":\"fixed\",\n\"limit\":1}}", "a.window: is missing or 0")
	f("{\"a\":{\"algorithm\":\"fixed\",\n\"limit\":-1,\"window\":1}}", "line 2: a.limit: must be greater than 0, is -1")
	f(`{"a.b":{"algorithm":"fixed","limit":1,"window":1,"burts":1}}`,
		`["a.b"].burts: unknown field; allowed: algorithm, limit, window, capacity, fillRate, burst, cost, priority`)
	f(`{"a":{"algorithm":"fixed","limit":1,"window":1,"cost":0}}`, "a.cost: must be a whole number from 1")
	f(`{"a":{"algorithm":"fixed","limit":1,"window":1,"priority":1}}`, "a.priority: must be a string, is 1")
	f(`{"a":{"algorithm":"fixed","limit":1,"window":1,"limit":2}}`, "a.limit: given twice")
	f("{\"a\":{\"algorithm\":\"fixed\",\"limit\":1,\"window\":1},\n\"\\u0061\":{\"algorithm\":\"fixed\",\"limit\":1,\"window\":1}}", "line 2: a: given twice")
	f(`{"`+strings.Repeat("x", 1025)+`":{"algorithm":"fixed","limit":1,"window":1}}`,
		"must be at most 1024 bytes long, is 1025")
	f("{\"\xff\":1}", "line 1: must be UTF-8")
}

// What the client file says must go with the rules.
func TestClientsAndRulesTogether(t *testing.T) {
	f := func(file, line, want string) {
		t.Helper()
		_, err := rule.Read([]byte(rules(line)), rule.Options{Clients: clients(t, file)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v, want %q", line, err, want)
		}
	}
	f(threeClients, "key: [ip], clients: true", "")
	const classy = `{"acme": {"algorithm":"off","priority":"high"}}`
	f(classy, "key: [ip], clients: true, priority: {classes: {high: 0}, default: high}", "")
	f(classy, "key: [ip], clients: true, priority: {classes: {low: 0, middle: 0}, default: low}",
		`must have the class "high", which is the priority of client "acme" in the client file; the classes are low, middle`)
	f(classy, "key: [ip], clients: true",
		`must have the class "high", which is the priority of client "acme" in the client file; no rule has priority classes`)
	f(`{"a":{"algorithm":"fixed","limit":1,"window":1}}`, "key: [ip], clients: true, soft: {overshoot: 0.1, for: 1}",
		"rules[0].soft: must also be valid with the limits of the client file")
}

// A CLIENT_KEY that does not distinguish clients is a fault where it is needed.
func TestClientKey(t *testing.T) {
	for _, key := range []keys.Part{{}, part(t, "global")} {
		o := rule.Options{Clients: clients(t, threeClients), ClientKey: key}
		if _, err := rule.Read([]byte(rule.NoRules), o); err == nil ||
			!strings.HasPrefix(err.Error(), "CLIENT_KEY: must be a part") {
			t.Errorf("%q: %v", key, err)
		}
		read(t, rules("key: [ip], clients: true"), o)
	}
}

// manyClients is a file of n clients, each with a limit of its own or with one
// of ten.
func manyClients(n int, own bool) []byte {
	var b strings.Builder
	for i := range n {
		number := i%10 + 1
		if own {
			number = i + 1
		}
		fmt.Fprintf(&b, "%c\"client-%08d\":{\"algorithm\":\"token\",\"capacity\":%d,\"fillRate\":5}\n", ",{"[b2i(i == 0)],
			i, number)
	}
	b.WriteString("}")
	return []byte(b.String())
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bytesOf returns how much memory clients keep.
func bytesOf(t testing.TB, data []byte) (c *rule.Clients, bytes uint64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c = testkit.Must(rule.ReadClients(data))(t)
	runtime.GC()
	runtime.ReadMemStats(&after)
	return c, after.HeapAlloc - before.HeapAlloc
}

func TestClientsAreSmall(t *testing.T) {
	const n, most = 20_000, 200
	c, bytes := bytesOf(t, manyClients(n, true))
	if c.Len() != n || bytes > n*most {
		t.Errorf("%d clients with limits of their own take %d bytes each, want at most %d", c.Len(), bytes/n, most)
	}
	runtime.KeepAlive(c)
}

// Each of many clients is found, and has its own limit.
func TestManyClientsAreFound(t *testing.T) {
	const n = 5_000
	s := read(t, rule.NoRules, rule.Options{Clients: clients(t, string(manyClients(n, true))),
		ClientKey: part(t, "header:X-Id")})
	h := head(t, "GET / | X-Id: client-00000000")
	id := h.Fields[len(h.Fields)-1].Value
	var x rule.Scratch
	for i := range n {
		copy(id, fmt.Sprintf("client-%08d", i))
		found := s.Match(h, address(""), &x)
		if len(found) != 1 ||
			found[0].Limit.Config() != (limit.Config{Algorithm: limit.Token, Capacity: int64(i + 1), FillRate: 5}) {
			t.Fatalf("%s: %+v", id, found)
		}
	}
}

// FuzzReadClients: whatever is read gives faults with words, or as many clients
// as the object has members.
func FuzzReadClients(f *testing.F) {
	f.Add([]byte(threeClients))
	f.Add(manyClients(3, true))
	f.Add([]byte(`{"a":{"algorithm":"fixed","limit":1,"window":1,"cost":[{"x":null}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := rule.ReadClients(data)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("a fault without words")
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(data, &members); err != nil || len(members) != c.Len() {
			t.Fatalf("%d clients of %d members, %v", c.Len(), len(members), err)
		}
	})
}

func BenchmarkReadClients(b *testing.B) {
	for _, own := range []bool{false, true} {
		name := "ten limits"
		if own {
			name = "limits of their own"
		}
		b.Run(name, func(b *testing.B) {
			const n = 100_000
			data := manyClients(n, own)
			var bytes uint64
			var c *rule.Clients
			for b.Loop() {
				c, bytes = bytesOf(b, data)
			}
			runtime.KeepAlive(c)
			b.ReportMetric(float64(bytes)/n, "bytes/client")
		})
	}
}

// The clients' limits are softened once for all rules that are as soft, and not
// without bound.
func TestSoftLimitsOfClientsAreBounded(t *testing.T) {
	var names []string
	for i := range 1_001 {
		names = append(names, fmt.Sprintf(`"c%d":{"algorithm":"fixed","limit":%d,"window":60}`, i, 1_000+i))
	}
	o := rule.Options{Clients: clients(t, "{"+strings.Join(names, ",")+"}")}
	file := func(span func(i int) int) []byte {
		var list []string
		for i := range 1_000 {
			list = append(list, fmt.Sprintf(
				`{"id":"r%d","match":{"path":"/%d"},"key":["ip"],"clients":true,"limit":{"algorithm":"fixed","limit":10,"window":1},"soft":{"overshoot":0.5,"for":%d}}`, i, i, span(i)))
		}
		return []byte(`{"rules":[` + strings.Join(list, ",") + `]}`)
	}
	if _, err := rule.Read(file(func(int) int { return 30 }), o); err != nil {
		t.Errorf("rules that are as soft: %v", err)
	}
	_, err := rule.Read(file(func(i int) int { return 30 + i }), o)
	if want := "rules[999].soft: must be the same in more rules"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("have %v, want %s", err, want)
	}
}
