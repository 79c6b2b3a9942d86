package http1_test

import (
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
)

func TestTargets(t *testing.T) {
	const none = "-" // no query
	for _, c := range []struct {
		line              string // method and target
		form              http1.TargetForm
		path, query, host string
		forward           string // request line sent on
		status            int    // of the refusal
	}{
		{line: "GET /", form: http1.FormOrigin, path: "/", query: none, host: "h", forward: "GET /"},
		{line: "GET /a/b?c=d?e", form: http1.FormOrigin, path: "/a/b", query: "c=d?e", host: "h", forward: "GET /a/b?c=d?e"},
		{line: "GET /?", form: http1.FormOrigin, path: "/", query: "", host: "h", forward: "GET /?"},
		{line: "GET //x/y", form: http1.FormOrigin, path: "//x/y", query: none, host: "h", forward: "GET //x/y"},
		{line: "GET /%41?%", form: http1.FormOrigin, path: "/%41", query: "%", host: "h", forward: "GET /%41?%"},
		{line: "GET /{|}\\^\"<>`", form: http1.FormOrigin, path: "/{|}\\^\"<>`", query: none, host: "h",
			forward: "GET /{|}\\^\"<>`"},
		{line: "GET http://H/a", form: http1.FormAbsolute, path: "/a", query: none, host: "H", forward: "GET /a"},
		{line: "GET HTTPS://u:8/a?b", form: http1.FormAbsolute, path: "/a", query: "b", host: "u:8", forward: "GET /a?b"},
		{line: "GET http://u", form: http1.FormAbsolute, path: "", query: none, host: "u", forward: "GET /"},
		{line: "GET http://u?a", form: http1.FormAbsolute, path: "", query: "a", host: "u", forward: "GET /?a"},
		{line: "GET http://[::1]:8/", form: http1.FormAbsolute, path: "/", query: none, host: "[::1]:8", forward: "GET /"},
		{line: "OPTIONS *", form: http1.FormAsterisk, path: "*", query: none, host: "h", forward: "OPTIONS *"},
		{line: "OPTIONS http://u", form: http1.FormAbsolute, path: "", query: none, host: "u", forward: "OPTIONS *"},
		{line: "OPTIONS http://u?", form: http1.FormAbsolute, path: "", query: "", host: "u", forward: "OPTIONS /?"},
		{line: "CONNECT u:443", form: http1.FormAuthority, path: "", query: none, host: "u:443", forward: "CONNECT u:443"},
		{line: "FOO-1 /", form: http1.FormOrigin, path: "/", query: none, host: "h", forward: "FOO-1 /"},
		{line: "GET *", status: 400},
		{line: "OPTIONS **", status: 400},
		{line: "GET a", status: 400},
		{line: "GET ?a", status: 400},
		{line: "GET /%4", status: 400},
		{line: "GET /%", status: 400},
		{line: "GET /%zz", status: 400},
		{line: "GET /%4z?", status: 400},
		{line: "GET /a#b", status: 400},
		{line: "GET /a?b#c", status: 400},
		{line: "GET http:///a", status: 400},
		{line: "GET http://u@h/", status: 400},
		{line: "GET http:/h/", status: 400},
		{line: "GET ftp://h/", status: 400},
		{line: "GET http://h:x/", status: 400},
		{line: "GET http://h/%", status: 400},
		{line: "CONNECT u", status: 400},
		{line: "CONNECT u:", status: 400},
		{line: "CONNECT [::1]", status: 400},
		{line: "CONNECT /", status: 400},
		{line: "GET /\x7f", status: 400},
		{line: "GET /\x80", status: 400},
		{line: "GET /\t", status: 400},
		{line: "G\tT /", status: 400},
		{line: "G(T /", status: 400},
		{line: " GET /", status: 400},
		{line: "GET", status: 400},
		{line: "GET  /", status: 400},
		{line: "", status: 400},
	} {
		m, err := readOne(t, http1test.Conversation{}, c.line+" HTTP/1.1\r\nHost: h\r\n\r\n")
		if c.status != 0 {
			if err == nil || http1.StatusOf(err) != c.status {
				t.Errorf("%q: want %d, got %v", c.line, c.status, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.line, err)
			continue
		}
		h, query := &m.Head, none
		if h.Query != nil {
			query = string(h.Query)
		}
		if h.Form != c.form || string(h.Path) != c.path || query != c.query || string(h.Host) != c.host {
			t.Errorf("%q: form %d, path %q, query %q, host %q", c.line, h.Form, h.Path, query, h.Host)
		}
		if got := string(http1.AppendRequestLine(nil, h)); got != c.forward+" HTTP/1.1\r\n" {
			t.Errorf("%q is forwarded as %q", c.line, got)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		version       string
		minor, status int
	}{
		{"HTTP/1.1", 1, 0}, {"HTTP/1.0", 0, 0}, {"HTTP/1.2", 2, 0}, {"HTTP/1.9", 9, 0},
		{"HTTP/2.0", 0, 505}, {"HTTP/0.9", 0, 505}, {"HTTP/9.9", 0, 505},
		{"HTTP/1.", 0, 400}, {"HTTP/1", 0, 400}, {"HTTP/1.10", 0, 400}, {"HTTP/11.1", 0, 400}, {"HTTP/01.1", 0, 400},
		{"http/1.1", 0, 400}, {"HTTP/1,1", 0, 400}, {"HTTP /1.1", 0, 400}, {"HTTP/1.1 ", 0, 400}, {"HTTP/1.x", 0, 400},
		{"HTTP/x.1", 0, 400}, {"HTTPS/1.1", 0, 400}, {"", 0, 400},
	} {
		m, err := readOne(t, http1test.Conversation{}, "GET / "+c.version+"\r\nHost: h\r\n\r\n")
		if err != nil && http1.StatusOf(err) != c.status || err == nil && (c.status != 0 || m.Head.Minor != c.minor) {
			t.Errorf("%q: minor %d, %v", c.version, m.Head.Minor, err)
		}
	}
}
