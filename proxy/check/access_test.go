package check

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// statusOf is the status of an answer to a request from this machine.
func statusOf(t *testing.T, a *Access, request string) string {
	env := &Env{Access: a, Count: func(API, int) {}, Trusted: func(netip.Addr) bool { return false },
		Documents: func() *Documents { return &Documents{Marks: []byte("{}")} }}
	s := New(time.Unix(1, 0), env, netip.MustParseAddr("127.0.0.1"), false)
	request = strings.ReplaceAll(request, "|", "\r\n") + "\r\n\r\n"
	if s.HandleData(time.Unix(1, 0), []byte(request)) != len(request) || len(env.Out) < 12 {
		t.Fatalf("%q: %q", request, env.Out)
	}
	return string(env.Out[9:12])
}

// Without a token, a web page in a browser on this machine may not ask, whatever name it resolves
// to this machine. With DECISION_TOKEN every asker needs the token.
func TestWhoMayAsk(t *testing.T) {
	local, open := &Access{Local: true}, &Access{Open: true}
	for _, test := range []struct {
		access  *Access
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
		{&Access{Local: true, Token: "secret"}, "GET /v1/marks HTTP/1.1|Host: weir:8083|Authorization: Bearer secret", "200"},
		{open, "GET /check/original HTTP/1.1|Host: weir:8083", "400"}, // it describes nothing
		{&Access{Open: true, Token: "secret"}, "GET /check/original HTTP/1.1|Host: weir:8083", "403"},
		{local, "GET http://h/check/path/a HTTP/1.1|Host: h", "400"},
	} {
		if status := statusOf(t, test.access, test.request); status != test.status {
			t.Errorf("%s: %s, want %s", test.request, status, test.status)
		}
	}
}
