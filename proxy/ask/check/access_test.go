package check

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// statusOf is the status of an answer to a request from this machine.
func statusOf(t *testing.T, a *AccessPolicy, request string) string {
	return statusFrom(t, "127.0.0.1", a, request)
}

// statusFrom is the status of an answer to a request from an address; a unix socket has none. 127.0.0.2 and
// 192.0.2.2 are trusted.
func statusFrom(t *testing.T, from string, a *AccessPolicy, request string) string {
	env := granting(t)
	env.Access, env.Documents = a, func() *Documents { return &Documents{Marks: []byte("{}")} }
	env.Trusted = func(at netip.Addr) bool { return strings.HasSuffix(at.String(), ".0.2") || at.String() == "192.0.2.2" }
	var peer netip.Addr
	if from != "" {
		peer = netip.MustParseAddr(from)
	}
	s := New(time.Unix(1, 0), env, peer, false)
	request = strings.ReplaceAll(request, "|", "\r\n") + "\r\n\r\n"
	if s.HandleData(time.Unix(1, 0), []byte(request)) != len(request) || len(env.Out) < 12 {
		t.Fatalf("%q: %q", request, env.Out)
	}
	return string(env.Out[9:12])
}

// Without a token, a web page in a browser on this machine may not ask, whatever name it resolves
// to this machine. With DECISION_TOKEN every asker needs the token.
func TestWhoMayAsk(t *testing.T) {
	local, open := &AccessPolicy{Local: true}, &AccessPolicy{Open: true}
	for _, test := range []struct {
		access  *AccessPolicy
		request string
		status  string
	}{
		{local, "GET /v1/marks HTTP/1.1|Host: localhost:8083", "200"},
		{local, "GET /v1/marks HTTP/1.1|Host: 127.0.0.1:8083", "200"},
		{local, "GET /v1/marks HTTP/1.1|Host: [::1]:8083", "200"},
		{local, "GET /v1/marks HTTP/1.1|Host: [::1]", "200"},
		{local, "GET /v1/marks HTTP/1.1|Host: evil.example:8083", "401"},
		{local, "GET /v1/marks HTTP/1.1|Host: localhost.evil.example", "401"},
		{local, "GET http://evil.example/v1/marks HTTP/1.1|Host: evil.example", "401"},
		{local, "GET /v1/documents/d HTTP/1.1|Host: localhost|Sec-Fetch-Site: cross-site", "401"},
		{local, "POST /v1/decide HTTP/1.1|Host: localhost|origin: null|Content-Length: 9", "401"},
		{open, "GET /v1/marks HTTP/1.1|Host: weir:8083", "200"},
		{open, "POST /v1/decide HTTP/1.1|Host: weir:8083|Origin: http://weir:8083|Content-Length: 9", "401"},
		{&AccessPolicy{Local: true, Token: "secret"}, "GET /v1/marks HTTP/1.1|Host: weir:8083|Authorization: Bearer secret", "200"},
		{&AccessPolicy{Local: true, Token: "secret"}, "GET /v1/marks HTTP/1.1|Host: localhost|Authorization: Bearer ", "401"},
		{&AccessPolicy{Open: true, Token: "secret"}, "GET /check/path/a HTTP/1.1|Host: weir:8083|Authorization: Bearer " + forClient,
			"403"},
		{open, "GET /check/original HTTP/1.1|Host: weir:8083", "400"}, // it describes nothing
		{&AccessPolicy{Open: true, Token: "secret"}, "GET /check/original HTTP/1.1|Host: weir:8083", "403"},
		{local, "GET http://h/check/path/a HTTP/1.1|Host: h|X-Forwarded-For: 192.0.2.1", "400"},
	} {
		if status := statusOf(t, test.access, test.request); status != test.status {
			t.Errorf("%s: %s, want %s", test.request, status, test.status)
		}
	}
}

// The fields of questions about GET /a of shop.example, as the shipped configurations send them for a client
// that is a browser on another origin's page.
const (
	browsers = "|Origin: https://evil.example|Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: cors|Referer: " +
		"https://evil.example/"
	forClient = "|X-Forwarded-For: 203.0.113.7"
	original  = browsers + "|X-Original-Method: GET|X-Original-URI: /a|X-Original-Host: shop.example" + forClient
	forwarded = browsers + "|X-Forwarded-Method: GET|X-Forwarded-Uri: /a|X-Forwarded-Host: shop.example" + forClient
)

