package wire

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
)

// An asked is an exchange that is played by HTTP/1.1 and by HTTP/2.
type asked struct {
	name    string
	request string   // method and path; /a is enough for GET
	fields  []string // name and value in turn
	body    string
	unknown bool   // the length of the body is not said
	answer  string // of the target; "" for an echo
	closes  bool   // and the target closes
	status  int
}

// okAnswer is an answer with fields and a body.
func okAnswer(fields, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), fields, body)
}

const (
	chunkedAnswer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	largeBody     = 1 << 20
)

var large = strings.Repeat("l", largeBody)

// differences is what may differ by protocol, and is not compared:
//   - the version in the Via field of the request;
//   - of the response, Connection and Transfer-Encoding, which HTTP/2 does not have;
//   - what differs from one request to the next: ids and times, and so the length of own responses.
var (
	differences = []string{"Connection", "Transfer-Encoding", "Date"}
	// variable is an id, seconds, or a date.
	variable = regexp.MustCompile(`\b([0-9a-f]{24}|[0-9]{9,10}(\.[0-9]+)?|20\d\d-[-:.T0-9]+Z)\b`)
)

// exchanges are played in this order. Settings apply to all of a group.
var exchanges = []struct {
	name  string
	env   []string
	rules string
	list  []asked
}{
	{name: "requests", list: []asked{
		{name: "GET", request: "GET /a"}, {name: "a query", request: "GET /a/b?c=d&e=%20"},
		{name: "HEAD", request: "HEAD /a"}, {name: "OPTIONS", request: "OPTIONS /a"}, {name: "DELETE", request: "DELETE /a"},
		{name: "an unknown method", request: "PURGE /a"}, {name: "a method in lower case", request: "get /a"},
		{name: "POST", request: "POST /a", body: "abc"}, {name: "PUT", request: "PUT /a", body: "abc"},
		{name: "PATCH", request: "PATCH /a", body: "abc"},
		{name: "POST without body", request: "POST /a"},
		{name: "DELETE with a body", request: "DELETE /a", body: "abc"},
		{name: "GET with a body", request: "GET /a", body: "abc"},
		{name: "a body of unknown length", request: "POST /a", body: "abc", unknown: true},
		{name: "a large body", request: "POST /a", body: large},
		{name: "a large body of unknown length", request: "POST /a", body: large, unknown: true},
		{name: "octets", request: "POST /a", body: "\x00\r\n0\r\n\r\n\xff"},
		{name: "fields", request: "GET /a", fields: []string{"Accept", "*/*", "X-A", "b", "X-A", "c", "X-Empty", ""}},
		{name: "a large field", request: "GET /a", fields: []string{"X-A", strings.Repeat("a", 10_000)}},
		{name: "cookies", request: "GET /a", fields: []string{"Cookie", "a=1; b=2"}},
		{name: "authorization", request: "GET /a", fields: []string{"Authorization", "Bearer t"}},
		{name: "underscores", request: "GET /a", fields: []string{"X_a", "b"}},
		{name: "claims", request: "GET /a", fields: []string{"X-Forwarded-For", "1.2.3.4", "Forwarded", "for=1.2.3.4"}},
		{name: "Range", request: "GET /a", fields: []string{"Range", "bytes=0-1"}},
		{name: "Expect", request: "POST /a", body: "abc", fields: []string{"Expect", "100-continue"}},
		{name: "another expectation", request: "POST /a", body: "abc", fields: []string{"Expect", "x"}, status: 417},
		{name: "TRACE", request: "TRACE /a", status: 405},
		{name: "a broken escape", request: "GET /a%zz", status: 400},
		{name: "a head that is too large", request: "GET /a", status: 431,
			fields: []string{"X-A", strings.Repeat("a", 20_000)}},
		{name: "too many fields", request: "GET /a", fields: slices.Repeat([]string{"X-A", "b"}, 150), status: 431},
		{name: "Max-Forwards", request: "OPTIONS /a", fields: []string{"Max-Forwards", "0"}, status: 200},
	}},
	{name: "responses", list: []asked{
		{name: "a body", request: "GET /a", answer: okAnswer("", "abc")},
		{name: "no body", request: "GET /a", answer: okAnswer("", "")},
		{name: "fields", request: "GET /a", answer: okAnswer("ETag: \"a\"\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX: \r\n", "abc")},
		{name: "gzip", request: "GET /a", fields: []string{"Accept-Encoding", "gzip"},
			answer: okAnswer("Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n", "\x1f\x8b\x00")},
		{name: "chunks", request: "GET /a", answer: chunkedAnswer + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"},
		{name: "no chunks", request: "GET /a", answer: chunkedAnswer + "0\r\n\r\n"},
		{name: "until close", request: "GET /a", answer: "HTTP/1.1 200 OK\r\n\r\nabc", closes: true},
		{name: "large", request: "GET /a", answer: okAnswer("", large)},
		{name: "large chunks", request: "GET /a", answer: chunkedAnswer + "100000\r\n" + large + "\r\n0\r\n\r\n"},
		{name: "large until close", request: "GET /a", answer: "HTTP/1.1 200 OK\r\n\r\n" + large, closes: true},
		{name: "events", request: "GET /a", answer: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n",
			closes: true},
		{name: "HEAD", request: "HEAD /a", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"},
		{name: "HEAD of chunks", request: "HEAD /a", answer: chunkedAnswer},
		{name: "HEAD of 404", request: "HEAD /a", answer: "HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\n", status: 404},
		{name: "204", request: "GET /a", answer: "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", status: 204},
		{name: "205", request: "GET /a", answer: "HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n", status: 205},
		{name: "206", request: "GET /a", fields: []string{"Range", "bytes=0-1"}, status: 206,
			answer: "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-1/3\r\nContent-Length: 2\r\n\r\nab"},
		{name: "304", request: "GET /a", fields: []string{"If-None-Match", `"a"`}, status: 304,
			answer: "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"},
		{name: "302", request: "GET /a", answer: "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", status: 302},
		{name: "401", request: "GET /a", status: 401,
			answer: "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno"},
		{name: "500", request: "GET /a", answer: "HTTP/1.1 500 Error\r\nContent-Length: 3\r\n\r\nerr", status: 500},
		{name: "503", request: "GET /a", status: 503,
			answer: "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"},
		{name: "299", request: "GET /a", answer: "HTTP/1.1 299 Odd\r\nContent-Length: 0\r\n\r\n", status: 299},
		{name: "103", request: "GET /a", answer: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okAnswer("", "abc")},
		{name: "two interim responses", request: "GET /a",
			answer: "HTTP/1.1 103 A\r\nLink: </a>\r\n\r\nHTTP/1.1 103 B\r\nLink: </b>\r\n\r\n" + okAnswer("", "abc")},
		{name: "102", request: "GET /a", answer: "HTTP/1.1 102 Processing\r\n\r\n" + okAnswer("", "abc")},
		{name: "fields of the connection", request: "GET /a",
			answer: okAnswer("Connection: x-a, keep-alive\r\nX-A: b\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n", "abc")},
		{name: "HTTP/1.0", request: "GET /a", answer: "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", closes: true},
		{name: "before the body", request: "POST /early", body: "abc",
			answer: "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", status: 403},
		{name: "trailers", request: "GET /a", answer: chunkedAnswer + "3\r\nabc\r\n0\r\n\r\n"},
	}},
	{name: "errors", list: []asked{
		{name: "no answer", request: "POST /a", body: "abc", answer: " ", closes: true, status: 502},
		{name: "no HTTP", request: "GET /a", answer: "junk\r\n\r\n", closes: true, status: 502},
		{name: "two lengths", request: "GET /a", status: 502, closes: true,
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
		{name: "101 that was not asked for", request: "GET /a", closes: true, status: 502,
			answer: "HTTP/1.1 101 Switch\r\n\r\n"},
		{name: "a response that is cut", request: "GET /a", closes: true, status: 502,
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"},
		{name: "a large response that is cut", request: "GET /a", closes: true, status: 200,
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + large},
		{name: "large chunks that are cut", request: "GET /a", closes: true, status: 200,
			answer: chunkedAnswer + "100000\r\n" + large},
	}},
	{name: "bounds", env: []string{"BODY_MAX_BYTES", "10"}, list: []asked{
		{name: "at the bound", request: "POST /a", body: "0123456789"},
		{name: "beyond", request: "POST /a", body: "0123456789a", status: 413},
		{name: "beyond, of unknown length", request: "POST /a", body: "0123456789a", unknown: true, status: 413},
	}},
	{name: "a limit", env: []string{"RATE_LIMIT_LIMIT", "3"}, list: []asked{
		{name: "first", request: "GET /a"}, {name: "second", request: "POST /a", body: "abc"},
		{name: "third", request: "HEAD /a"}, {name: "GET beyond", request: "GET /a", status: 429},
		{name: "POST beyond", request: "POST /a", body: "abc", status: 429},
		{name: "POST of unknown length beyond", request: "POST /a", body: "abc", unknown: true, status: 429},
		{name: "a large POST beyond", request: "POST /a", body: large, status: 429},
		{name: "HEAD beyond", request: "HEAD /a", status: 429},
		{name: "JSON beyond", request: "GET /a", fields: []string{"Accept", "application/json"}, status: 429},
		{name: "HTML beyond", request: "GET /a", fields: []string{"Accept", "text/html"}, status: 429},
		{name: "health", request: "GET /actuator/health"}, {name: "no such own path", request: "GET /config/none"},
		{name: "limits", request: "GET /config/limits"}, {name: "HEAD of an own path", request: "HEAD /actuator/health"},
		{name: "a broken setting", request: "POST /config/limits", body: "{"},
		{name: "a broken setting of unknown length", request: "POST /config/limits", body: "{", unknown: true},
	}},
	{name: "rules", rules: `rules:
- {id: key, match: {path: /keyed}, key: ["header:X-Key"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: cookie, match: {path: /cookie}, key: ["cookie:id"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: method, match: {methods: [PUT]}, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: host, match: {path: /host}, key: [host], limit: {algorithm: fixed, limit: 1, window: C}}
`, list: []asked{
		{name: "a key", request: "GET /keyed", fields: []string{"X-Key", "a"}},
		{name: "the key again", request: "GET /keyed", fields: []string{"X-Key", "a"}, status: 429},
		{name: "another key", request: "GET /keyed", fields: []string{"X-Key", "b"}},
		{name: "no key", request: "GET /keyed"},
		{name: "a cookie", request: "GET /cookie", fields: []string{"Cookie", "x=y; id=1"}},
		{name: "the cookie again", request: "GET /cookie", fields: []string{"Cookie", "x=z; id=1"}, status: 429},
		{name: "a method", request: "PUT /a", body: "abc"},
		{name: "the method again", request: "PUT /b", body: "abc", status: 429},
		{name: "a host", request: "GET /host"}, {name: "the host again", request: "GET /host", status: 429},
		{name: "no rule", request: "GET /free"},
	}},
}

// A protocolTarget answers as the exchange in progress says, and keeps what it sees.
//
// Safe for concurrent use: a mutex guards it.
type protocolTarget struct {
	mu   sync.Mutex
	now  *asked
	seen []string
}

func (p *protocolTarget) script(c *targetConn) {
	for s := c.next(); s != nil; s = c.next() {
		p.mu.Lock()
		now := p.now
		p.seen = append(p.seen, describeSeen(s))
		p.mu.Unlock()
		if now.answer == "" {
			c.echo(s)
			continue
		}
		if c.say(strings.TrimSpace(now.answer[:1]) + now.answer[1:]); now.closes {
			return
		}
	}
}

// describeSeen describes a request as the target sees it.
func describeSeen(s *seen) string {
	lines := []string{s.method() + " " + s.target() + " " + sumOf(s.body)}
	for i := range s.head.Fields {
		f := &s.head.Fields[i]
		value := string(f.Value)
		if f.ID == http1.FieldVia {
			_, value, _ = strings.Cut(value, " ")
		}
		lines = append(lines, strings.ToLower(string(f.Name))+": "+value)
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// do plays an exchange and describes what the client gets.
func (a *asked) do(t *testing.T, c *http.Client, url string) (answer string, status int) {
	t.Helper()
	method, path, _ := strings.Cut(a.request, " ")
	var body io.Reader
	switch {
	case a.unknown:
		body = io.MultiReader(strings.NewReader(a.body))
	case a.body != "":
		body = strings.NewReader(a.body)
	}
	q := testkit.Must(http.NewRequest(method, url, body))(t)
	q.URL.Opaque, q.Host = path, "proxy.test"
	q.Header = http.Header{"User-Agent": {"test"}, "Accept-Encoding": {"identity"}}
	for i := 0; i < len(a.fields); i += 2 {
		if a.fields[i] == "Accept-Encoding" {
			q.Header.Del(a.fields[i])
		}
		q.Header[a.fields[i]] = append(q.Header[a.fields[i]], a.fields[i+1])
	}
	var b bytes.Buffer
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if code != http.StatusContinue { // the client decides whether it waits for it
			fmt.Fprintln(&b, code, h)
		}
		return nil
	}}
	res, err := c.Transport.RoundTrip(q.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
	if err != nil {
		return "no answer", 0
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	got = variable.ReplaceAll(got, []byte("?"))
	if res.Header["Via"] == nil { // an own response
		res.Header.Del("Content-Length")
	}
	for _, name := range differences {
		res.Header.Del(name)
	}
	fmt.Fprintln(&b, res.StatusCode, "cut:", err != nil)
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		fmt.Fprintf(&b, "%s: %q\n", name, res.Header[name])
	}
	if err == nil {
		fmt.Fprintf(&b, "%d %s %.80q", len(got), sumOf(string(got)), got)
	}
	return variable.ReplaceAllString(b.String(), "?"), res.StatusCode
}

// An exchange by HTTP/2 is the same one at the target, and the same one at the client, as by HTTP/1.1.
func TestProtocolsAgree(t *testing.T) {
	t.Parallel()
	played := 0
	for _, group := range exchanges {
		played += len(group.list)
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			env := append(slices.Clone(group.env), "HTTP2", "all")
			if group.rules != "" {
				env = append(env, "RULES_FILE", ruleFile(t, group.rules))
			}
			first := playAll(t, group.list, env, &http.Client{Transport: new(http.Transport)})
			second := playAll(t, group.list, env, http2Client(t))
			for i := range group.list {
				if first[i] != second[i] {
					t.Errorf("%s:\nHTTP/1.1: %s\nHTTP/2: %s", group.list[i].name, first[i], second[i])
				}
			}
		})
	}
	if played < 60 {
		t.Errorf("only %d exchanges", played)
	}
}

// playAll plays exchanges one after the other on a proxy of their own.
func playAll(t *testing.T, list []asked, env []string, c *http.Client) (all []string) {
	p := new(protocolTarget)
	target := newTarget(t, p.script)
	r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, target.url(), env...)
	defer c.CloseIdleConnections()
	for i := range list {
		a := &list[i]
		p.mu.Lock()
		p.now, p.seen = a, nil
		p.mu.Unlock()
		answer, status := a.do(t, c, "http://"+r.Addr().String())
		if a.status != 0 && status != a.status {
			t.Errorf("%s: status %d, want %d", a.name, status, a.status)
		}
		p.mu.Lock()
		all = append(all, fmt.Sprintf("%s\nthe target sees %s", answer, strings.Join(p.seen, "\n\n")))
		p.mu.Unlock()
	}
	return all
}
