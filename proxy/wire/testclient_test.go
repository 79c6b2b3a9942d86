package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// A testClient is a client of a transcript.
type testClient struct {
	*testkit.Conn
	name  string
	asked []question     // that are not answered
	res   *http.Response // the last answer
	body  string         // of that
}

// last returns a client with its last answer.
func (r *rig) last(name string) *testClient { r.t.Helper(); return r.named(name, "") }

// decode reads JSON from the last answer.
func (c *testClient) decode(into any) {
	c.T.Helper()
	if err := json.Unmarshal([]byte(c.body), into); err != nil {
		c.T.Fatalf("%s: %v", c.body, err)
	}
}

// clientStep performs a step of clients: what they send, and after -> what they receive.
func (r *rig) clientStep(step []string) {
	r.t.Helper()
	if step[0] == strings.ToUpper(step[0]) {
		step = append([]string{"client"}, step...)
	}
	say, want := step[1:], []string(nil)
	if at := slices.Index(say, "->"); at >= 0 {
		say, want = say[:at], say[at+1:]
	}
	clients := r.clients(step[0])
	if len(clients) == 0 || len(say)+len(want) == 0 {
		r.fail("nobody does it, or nothing is done")
	}
	for _, c := range clients {
		if len(say) > 0 {
			r.say(c, say)
		}
		for _, answer := range parts(want, "+") {
			r.receive(c, answer)
		}
	}
}

// clients returns the clients of some names, which connect unless they have.
func (r *rig) clients(names string) (list []*testClient) {
	r.t.Helper()
	names, from, _ := strings.Cut(names, "@")
	for name := range strings.SplitSeq(names, ",") {
		stem, count, group := strings.Cut(name, "*")
		switch {
		case group && count == "":
			for _, c := range r.connected {
				if rest, ok := strings.CutPrefix(c.name, stem); ok && strings.Trim(rest, "0123456789") == "" {
					list = append(list, c)
				}
			}
		case group:
			for i := range r.number(count) {
				list = append(list, r.named(fmt.Sprint(stem, i+1), from))
			}
		default:
			list = append(list, r.named(name, from))
		}
	}
	return list
}

// named returns the client of a name, which connects from an address, or to a loop, unless it has.
func (r *rig) named(name, from string) *testClient {
	r.t.Helper()
	for _, c := range r.connected {
		if c.name == name {
			return c
		}
	}
	c := &testClient{name: name}
	if loop, ok := strings.CutPrefix(from, "loop"); ok {
		c.Conn = r.dialOn(r.number(loop))
	} else {
		c.Conn = r.dialFrom(cmp.Or(from, "127.0.0.1"))
	}
	r.connected = append(r.connected, c)
	return c
}

// say sends requests, or ends the connection of a client.
func (r *rig) say(c *testClient, words []string) {
	r.t.Helper()
	if len(words) != 1 || words[0][0] == '"' {
		text := ""
		for _, request := range parts(words, "+") {
			q := r.request(request)
			text, c.asked = text+q.text, append(c.asked, q)
		}
		_, _ = io.WriteString(c, text) // it may be answered, and the connection closed, before its end
		return
	}
	switch words[0] {
	case "ends":
		endSending(c.Conn, r)
		return
	case "resets":
		c.Reset()
	case "closes":
	default:
		r.fail("unknown step")
	}
	r.closes(c)
}

// closes closes the connection of a client, which connects again in its next step.
func (r *rig) closes(c *testClient) {
	_ = c.Close()
	r.connected = slices.DeleteFunc(r.connected, func(other *testClient) bool { return other == c })
}