// Reverse proxies on this machine may describe requests of browsers, whatever a browser adds to them. A page may not
// describe any: without a preflight, which is refused, it cannot add the fields that reverse proxies set; and if it
// can, because its own name leads to this machine, that name is in Host together with our port.
func TestPagesDescribeNothing(t *testing.T) {
	local := &AccessPolicy{Local: true, Port: 8083}
	secure := &AccessPolicy{Local: true, Port: 443, Secure: true}
	plain := &AccessPolicy{Local: true, Port: 80}
	unix := &AccessPolicy{Local: true, Unix: true}
	for _, test := range []struct {
		access  *AccessPolicy
		from    string
		request string
		status  string
	}{
		// nginx, HAProxy, Caddy, Traefik, Envoy
		{local, "127.0.0.1", "GET /check/original?deny=403 HTTP/1.1|Host: weir" + original, "204"},
		{local, "127.0.0.1", "GET /check/original?deny=403 HTTP/1.1|Host: 127.0.0.1:8083" + original, "204"},
		{local, "127.0.0.1", "GET /check/forwarded HTTP/1.1|Host: shop.example" + forwarded, "200"},
		{local, "127.0.0.1", "GET /check/forwarded HTTP/1.1|Host: shop.example:8080" + forwarded, "200"},
		{local, "127.0.0.1", "GET /check/forwarded HTTP/1.1|Host: localhost:8083" + forwarded, "200"},
		{local, "192.0.2.2", "GET /check/forwarded HTTP/1.1|Host: weir:8083" + forwarded, "200"},
		{local, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: shop.example|Content-Length: 0" + browsers + forClient, "200"},
		{local, "::1", "OPTIONS /check/path/a HTTP/1.1|Host: shop.example|Access-Control-Request-Method: PUT" + browsers +
			forClient, "200"},
		{local, "127.0.0.1", "GET /check/path/a HTTP/1.0" + forClient, "400"}, // there is no Host to describe
		// other programs on this machine
		{local, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: 127.0.0.1:8083" + forClient, "200"},
		{local, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: [::1]:8083" + forClient, "200"},
		// pages of other origins: an image, a form, a request of old browsers, one with fields, its preflight
		{local, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: 127.0.0.1:8083|Sec-Fetch-Site: cross-site", "403"},
		{local, "127.0.0.1",
			"POST /check/path/a HTTP/1.1|Host: localhost:8083|Origin: null|Content-Type: text/plain|Content-Length: 0", "403"},
		{local, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: localhost:8083", "403"},
		{local, "127.0.0.1", "OPTIONS /check/path/a HTTP/1.1|Host: " +
			"localhost:8083|Access-Control-Request-Headers: x-forwarded-for" + browsers, "403"},
		{local, "127.0.0.1", "GET /check/forwarded HTTP/1.1|Host: localhost:8083" + browsers, "400"},
		{local, "127.0.0.1", "GET /check/original HTTP/1.1|Host: localhost:8083" + browsers, "400"},
		{&AccessPolicy{Open: true, Port: 8083}, "10.0.0.1", "GET /check/path/a HTTP/1.1|Host: weir:8083" + browsers, "403"},
		{local, "127.0.0.2", "GET /check/path/a HTTP/1.1|Host: localhost:8083" + browsers, "403"},
		// pages whose name leads here
		{local, "127.0.0.1", "GET /check/original HTTP/1.1|Host: evil.example:8083" + original, "403"},
		{local, "127.0.0.1", "GET /check/forwarded HTTP/1.1|Host: evil.example:8083" + forwarded, "403"},
		{local, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: evil.example:08083" + forClient, "403"},
		{local, "127.0.0.2", "GET /check/path/a HTTP/1.1|Host: evil.example:8083" + forClient, "403"},
		{plain, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: evil.example" + forClient, "403"},
		{plain, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: evil.example:" + forClient, "403"},
		{plain, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: localhost" + forClient, "200"},
		{secure, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: evil.example" + forClient, "403"},
		{secure, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: evil.example:80" + forClient, "200"},
		// neither applies to an asker that is identified, nor the name where everybody may ask
		{&AccessPolicy{Local: true, Port: 8083, Token: "secret"}, "127.0.0.1",
			"GET /check/path/a HTTP/1.1|Host: weir:8083|Authorization: Bearer secret", "200"},
		{local, "192.0.2.2", "GET /check/path/a HTTP/1.1|Host: weir:8083", "200"},
		{&AccessPolicy{Open: true, Port: 8083}, "127.0.0.1", "GET /check/path/a HTTP/1.1|Host: weir:8083" + forClient, "200"},
		{local, "192.0.2.3", "GET /check/path/a HTTP/1.1|Host: weir:8083" + forClient, "403"},
		// no page reaches a unix socket
		{unix, "", "GET /check/path/a HTTP/1.1|Host: weir" + browsers + forClient, "200"},
		{unix, "", "GET /check/path/a HTTP/1.1|Host: weir", "200"},
		{unix, "", "GET /check/original?deny=403 HTTP/1.1|Host: weir" + original, "204"},
		{unix, "", "GET /v1/marks HTTP/1.1|Host: weir|Origin: null", "200"},
		{&AccessPolicy{Local: true, Unix: true, Token: "secret"}, "", "GET /v1/marks HTTP/1.1|Host: weir", "401"},
	} {
		if status := statusFrom(t, test.from, test.access, test.request); status != test.status {
			t.Errorf("from %s, %s: %s, want %s", test.from, test.request, status, test.status)
		}
	}
}
