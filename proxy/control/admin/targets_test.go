package admin

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"weir/internal/program/service"
)

// roster plays the proxy behind the endpoints of the targets.
type roster struct {
	urls     []string
	replaced int
}

func (f *roster) status() any { return f.urls }

func (f *roster) replace(urls []string) (int, error) {
	for i, url := range urls {
		if strings.HasPrefix(url, "bad") {
			return i, errors.New("it is bad")
		}
	}
	f.urls = urls
	f.replaced++
	return 0, nil
}

// do sends a request to the endpoints.
func (f *roster) do(method, body string) (int, string) {
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}})
	(&Targets{Status: f.status, Replace: f.replace}).Register(own)
	w := httptest.NewRecorder()
	own.ServeHTTP(w, httptest.NewRequest(method, "/config/targets", strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// The list is replaced whole, and the answer tells how it is then.
func TestTargetsReplaced(t *testing.T) {
	f := &roster{urls: []string{"http://a:1"}}
	if code, body := f.do("GET", ""); code != 200 || body != `{"targets":["http://a:1"]}` {
		t.Errorf("GET: %d %s", code, body)
	}
	if code, body := f.do("POST", `{"targets":["http://b:1","http://c:2"]}`); code != 200 ||
		body != `{"targets":["http://b:1","http://c:2"]}` {
		t.Errorf("POST: %d %s", code, body)
	}
	if want := []string{"http://b:1", "http://c:2"}; !slices.Equal(f.urls, want) {
		t.Errorf("the targets are %q, want %q", f.urls, want)
	}
}

// The fault of a list is reported with its path, and nothing is changed.
func TestTargetsFaults(t *testing.T) {
	many := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("%q", fmt.Sprintf("http://t%d:1", i))
		}
		return `{"targets":[` + strings.Join(list, ",") + "]}"
	}
	for _, test := range []struct {
		body string
		code int
		part string
	}{
		{`{"targets":[]}`, 400, `must have from 1 to 1000 URLs, has 0`},
		{`{}`, 400, `"path":"targets"`},
		{`{"targets":"http://a:1"}`, 400, `"path":"targets"`},
		{`{"targets":["http://a:1",7]}`, 400, `"path":"targets[1]"`},
		{`{"targets":["http://a:1","bad"]}`, 400, `"path":"targets[1]"`},
		{`{"targets":["http://a:1","bad"]}`, 400, `it is bad; allowed: http://host:port, also with https, h2c or h2`},
		{`{"targets":["http://a:1"],"extra":1}`, 400, `extra`},
		{`nonsense`, 400, `"error"`},
		{many(1000), 200, `http://t999:1`},
		{many(1001), 400, `has 1001`},
	} {
		f := &roster{urls: []string{"http://a:1"}}
		code, body := f.do("POST", test.body)
		if code != test.code || !strings.Contains(body, test.part) {
			t.Errorf("POST %.60s: %d %.300s, want %d with %q", test.body, code, body, test.code, test.part)
		}
		if changed := f.replaced > 0; changed != (test.code == 200) {
			t.Errorf("POST %.60s: the targets were changed: %t", test.body, changed)
		}
	}
}

// What is asked of the gates is checked, and passed on.
func TestGates(t *testing.T) {
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}})
	(&Targets{Gates: func(target string, limit int) any { return fmt.Sprint(target, " ", limit) }}).Register(own)
	for _, test := range []struct {
		query string
		code  int
		body  string
	}{
		{"", 200, `" 100"`},
		{"?target=http://a:1&limit=10000", 200, `"http://a:1 10000"`},
		{"?limit=0", 400, `must be a whole number from 1 to 10000, is \"0\"`},
		{"?limit=-1", 400, `from 1 to 10000`},
		{"?limit=10001", 400, `from 1 to 10000`},
		{"?limit=many", 400, `"path":"limit"`},
	} {
		w := httptest.NewRecorder()
		own.ServeHTTP(w, httptest.NewRequest("GET", "/config/gate"+test.query, nil))
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s: %d %s, want %d with %s", test.query, w.Code, w.Body, test.code, test.body)
		}
	}
}
