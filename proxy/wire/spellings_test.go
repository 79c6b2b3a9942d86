package wire

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// A credential has one limit, however it is spelled from request to request: none of eight
// requests is admitted beyond the three that have used the limit up.
func TestSpellingsShareALimit(t *testing.T) {
	r := startRules(t, `rules:
- {id: query, match: {path: /query}, key: ["query:api_key"], limit: {algorithm: fixed, limit: 3, window: C}}
- {id: cookie, match: {path: /cookie}, key: ["cookie:sid"], limit: {algorithm: fixed, limit: 3, window: C}}
- {id: credentials, match: {path: /credentials}, key: ["header:Authorization"], limit: {algorithm: fixed, limit: 3, window: C}}
- {id: field, match: {path: /field}, key: ["header:X-Api-Key"], limit: {algorithm: fixed, limit: 3, window: C}}`,
		"UNDERSCORED_FIELDS", "keep")
	for plain, spelling := range map[string]string{
		`/query?api_key=REAL1`:                        `/query?api_key=x%d&api_key=REAL1`,
		`/query?api_key=REAL2`:                        `/query?api_key=x%d&api.key=REAL2`,
		`/cookie Cookie=sid=REAL1`:                    `/cookie Cookie="sid=x%d; sid=REAL1"`,
		`/cookie Cookie=sid=REAL2`:                    `/cookie Cookie="a=%d; sid=REA%%4C2"`,
		`/cookie Cookie=sid=REAL3`:                    `/cookie Cookie="a=%d; sid=\"REAL3\""`,
		`/credentials Authorization="Bearer REAL1"`:   `/credentials X-A=%d authorization="bearer REAL1"`,
		`/credentials Authorization="Bearer REAL2"`:   `/credentials X-A=%d Authorization="BEARER   REAL2"`,
		`/credentials Authorization="Basic YTpiYw=="`: `/credentials X-A=%d Authorization="basic YTpiYw"`,
		`/field X-Api-Key=REAL1`:                      `/field X-Api-Key=x%d X-Api-Key=REAL1`,
		`/field X-Api-Key=REAL2`:                      `/field X-Api-Key=x%d X_Api_Key=REAL2`,
	} {
		r.play(`3 x GET ` + plain + ` -> 200`)
		for i := range 8 {
			r.play(`GET ` + fmt.Sprintf(spelling, i) + ` -> 429`)
		}
	}
}

// A field that the target does not get has no value for rules either.
func TestDroppedFieldsAreNoKeys(t *testing.T) {
	startRules(t, `rules: [{id: field, key: ["header:X-Api-Key"], limit: {algorithm: fixed, limit: 1, window: C}}]`).play(`
		GET / -> 200
		GET / X_Api_Key=1 -> 429; GET / X-Api-Key=1 X_Api_Key=y -> 200
		GET / X_Api_Key=2 -> 429; GET / X-Api-Key=2 X_Api_Key=y -> 200`)
}

// nginx starts an nginx with these directives, of all servers and of the one
// that there is, and returns its address. Without the program the test is skipped,
// and fails where CI=true.
func nginx(t *testing.T, http, server string) string {
	t.Helper()
	testkit.FindOrSkip(t, "nginx")
	dir := t.TempDir()
	address := testkit.FreeAddr(t)
	replaceFile(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	%[3]s
	server {
		listen %[2]s;
		%[4]s
	}
}
`, dir, address, http, server))
	cmd := exec.Command("nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	testkit.StartAt(t, cmd, address)
	return address
}

// nginx does not compress answers to proxies, which it recognizes by Via, unless configured to
// (gzip_proxied). With VIA_NAME=off it does.
func TestNginxCompressesWithoutVia(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("the same words again and again\n", 1000)
	if err := os.WriteFile(filepath.Join(dir, "words"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	target := "http://" + nginx(t, "gzip on; gzip_types text/plain; default_type text/plain;", "root "+dir+";")
	for name, want := range map[string]string{"weir": `Content-Encoding= Via=*`, "off": `Content-Encoding=gzip Via=`} {
		r := start(t, target, "VIA_NAME", name)
		r.playf(`GET /words Accept-Encoding=gzip -> 200 %s`, want)
		equal(t, "a short answer with VIA_NAME="+name, len(r.last("client").body) < len(text)/10, name == "off")
	}
}

// What nginx takes for the same path meets the same rule, and counts on the same
// key; spellings that could be different paths to another target have one key more.
func TestSpellingsOfAPath(t *testing.T) {
	const limit = 1000
	r := startAt(t, "http://"+nginx(t, `keepalive_requests 100000;`,
		`location / { default_type text/plain; return 200 $uri; }`),
		fmt.Sprintf(`rules: [{id: login, match: {path: /api/login}, key: [path], limit: {algorithm: fixed, limit: %d, window: C}}]`, limit))
	left := map[string]int{"same": limit, "odd": limit, "": 1_000_000_000}
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
		left[""]--
		rule := "login"
		if test.key == "" {
			rule = "global"
		} else {
			left[test.key]--
		}
		r.playf(`GET %s -> 200 %s %d =%q`, test.path, rule, left[test.key], test.nginx)
	}
}

// However a path is spelt with slashes, dots, parameters and escapes, nginx serves nothing below
// a limited path to a request that has not met the limit.
func TestNoSpellingGetsPast(t *testing.T) {
	conn := startAt(t, "http://"+nginx(t, `keepalive_requests 100000;`,
		`location / { default_type text/plain; return 200 $uri; }`),
		`rules: [{id: admin, match: {path: /a/b/**}, limit: {algorithm: fixed, limit: 100000, window: C}}]`).dial()
	chance := rand.New(rand.NewPCG(9, 10))
	pieces := []string{"/", "/", "%2F", "%2f", "a", "%61", "b", "a/b", "..", ".", "%2e", ";", ";x", "%3B", "%25",
		"%5c", "//"}
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
