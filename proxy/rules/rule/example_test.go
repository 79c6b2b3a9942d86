package rule_test

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"weir/internal/data/strict"
	"weir/internal/net/http1"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// request reads a head, as a loop does.
func request(text string) *keys.Request {
	var h http1.Head
	reader := http1.NewRequestReader(&http1.Limits{})
	if _, err := reader.Next([]byte(text), &h); err != nil {
		panic(err)
	}
	return (*keys.Request)(&h)
}

func Example() {
	set, err := rule.Read([]byte(`
rules:
  - id: per-partner
    match: {path: /api/**}
    key: [header:X-Partner]
    limit: {algorithm: gcra, limit: 1, window: 3}
  - id: writes
    match: {methods: [POST, PUT]}
    key: [ip]
    limit: {algorithm: fixed, limit: 100, window: 60}
    cost: 5
`), rule.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var scratch rule.Scratch
	client := netip.MustParseAddr("2001:db8::7")
	for _, text := range []string{
		"POST /api//orders/../orders HTTP/1.1\r\nHost: a\r\nX-Partner: acme\r\n\r\n",
		"GET /api HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		for _, match := range set.Match(request(text), client, &scratch) {
			fmt.Printf("%s, key %s, cost %d, %d permits\n", match.Rule.ID, match.Key, match.Cost, match.Limit.Permits())
		}
	}
	// Output:
	// per-partner, key 4:acme, cost 1, 1 permits
	// writes, key 13:2001:db8::/64, cost 5, 100 permits
	// per-partner, key -, cost 1, 1 permits
}

func ExampleRead_faults() {
	_, err := rule.Read([]byte(`
rules:
  - id: per-partner
    match: {paths: /api/**}
    key: [X-Partner]
    limit: {algorithm: fixed, limit: 1}
`), rule.Options{})
	for _, fault := range err.(strict.Faults) {
		fmt.Println(fault)
	}
	// Output:
	// line 4: rules[0].match.paths: unknown field; allowed: methods, path, host, headers, addresses
	// line 5: rules[0].key[0]: must be one of global, ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, secret:header:N, is "X-Partner"
	// line 6: rules[0].limit.window: is missing or 0; algorithm fixed needs it, greater than 0
}

func ExampleRead_descriptors() {
	set, err := rule.Read([]byte(`
domain: messaging
descriptors:
  - key: type
    value: marketing
    rate_limit: {unit: day, requests_per_unit: 5}
`), rule.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	document, _ := json.Marshal(set)
	fmt.Println(set.Rule(0).ID, set.Rule(0).Limit)
	fmt.Println(string(document))
	// Output:
	// messaging/type=marketing algorithm=fixed, limit=5, window=86400
	// {"domain":"messaging","descriptors":[{"key":"type","value":"marketing","rate_limit":{"unit":"day","requests_per_unit":5}}]}
}

func ExampleReadClients() {
	clients, err := rule.ReadClients([]byte(`{"acme":{"algorithm":"token","capacity":50,"fillRate":5,"cost":2}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	key, _ := keys.ParsePart("header:X-Client-Id")
	set, err := rule.Read([]byte(rule.NoRules), rule.Options{Clients: clients, ClientKey: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	var scratch rule.Scratch
	h := request("GET / HTTP/1.1\r\nHost: a\r\nX-Client-Id: acme\r\n\r\n")
	for _, match := range set.Match(h, netip.Addr{}, &scratch) {
		fmt.Println(match.Rule.ID, match.Cost, match.Limit.Permits())
	}
	// Output:
	// clients 2 50
}
