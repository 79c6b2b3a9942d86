package wire

import (
	"fmt"
	"strings"
	"testing"
)

// What passes the first of several proxies passes the others: what a proxy adds
// to requests and answers is not held against them by the next one.
func TestChain(t *testing.T) {
	const most = 1 << 10 // bytes of heads, either way
	answers := map[string]string{
		"/plain":  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"/large":  filled("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nFill: ", "\r\n\r\n", most),
		"/fields": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n",
		"/tight":  "HTTP/1.1 200 OK\r\nContent-Length:0\r\nA:b\r\nA:b\r\nA:b\r\n" + filled("Fill:", "\r\n\r\n", most-55),
		"/close":  filled("HTTP/1.0 200 OK\r\nFill: ", "\r\n\r\n", most),
	}
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			path, _, _ := strings.Cut(s.target(), "?")
			if c.say(answers[path]); path == "/close" {
				return
			}
		}
	})
	env := []string{"HEAD_MAX_BYTES", "1KiB", "FIELDS_MAX", "5", "TARGET_HEAD_MAX_BYTES", "1KiB", "TARGET_FIELDS_MAX", "5"}
	for _, test := range []struct {
		trusted, name string
		via           int // fields of answers
	}{{"", "weir-%d", 4}, {"127.0.0.0/8", "weir-%d", 4}, {"127.0.0.0/8", "off", 0}} {
		url := target.url()
		var first *rig
		for i := range 4 {
			name := strings.Replace(test.name, "%d", fmt.Sprint(i), 1)
			first = start(t, url, append(env, "VIA_NAME", name, "TRUSTED_PROXIES", test.trusted)...)
			url = "http://" + first.Addr().String()
		}
		for name, head := range map[string]string{
			"the longest request": filled("GET /plain HTTP/1.1\r\nHost: x\r\nFill: ", "\r\n\r\n", most),
			"the longest path":    filled("GET /plain?", " HTTP/1.1\r\nHost: x\r\n\r\n", most),
			"the most fields":     fieldsOf("GET /plain HTTP/1.1", 5),
			"tight fields":        filled("GET /plain HTTP/1.1\r\nHost:x\r\nA:b\r\nA:b\r\nFill:", "\r\n\r\n", most-4),
			"the longest answer":  request("/large"),
			"most of an answer":   request("/fields"),
			"a tight answer":      request("/tight"),
			"until the close":     request("/close"),
		} {
			conn := first.dial()
			conn.Send(head)
			if res, body := conn.Answer("GET"); res.StatusCode != 200 {
				t.Errorf("%+v: %s is answered %d %q", test, name, res.StatusCode, body)
			} else if via := res.Header.Values("Via"); len(via) != test.via {
				t.Errorf("%s: the answer came by %v", name, via)
			}
		}
	}
}
