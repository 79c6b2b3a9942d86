package wire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// What nginx takes for the same path meets the same rule, and counts on the same
// key; spellings that could be different paths to another target have one key more.
func TestSpellingsOfAPath(t *testing.T) {
	const limit = 1000
	conn := startAt(t, "http://"+nginx(t, `keepalive_requests 100000;`, `location / { default_type text/plain; return 200 $uri; }`), fmt.Sprintf(`rules: [{id: login, match: {path: /api/login}, key: [path], limit: {algorithm: fixed, limit: %d, window: C}}]`, limit)).dial()
	left := map[string]int{"same": limit, "odd": limit}
	for _, test := range []struct{ path, nginx, key string }{
		{"/api/login", "/api/login", "same"},
		{"/api/login/", "/api/login/", "same"},
		{"/api/login?x=/else", "/api/login", "same"},
		{"//api///login", "/api/login", "same"},
		{"/%61pi/logi%6E", "/api/login", "same"},
		{"/api/./login/.", "/api/login/", "same"},
		{"/x/../api/y/%2e%2E/login", "/api/login", "same"},
		{"/api%2Flogin", "/api/login", "same"},
		{"/api%2flogin", "/api/login", "same"},
		{"/api/%2Flogin", "/api/login", "same"},
		{"/%2fapi%2F.%2Flogin", "/api/login", "same"},
		{"/x%2F..%2Fapi%2Flogin", "/api/login", "same"},
		{"/x/..%2Fapi/login", "/api/login", "same"},
		{"/api/login%2F%2e%2E%2Flogin", "/api/login", "same"},
		{"/api/login;x", "/api/login;x", "same"}, // to Tomcat
		{"/x;%2F..%2Fapi/login", "/api/login", "odd"},
		{"/y;%2F..%2Fapi/login", "/api/login", "odd"},
		{"/api/login%2Fx/..", "/api/login/", "odd"},
		{"/api/x/;/../login", "/api/x/login", "odd"},
		{"/api/login%3Bx", "/api/login;x", ""},
		{"/api%252Flogin", "/api%2Flogin", ""},
		{"/api%5Clogin", `/api\login`, ""},
		{"/api/Login", "/api/Login", ""},
		{"/api/login/x", "/api/login/x", ""},
		{"/api/login/..", "/api/", ""},
	} {
		conn.Send(request(test.path))
		res, body := conn.Status(200)
		if body != test.nginx {
			t.Errorf("nginx takes %s for %s, want %s", test.path, body, test.nginx)
		}
		want := "200 global"
		if test.key != "" {
			left[test.key]--
			want = fmt.Sprintf("200 login %d", left[test.key])
		}
		if got := gist(res); !strings.HasPrefix(got, want) {
			t.Errorf("%s, which is %s to nginx, is told %q, want %q", test.path, body, got, want)
		}
	}
}

// However a path is spelt with slashes, dots, parameters and escapes, nginx serves nothing below
// a limited path to a request that has not met the limit.
func TestNoSpellingGetsPast(t *testing.T) {
	conn := startAt(t, "http://"+nginx(t, `keepalive_requests 100000;`, `location / { default_type text/plain; return 200 $uri; }`), `rules: [{id: admin, match: {path: /a/b/**}, limit: {algorithm: fixed, limit: 100000, window: C}}]`).dial()
	chance := rand.New(rand.NewPCG(9, 10))
	pieces := []string{"/", "/", "%2F", "%2f", "a", "%61", "b", "a/b", "..", ".", "%2e", ";", ";x", "%3B", "%25", "%5c", "//"}
	reached := 0
	for range 2_000 {
		path := "/"
		for range 1 + chance.IntN(9) {
			path += pieces[chance.IntN(len(pieces))]
		}
		conn.Send(request(path))
		res, body := conn.Answer("GET")
		if res.StatusCode != 200 { // above the root, for nginx
			continue
		}
		if !strings.HasPrefix(body+"/", "/a/b/") {
			continue
		}
		reached++
		if id := strings.Fields(gist(res))[1]; id != "admin" {
			t.Errorf("%s, which is %s to nginx, meets %s", path, body, id)
		}
	}
	if reached < 50 {
		t.Errorf("only %d requests reached what is limited", reached)
	}
}