// request returns a request: a quoted text as it is, or
//
//	POST /path Name=value Name="a value" body=abc
//
// with a body by Content-Length, or chunked=abc, of which body*9 is nine letters; part=abc is one
// without a field. HTTP/1.0 is another version, which has no Host; upgrade asks for a WebSocket.
func (r *rig) request(words []string) question {
	r.t.Helper()
	if words[0][0] == '"' {
		text := unquote(words[0])
		head, body, _ := strings.Cut(text, "\r\n\r\n")
		first := append(strings.Fields(head), "", "")
		return question{method: first[0], target: first[1], body: body, text: text}
	}
	if len(words) < 2 || words[0] != strings.ToUpper(words[0]) {
		r.fail("neither a request nor a step that is known")
	}
	q := question{method: words[0], target: words[1]}
	version, fields, rest := "HTTP/1.1\r\nHost: x\r\n", "", "\r\n"
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		value = unquote(value)
		if stem, n, ok := strings.Cut(name, "*"); ok {
			name, value = stem, strings.Repeat("a", r.number(n))
		}
		switch name {
		case "HTTP/1.0":
			version = "HTTP/1.0\r\n"
		case "upgrade":
			fields += "Connection: upgrade\r\nUpgrade: websocket\r\n"
		case "body":
			q.body, rest = value, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(value), value)
		case "part":
			rest = "\r\n" + value
		case "chunked":
			q.body, rest = value, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(value), value)
		default:
			fields += name + ": " + value + "\r\n"
		}
	}
	q.text = q.method + " " + q.target + " " + version + fields + rest
	return q
}

// receive reads what comes next, which is to be
//
//	200              an answer with the status, see judge; 200*3 are three, 200|502 either
//	closed           the close of the connection without another byte
//	gone             that, or a reset
//	cut              bytes and then an error
//	reads "text"     bytes, which remain to be read
//	takes "text"     bytes, which are read
func (r *rig) receive(c *testClient, want []string) {
	r.t.Helper()
	switch want[0] {
	case "closed":
		b, err := c.In.ReadByte()
		if err != io.EOF {
			r.fail("the connection is not closed: read %q, %v", b, err)
		}
		r.closes(c)
	case "gone":
		if err := over(c.Conn); err != nil {
			r.fail("%v", err)
		}
	case "cut":
		if n, err := io.Copy(io.Discard, c.In); n == 0 || err == nil {
			r.fail("read %d bytes and then %v, want an error", n, err)
		}
	case "reads", "takes":
		text := unquote(want[1])
		got, err := c.In.Peek(len(text))
		if err != nil || string(got) != text {
			r.fail("read %q, %v", got, err)
		}
		if want[0] == "takes" {
			_, _ = c.In.Discard(len(text))
		}
	default:
		status, times, many := strings.Cut(want[0], "*")
		first, _, _ := strings.Cut(status, "|")
		r.number(first) // or the step is unknown
		n := 1
		if many {
			n = r.number(times)
		}
		for range n {
			r.answer(c, status, want[1:])
		}
	}
}

func (r *rig) answer(c *testClient, status string, want []string) {
	r.t.Helper()
	q := question{method: "GET"}
	if len(c.asked) > 0 {
		q = c.asked[0]
	}
	res, err := http.ReadResponse(c.In, &http.Request{Method: q.method})
	if err != nil {
		r.fail("no answer: %v", err)
	}
	body := ""
	if res.StatusCode != http.StatusSwitchingProtocols {
		b, err := io.ReadAll(res.Body)
		if body = string(b); (err != nil) != slices.Contains(want, "cut") {
			r.fail("after %d bytes of the body: %v", len(b), err)
		}
	}
	if len(c.asked) > 0 && (res.StatusCode > 199 || res.StatusCode == http.StatusSwitchingProtocols) {
		c.asked = c.asked[1:]
	}
	c.res, c.body = res, body
	faults := judge(res, body, &q, want)
	if !slices.Contains(strings.Split(status, "|"), fmt.Sprint(res.StatusCode)) {
		faults = append(faults, "another status")
	}
	if len(faults) > 0 {
		r.t.Errorf("%s\n%s: %s\nanswered %d %v %.300q", r.step, c.name, strings.Join(faults, "; "), res.StatusCode,
			res.Header, body)
	}
}

