package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/proxy/rules/rule"
)

// tenOfWhichTwoMatch is what the speed of rules is measured with.
func tenOfWhichTwoMatch() string {
	lines := []string{
		"id: per-partner, match: {path: /api/**}, key: [header:X-Partner], clients: true",
		"id: reads, match: {methods: [GET], path: /api/test}, key: [ip]",
	}
	for i := range 8 {
		lines = append(lines, []string{
			"id: rN, match: {path: /api/N/**}, key: [ip]",
			"id: rN, match: {path: /other/N}, key: [path]",
			"id: rN, match: {methods: [POST], path: '/*/test'}, key: [header:X-Partner]",
			"id: rN, match: {headers: {X-Plan: pN}}, key: [cookie:sid]",
		}[i%4])
		lines[i+2] = strings.ReplaceAll(lines[i+2], "N", fmt.Sprint(i))
	}
	return rules(lines...)
}

const usual = "GET /api/test?x=1 | Host: api.example.com | User-Agent: loadgen/1 | Accept: */* | Accept-Encoding: " +
	"gzip | X-Partner: client-00000007 | X-Plan: gold | Cookie: sid=1"

func TestMatchDoesNotAllocate(t *testing.T) {
	few := clients(t, string(manyClients(100, true)))
	for _, test := range []struct {
		name, file, request string
		hits                int
	}{
		{"ten rules", tenOfWhichTwoMatch(), usual, 2},
		{"all parts", everything, "GET /a/%2e/%41?%71=%20 | Cookie: sid=1 | a: b | X-Priority: low", 2},
		{"missing parts", everything, "GET /", 2},
		{"several readings of the path", tenOfWhichTwoMatch(), "GET /api%2Ftest;x=1/", 2},
		{"secret parts", `rules: [{id: a, key: ["header:Authorization", "secret:query:q"], limit: {algorithm: off}}, {id: b, key: ["header:Authorization"], limit: {algorithm: off}}]`,
			"GET /?q=%41 | Authorization: Bearer x | Cookie: sid=1", 2},
		{"several readings", everything,
			"GET /a/%41?%71=%20&Q=1 | Cookie: sid=1; sid=%41; sid=\"\\101\" | a: b | X-Priority: low | X-Priority: high", 5},
		{"Basic", `rules: [{id: a, key: ["header:Authorization"], limit: {algorithm: off}}]`,
			"GET / | Authorization: Basic dXNl=cjpwYXM=", 2},
		{"descriptors", tree, "GET /a | X-Plan: best", 2},
	} {
		s := read(t, test.file, rule.Options{Clients: few, ClientKey: part(t, "cookie:sid"),
			DescriptorKeys: rule.DescriptorKeys{"plan": part(t, "header:X-Plan")}})
		h, client := head(t, test.request), address("2001:db8::1")
		var x rule.Scratch
		if n := len(s.Match(h, client, &x)); n != test.hits {
			t.Errorf("%s: %d rules apply, want %d", test.name, n, test.hits)
		}
		if n := testing.AllocsPerRun(100, func() { s.Match(h, client, &x) }); n != 0 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	few := clients(b, string(manyClients(100_000, false)))
	var many strings.Builder
	many.WriteString("domain: d\ndescriptors:\n")
	for i := range 5_000 {
		fmt.Fprintf(&many, "  - {key: x_partner, value: client-%08d, rate_limit: {unit: second, requests_per_unit: 5}}\n", i)
	}
	many.WriteString("  - {key: x_partner, rate_limit: {unit: second, requests_per_unit: 5}}\n")
	for _, bench := range []struct {
		name, file string
		o          rule.Options
		request    string
	}{
		{"no rules", rule.NoRules, rule.Options{}, usual},
		{"ten rules, two match", tenOfWhichTwoMatch(), rule.Options{}, usual},
		{"with 100,000 clients", tenOfWhichTwoMatch(), rule.Options{Clients: few}, usual},
		{"with a path that is not normal", tenOfWhichTwoMatch(), rule.Options{},
			strings.Replace(usual, "/test", "//%74est", 1)},
		{"5,000 descriptors", many.String(), rule.Options{}, usual},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := read(b, bench.file, bench.o)
			h, client := head(b, bench.request), address("192.0.2.7")
			var x rule.Scratch
			b.ReportAllocs()
			for b.Loop() {
				s.Match(h, client, &x)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var lines []string
			for i := range n {
				lines = append(lines, fmt.Sprintf("id: r%d, match: {path: /api/%d/**}, key: [header:X-Partner]", i, i))
			}
			text := rules(lines...)
			for b.Loop() {
				read(b, text, rule.Options{})
			}
		})
	}
}
