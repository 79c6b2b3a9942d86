package http1_test

import (
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

// readOne reads one message in every way and returns its head.
func readOne(t *testing.T, talk http1test.Conversation, in string) (http1test.Message, error) {
	t.Helper()
	got := testkit.Must(talk.ReadAllWays([]byte(in)))(t)
	if len(got.Messages) == 0 {
		return http1test.Message{}, got.Err
	}
	return got.Messages[len(got.Messages)-1], got.Err
}

func TestStatusLines(t *testing.T) {
	for _, c := range []struct {
		line   string
		status int
		reason string
	}{
		{"HTTP/1.1 200 OK", 200, "OK"}, {"HTTP/1.0 200 OK", 200, "OK"}, {"HTTP/1.1 200 ", 200, ""}, {"HTTP/1.1 200", 200, ""},
		{"HTTP/1.1 599 a\tb \xff", 599, "a\tb \xff"}, {"HTTP/1.1 200  x", 200, " x"},
		{"HTTP/1.1 099 x", 0, ""}, {"HTTP/1.1 600 x", 0, ""}, {"HTTP/1.1 2000 x", 0, ""}, {"HTTP/1.1 20 x", 0, ""},
		{"HTTP/1.1 200x", 0, ""}, {"HTTP/1.1 200\tx", 0, ""}, {"HTTP/1.1  200 x", 0, ""}, {"HTTP/1.1\t200 x", 0, ""},
		{"HTTP/2.0 200 x", 0, ""}, {"HTTP/1.1 2x0 x", 0, ""}, {"HTTP/1.1 20x x", 0, ""}, {"HTTP/1.1", 0, ""},
		{"HTTP/1.1 200 \x01", 0, ""}, {"", 0, ""}, {" HTTP/1.1 200 x", 0, ""},
	} {
		m, err := readOne(t, http1test.Conversation{Response: true}, c.line+"\r\nContent-Length: 0\r\n\r\n")
		if c.status == 0 {
			if err == nil || http1.StatusOf(err) != 502 {
				t.Errorf("%q: %v", c.line, err)
			}
		} else if err != nil || m.Head.Status != c.status || string(m.Head.Reason) != c.reason {
			t.Errorf("%q: %d %q, %v", c.line, m.Head.Status, m.Head.Reason, err)
		}
	}
}

func TestFieldLines(t *testing.T) {
	for _, c := range []struct {
		line, name, value string
		reason            string // of the refusal
	}{
		{"A: b", "A", "b", ""}, {"A:b", "A", "b", ""}, {"A: \t b \t", "A", "b", ""}, {"A:", "A", "", ""},
		{"A: \t", "A", "", ""},
		{"A: b: c", "A", "b: c", ""}, {"A: b\tc", "A", "b\tc", ""}, {"A: \x80\xff", "A", "\x80\xff", ""},
		{"!#$%&'*+-.^_`|~1Zz: b", "!#$%&'*+-.^_`|~1Zz", "b", ""},
		{"A: 12345678\t12345678\t", "A", "12345678\t12345678", ""},
		{"A", "", "", "a field line without colon"}, {": b", "", "", "a field without name"},
		{"A : b", "", "", "whitespace in a field name or before its colon"},
		{"A\t: b", "", "", "whitespace in a field name or before its colon"},
		{"A b: c", "", "", "whitespace in a field name or before its colon"},
		{" A: b", "", "", "a field line begins with whitespace"}, {"\tA: b", "", "", "a field line begins with whitespace"},
		{" ", "", "", "a field line begins with whitespace"},
		{"A(: b", "", "", "a field name is not a token"}, {"\"A\": b", "", "", "a field name is not a token"},
		{"\x80: b", "", "", "a field name is not a token"}, {"A_\xff: b", "", "", "a field name is not a token"},
		{"A: b\x00", "", "", "a control character"}, {"A: \x0b b", "", "", "a control character"},
		{"A: b\x7f", "", "", "a control character"},
		{"A\x00: b", "", "", "a control character"}, {"A: b\rc", "", "", "a CR without LF"},
		{"A: b\r\r", "", "", "a CR without LF"},
		{"A: b\nC: d", "", "", "an LF without CR"}, {"A\rB: b", "", "", "a CR without LF"},
		{"A b\x01: c", "", "", "a control character"},
	} {
		for _, response := range []bool{false, true} {
			start := "GET / HTTP/1.1\r\nHost: h\r\n"
			if response {
				start = "HTTP/1.1 204 x\r\nHost: h\r\n"
			}
			m, err := readOne(t, http1test.Conversation{Response: response}, start+c.line+"\r\n\r\n")
			if c.reason != "" {
				if err == nil || err.Error() != "http1: "+c.reason {
					t.Errorf("%q, response %t: want %q, got %v", c.line, response, c.reason, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%q, response %t: %v", c.line, response, err)
				continue
			}
			f := m.Head.Fields[1]
			if string(f.Name) != c.name || string(f.Value) != c.value {
				t.Errorf("%q: %q, %q", c.line, f.Name, f.Value)
			}
		}
	}
}

// TestHop sees which fields are forwarded.
func TestHop(t *testing.T) {
	for _, c := range []struct {
		fields  string // lines, separated by '|'
		forward string // names that are forwarded
	}{
		{"Host: h|Accept: x|X-1: y", "Accept X-1"},
		{"Host: h|Connection: close|Keep-Alive: x|Proxy-Connection: x|TE: x|Trailer: x|Upgrade: x|A: b", "A"},
		{"Host: h|Proxy-Authenticate: x|Proxy-Authorization: x|HTTP2-Settings: x|Content-Length: 0", ""},
		{"Host: h|Transfer-Encoding: chunked", ""},
		{"A: b|Host: h|Connection: b, A|B: c|a: d|C: e", "C"},
		{"Connection: a|Host: h|Connection: B|A: b|B: c", ""},
		{"Connection: X-Forwarded-For|Host: h|X-Forwarded-For: 1|X-Forwarded: 2", "X-Forwarded"},
		{"Connection: host, content-length|Host: h|Content-Length: 0|A: b", "A"},
		{"Connection: ,, |Host: h|A: b", "A"},
		{"Host: h|Connection: a b|A: b", "A"},
		{"Host: h|Connection: x_z|X_Z: 1|X-Z: 2", "X-Z"},
		{"Host: h|Expect: 100-continue|Max-Forwards: 1|Via: x", "Expect Max-Forwards Via"},
	} {
		in := "GET / HTTP/1.1\r\n" + strings.ReplaceAll(c.fields, "|", "\r\n") + "\r\n\r\n"
		m, err := readOne(t, http1test.Conversation{}, in)
		if err != nil {
			t.Errorf("%s: %v", c.fields, err)
			continue
		}
		var names []string
		for _, f := range m.Head.Fields {
			if !f.Hop {
				names = append(names, string(f.Name))
			}
		}
		if got := strings.Join(names, " "); got != c.forward {
			t.Errorf("%s: forwards %q, want %q", c.fields, got, c.forward)
		}
	}
}

// TestOddNames tells names that targets could mistake for others.
func TestOddNames(t *testing.T) {
	for name, odd := range map[string]bool{"X-Z": false, "X_Real_IP": true, "X.Y": true, "_": true, "9": false,
		"content_length": true} {
		m, err := readOne(t, http1test.Conversation{}, "GET / HTTP/1.1\r\nHost: h\r\n"+name+": 1\r\n\r\n")
		if err != nil || m.Head.Fields[1].AmbiguousName != odd || m.Head.Fields[1].Hop {
			t.Errorf("%s: %v, %+v", name, err, m.Head.Fields)
		}
	}
}

// TestHeadFacts has what a head says about connection, expectation and upgrade.
func TestHeadFacts(t *testing.T) {
	for _, c := range []struct {
		version, fields string
		keepAlive       bool
		expect          http1.Expect
		upgrade         bool
	}{
		{"1.1", "", true, http1.ExpectNone, false},
		{"1.1", "Connection: close", false, http1.ExpectNone, false},
		{"1.1", "Connection: keep-alive|Connection: x, CLOSE", false, http1.ExpectNone, false},
		{"1.1", "Connection: closed", true, http1.ExpectNone, false},
		{"1.0", "", false, http1.ExpectNone, false},
		{"1.0", "Connection: Keep-Alive", true, http1.ExpectNone, false},
		{"1.0", "Connection: keep-alive, close", false, http1.ExpectNone, false},
		{"1.0", "Proxy-Connection: keep-alive", false, http1.ExpectNone, false},
		{"1.1", "Expect: 100-Continue", true, http1.ExpectContinue, false},
		{"1.1", "Expect: 100-continue|Expect: 100-continue", true, http1.ExpectContinue, false},
		{"1.1", "Expect: 100-continue|Expect: x", true, http1.ExpectOther, false},
		{"1.1", "Expect: x|Expect: 100-continue", true, http1.ExpectOther, false},
		{"1.1", "Expect: 100-continue, x", true, http1.ExpectOther, false},
		{"1.1", "Expect:", true, http1.ExpectOther, false},
		{"1.0", "Expect: 100-continue", false, http1.ExpectNone, false},
		{"1.0", "Expect: x", false, http1.ExpectNone, false},
		{"1.1", "Connection: upgrade|Upgrade: x", true, http1.ExpectNone, true},
		{"1.1", "Upgrade: x|Connection: keep-alive, Upgrade", true, http1.ExpectNone, true},
		{"1.1", "Upgrade: x", true, http1.ExpectNone, false},
		{"1.1", "Connection: upgrade", true, http1.ExpectNone, false},
		{"1.1", "Connection: upgrade|Upgrade:", true, http1.ExpectNone, false},
		{"1.0", "Connection: upgrade|Upgrade: x", false, http1.ExpectNone, false},
		{"1.2", "Connection: upgrade|Upgrade: x", true, http1.ExpectNone, true},
	} {
		in := "GET / HTTP/" + c.version + "\r\nHost: h\r\n"
		if c.fields != "" {
			in += strings.ReplaceAll(c.fields, "|", "\r\n") + "\r\n"
		}
		m, err := readOne(t, http1test.Conversation{}, in+"\r\n")
		h := m.Head
		if err != nil || h.KeepAlive != c.keepAlive || h.Expect != c.expect || h.Upgrade != c.upgrade {
			t.Errorf("%s %s: keepAlive %t, expect %d, upgrade %t, %v", c.version, c.fields, h.KeepAlive, h.Expect, h.Upgrade,
				err)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		name, in, host, reason string
	}{
		{"field", "GET / HTTP/1.1\r\nHost: a:1\r\n\r\n", "a:1", ""},
		{"target wins", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "b", ""},
		{"none in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "", ""},
		{"target only in HTTP/1.0", "GET http://b/ HTTP/1.0\r\n\r\n", "b", ""},
		{"none", "GET / HTTP/1.1\r\n\r\n", "", "no Host field"},
		{"target only", "GET http://b/ HTTP/1.1\r\n\r\n", "", "no Host field"},
		{"twice", "GET / HTTP/1.0\r\nHost: a\r\nhost: a\r\n\r\n", "", "more than one Host field"},
		{"empty", "GET / HTTP/1.1\r\nHost: \r\n\r\n", "", "the host is not valid"},
		{"invalid beside target", "GET http://b/ HTTP/1.1\r\nHost: a/b\r\n\r\n", "", "the host is not valid"},
		{"invalid in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", "", "the host is not valid"},
	} {
		m, err := readOne(t, http1test.Conversation{}, c.in)
		if c.reason != "" {
			if err == nil || err.Error() != "http1: "+c.reason || http1.StatusOf(err) != 400 {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err != nil || string(m.Head.Host) != c.host {
			t.Errorf("%s: host %q, %v", c.name, m.Head.Host, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		in     string
		status int
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405},
		{"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405},
		{"TRACER / HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417},
		{"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", 0},
		{"GET http://a/ HTTP/1.1\r\nHost: A:80\r\n\r\n", 0},
		{"GET http://a:/ HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"GET http://a:8/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET http://a/ HTTP/1.1\r\nHost: a:443\r\n\r\n", 400},
		{"GET https://a/ HTTP/1.1\r\nHost: a:443\r\n\r\n", 0},
		{"GET https://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET http://[::1]/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0},
		{"GET http://[::1]/ HTTP/1.1\r\nHost: [::2]\r\n\r\n", 400},
		{"GET http://80/ HTTP/1.1\r\nHost: 80:80\r\n\r\n", 0},
		{"GET http://a/ HTTP/1.0\r\n\r\n", 0},
	} {
		m, err := readOne(t, http1test.Conversation{}, c.in)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		err = m.Head.Check()
		if got := err != nil; got != (c.status != 0) || got && http1.StatusOf(err) != c.status {
			t.Errorf("%q: want %d, got %v", c.in, c.status, err)
		}
	}
}

func TestCheckSwitch(t *testing.T) {
	for _, c := range []struct {
		fields, asked string
		want          bool
	}{
		{"Connection: Upgrade|Upgrade: websocket", "WebSocket", true},
		{"Connection: Upgrade|Upgrade: b", "a, b", true},
		{"Connection: Upgrade|Upgrade: b, a", "a,b", true},
		{"Connection: Upgrade|Upgrade: a, c", "a, b", false},
		{"Connection: Upgrade|Upgrade: a", "", false},
		{"Connection: Upgrade|Upgrade: a", "ab", false},
		{"Connection: close|Upgrade: a", "a", false},
		{"Connection: Upgrade|Upgrade:", "a", false},
		{"Connection: Upgrade|A: b", "a", false},
	} {
		in := "HTTP/1.1 101 x\r\n" + strings.ReplaceAll(c.fields, "|", "\r\n") + "\r\n\r\n"
		m, err := readOne(t, http1test.Conversation{Response: true}, in)
		if err != nil {
			t.Errorf("%s: %v", c.fields, err)
			continue
		}
		var asked []byte
		if c.asked != "" {
			asked = []byte(c.asked)
		}
		if err := m.Head.CheckSwitch(asked); (err == nil) != c.want || err != nil && http1.StatusOf(err) != 502 {
			t.Errorf("%s, asked for %q: %v", c.fields, c.asked, err)
		}
	}
}

func TestHeadField(t *testing.T) {
	m := testkit.Must(readOne(t, http1test.Conversation{}, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: 1\r\nx-KEY: 2\r\n\r\n"))(t)
	for _, name := range []string{"X-Key", "x-key", "X-KEY"} {
		if v, ok := m.Head.Field(name); !ok || string(v) != "1" {
			t.Errorf("Field(%q) = %q, %t", name, v, ok)
		}
	}
	for _, name := range []string{"X-Ke", "X_Key", "", "X-Key2"} {
		if _, ok := m.Head.Field(name); ok {
			t.Errorf("Field(%q) is there", name)
		}
	}
	if v, ok := m.Head.Value(http1.FieldHost); !ok || string(v) != "a" {
		t.Errorf("Host is %q, %t", v, ok)
	}
	if _, ok := m.Head.Value(http1.FieldCookie); ok {
		t.Error("a Cookie is there")
	}
}

// TestHeadIsUsedAgain sees that nothing stays from an earlier message.
func TestHeadIsUsedAgain(t *testing.T) {
	var h, fresh http1.Head
	req, resp := http1.NewRequestReader(nil), http1.NewResponseReader(nil)
	full := "POST http://h/p?q HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\nExpect: " +
		"x\r\nContent-Length: 0\r\n\r\n"
	for _, c := range []struct {
		r  http1.Reader
		in string
	}{
		{req, "GET / HTTP/1.0\r\n\r\n"},
		{resp, "HTTP/1.0 204\r\n\r\n"},
		{req, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"},
	} {
		for _, in := range []string{full, "HTTP/1.1 500 Reason\r\nA: b\r\nConnection: close\r\n\r\n"} {
			before := http1.NewRequestReader(nil)
			if in[0] == 'H' {
				before = http1.NewResponseReader(nil)
			}
			if _, err := before.Next([]byte(in), &h); err != nil {
				t.Fatal(err)
			}
			fresh = http1.Head{}
			r1, r2 := c.r, c.r
			_, err1 := r1.Next([]byte(c.in), &h)
			_, err2 := r2.Next([]byte(c.in), &fresh)
			got, want := http1test.Message{Head: h}, http1test.Message{Head: fresh}
			if err1 != nil || err2 != nil || got.String() != want.String() {
				t.Errorf("%q after %q: %v, %v\ngot  %s\nwant %s", c.in, in, err1, err2, &got, &want)
			}
		}
	}
}