// judge returns what an answer has not:
//
//	api 7              the tightest limit is that of the rule api, of which 7 remains; - for none
//	echo               what the target says of this very request
//	cut                that it breaks off
//	closes, stays      whether it announces the close of the connection
//	Name=value         a field that is there once; Name=1|2 for either, Name= for none, Name=* for any
//	"part", ="text"    a part of the body, or all of it; ~"a":1 is a part as it is
//	!text              no such part, nor in the head
//	error="text"       the body of an answer of the proxy's own
//	size=9             its length
func judge(res *http.Response, body string, q *question, want []string) (faults []string) {
	claim := func(holds bool, format string, args ...any) {
		if !holds {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	if len(want) > 0 && want[0] == "-" || len(want) > 1 && want[1] != "" && strings.Trim(want[1], "0123456789") == "" {
		n := 2
		if want[0] == "-" {
			n = 1
		}
		told := strings.Join(want[:n], " ")
		claim(gist(res) == fmt.Sprint(res.StatusCode, " ", told), "of limits it tells %s, want %s", gist(res), told)
		want = want[n:]
	}
	for _, word := range want {
		name, value, is := strings.Cut(word, "=")
		value = unquote(value)
		switch {
		case word == "echo":
			claim(body == echoOf(q.method, q.target, q.body), "want the echo of %s %s", q.method, q.target)
		case word == "cut": // see answer
		case word == "closes" || word == "stays":
			claim(res.Close == (word == "closes"), "closes: %t", res.Close)
		case word[0] == '"' || word[0] == '~':
			part := unquote(strings.TrimPrefix(word, "~"))
			claim(strings.Contains(body, part), "want a body with %s", part)
		case word[0] == '!':
			claim(!strings.Contains(fmt.Sprint(res, body), word[1:]), "want nothing of %s", word[1:])
		case !is:
			claim(false, "unknown: %s", word)
		case name == "":
			claim(body == value, "want the body %q", value)
		case name == "error":
			claim(body == fmt.Sprintf("{\"error\":%q}\n", value), "want the error %q", value)
		case name == "size":
			claim(fmt.Sprint(len(body)) == value, "a body of %d bytes", len(body))
		case value == "*":
			claim(res.Header.Get(name) != "", "no %s", name)
		default:
			got := strings.Join(append(res.Header.Values(name), coding(res, name)...), "\n")
			claim(slices.Contains(strings.Split(value, "|"), got), "%s: %q, want %q", name, got, value)
		}
	}
	return faults
}

// coding returns the values of Transfer-Encoding, which net/http takes out of a head.
func coding(res *http.Response, name string) []string {
	if name != "Transfer-Encoding" {
		return nil
	}
	return res.TransferEncoding
}

// A claim about an answer that does not hold is a fault, whatever else holds.
func TestJudge(t *testing.T) {
	res := &http.Response{StatusCode: 200, Header: http.Header{"A": {"b"}, "Ratelimit": {`"api";r=7;t=1`}}}
	q := question{method: "GET", target: "/x"}
	body := echoOf(q.method, q.target, "")
	for _, test := range []struct{ holds, fails string }{
		{`api 7`, `api 6`}, {`api 7 stays`, `-`}, {`stays`, `closes`}, {`A=b`, `A=c`}, {`A=c|b`, `A=c|d`}, {`A=*`, `B=*`},
		{`B=`, `A=`}, {`"GET /x"`, `"/y"`}, {`~/x`, `~/y`}, {fmt.Sprintf("=%q", body), `="GET"`}, {`!/y`, `!/x`},
		{`!zz`, `!api`}, {fmt.Sprint("size=", len(body)), `size=1`}, {``, `error="x"`}, {``, `word`},
	} {
		if faults := judge(res, body, &q, words(test.holds+" echo")); len(faults) > 0 {
			t.Errorf("%s: %s", test.holds, faults)
		}
		if faults := judge(res, body, &q, words(test.fails+" echo")); len(faults) != 1 {
			t.Errorf("%s: %d faults: %s", test.fails, len(faults), faults)
		}
	}
	if faults := judge(res, body, &question{method: "GET", target: "/y"}, words("echo")); len(faults) != 1 {
		t.Error("the echo of another request is taken for that of /y")
	}
}
