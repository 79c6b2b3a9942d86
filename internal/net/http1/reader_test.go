package http1_test

import (
	"reflect"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

// step is one call of Next, or of EOF, and what must come of it.
type step struct {
	in    string // "EOF" calls EOF
	kind  http1.Kind
	n     int
	data  string
	fails string // the reason of the error
	state string // String, Idle and InBody afterwards
}

func run(t *testing.T, r http1.Reader, steps []step) {
	t.Helper()
	var h http1.Head
	for i, s := range steps {
		var ev http1.Event
		var err error
		if s.in == "EOF" {
			ev, err = r.EOF()
		} else {
			ev, err = r.Next([]byte(s.in), &h)
		}
		if got := reason(err); got != s.fails {
			t.Fatalf("step %d %q: error %q, want %q", i, s.in, got, s.fails)
		}
		if ev.Kind != s.kind || int(ev.N) != s.n || string(ev.Data) != s.data {
			t.Fatalf("step %d %q: %+v, want %+v", i, s.in, ev, s)
		}
		state := r.String()
		if r.Idle() {
			state += ", idle"
		}
		if r.InBody() {
			state += ", in body"
		}
		if s.state != "" && state != s.state {
			t.Fatalf("step %d %q: state %q, want %q", i, s.in, state, s.state)
		}
	}
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "http1: ")
}

const (
	getHead  = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	postHead = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
	teHead   = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
)

func TestReaderSteps(t *testing.T) {
	t.Run("without body", func(t *testing.T) {
		run(t, http1.NewRequestReader(nil), []step{
			{in: "", state: "head, idle"},
			{in: "EOF", state: "head, idle"},
			{in: getHead + "GET", kind: http1.HeadDone, n: len(getHead), state: "end"},
			{in: "", kind: http1.End, state: "head, idle"},
			{in: "GET", state: "head"},
			{in: getHead, kind: http1.HeadDone, n: len(getHead)},
			{in: "EOF", kind: http1.End, state: "head, idle"},
		})
	})
	t.Run("empty lines before", func(t *testing.T) {
		run(t, http1.NewRequestReader(nil), []step{
			{in: "\r", state: "head, idle"},
			{in: "\r\n", n: 2, state: "head, idle"},
			{in: "\r\n\r", n: 2, state: "head, idle"},
			{in: "\r\nGE", n: 2, state: "head"},
			{in: getHead, kind: http1.HeadDone, n: len(getHead)},
		})
	})
	t.Run("body by length", func(t *testing.T) {
		run(t, http1.NewRequestReader(nil), []step{
			{in: postHead[:40]},
			{in: postHead + "12", kind: http1.HeadDone, n: len(postHead), state: "body, in body"},
			{in: "12", kind: http1.Data, n: 2, data: "12", state: "body, in body"},
			{in: "", state: "body, in body"},
			{in: "34GET", kind: http1.Data, n: 2, data: "34", state: "end"},
			{in: "GET", kind: http1.End, state: "head, idle"},
		})
	})
	t.Run("chunks", func(t *testing.T) {
		run(t, http1.NewRequestReader(nil), []step{
			{in: teHead, kind: http1.HeadDone, n: len(teHead), state: "chunk size, in body"},
			{in: "", state: "chunk size, in body"},
			{in: "4\r"},
			{in: "4\r\n", n: 3, state: "chunk, in body"},
			{in: ""},
			{in: "ab", kind: http1.Data, n: 2, data: "ab", state: "chunk, in body"},
			{in: "cd\r", kind: http1.Data, n: 2, data: "cd", state: "chunk end, in body"},
			{in: ""},
			{in: "\r"},
			{in: "\r\n2\r\nefg", kind: http1.Data, n: 7, data: "ef", state: "chunk end, in body"},
			{in: "\r\n", n: 2, state: "chunk size, in body"},
			{in: "0\r\nA", n: 3, state: "trailer, in body"},
			{in: "A: b\r\nC: d\r\n\r", state: "trailer, in body"},
			{in: "A: b\r\nC: d\r\n\r\nGET", kind: http1.End, n: 14, data: "A: b\r\nC: d\r\n", state: "head, idle"},
		})
	})
	t.Run("chunks at once", func(t *testing.T) {
		run(t, http1.NewRequestReader(nil), []step{
			{in: teHead, kind: http1.HeadDone, n: len(teHead)},
			{in: "2\r\nab\r\n0\r\n\r\nG", kind: http1.Data, n: 5, data: "ab"},
			{in: "\r\n0\r\n\r\nG", kind: http1.End, n: 7, state: "head, idle"},
		})
	})
	t.Run("until close", func(t *testing.T) {
		run(t, http1.NewResponseReader(nil), []step{
			{in: "HTTP/1.1 200 OK\r\n\r\nab", kind: http1.HeadDone, n: 19, state: "body until close, in body"},
			{in: "ab", kind: http1.Data, n: 2, data: "ab"},
			{in: ""},
			{in: "EOF", kind: http1.End, state: "head, idle"},
		})
	})
	t.Run("interim", func(t *testing.T) {
		run(t, http1.NewResponseReader(nil), []step{
			{in: "EOF", state: "head, idle"},
			{in: "HTTP/1.1 100 Continue\r\n\r\n", kind: http1.HeadDone, n: 25, state: "head"},
			{in: "", state: "head"},
			{in: "HTTP/1.1 204 \r\n\r\n", kind: http1.HeadDone, n: 17, state: "end"},
			{in: "", kind: http1.End, state: "head, idle"},
			{in: "HTTP/1.1 100 Continue\r\n\r\n", kind: http1.HeadDone, n: 25},
			{in: "EOF", fails: "the connection ended inside a message", state: "failed"},
		})
	})
	t.Run("upgraded", func(t *testing.T) {
		run(t, http1.NewResponseReader(nil), []step{
			{in: "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nab", kind: http1.HeadDone, n: 51,
				state: "upgraded"},
			{in: "ab", kind: http1.Upgraded},
			{in: "", kind: http1.Upgraded},
			{in: "EOF", kind: http1.Upgraded, state: "upgraded"},
		})
	})
	t.Run("answer to CONNECT", func(t *testing.T) {
		r := http1.NewResponseReader(nil)
		r.ResponseTo(http1.CONNECT)
		run(t, r, []step{
			{in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", kind: http1.HeadDone, n: 38, state: "upgraded"},
		})
	})
	t.Run("answer to HEAD", func(t *testing.T) {
		r := http1.NewResponseReader(nil)
		r.ResponseTo(http1.HEAD)
		run(t, r, []step{
			{in: "HTTP/1.1 100 x\r\n\r\n", kind: http1.HeadDone, n: 18},
			{in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", kind: http1.HeadDone, n: 38, state: "end"},
			{in: "HTTP", kind: http1.End, state: "head, idle"},
		})
	})
}

func TestTruncation(t *testing.T) {
	const cut = "the connection ended inside a message"
	for _, c := range []struct{ name, in string }{
		{"request line", "GET"},
		{"head", getHead[:len(getHead)-1]},
		{"body", postHead + "123"},
		{"chunk size", teHead + "4"},
		{"chunk size line", teHead + "4\r\n"},
		{"chunk", teHead + "4\r\nabc"},
		{"chunk end", teHead + "4\r\nabcd"},
		{"last chunk", teHead + "4\r\nabcd\r\n0\r\n"},
		{"trailer", teHead + "0\r\nA: b\r\n"},
	} {
		for _, closed := range []bool{false, true} {
			talk := http1test.Conversation{Closed: closed}
			_, err := readOne(t, talk, c.in)
			if want := map[bool]string{true: cut}[closed]; reason(err) != want {
				t.Errorf("%s, closed %t: %v", c.name, closed, err)
			}
		}
	}
}

// TestErrorsStay sees that a Reader that has failed says the same for ever.
func TestErrorsStay(t *testing.T) {
	const bad = "no CRLF at the end of a chunk"
	run(t, http1.NewRequestReader(nil), []step{
		{in: teHead, kind: http1.HeadDone, n: len(teHead)},
		{in: "1\r\nab", kind: http1.Data, n: 4, data: "a"},
		{in: "b", fails: bad, state: "failed"},
		{in: getHead, fails: bad, state: "failed"},
		{in: "", fails: bad},
		{in: "EOF", fails: bad, state: "failed"},
	})
	run(t, http1.NewResponseReader(nil), []step{
		{in: "HTTP/1.1 200 OK\n", fails: "an LF without CR"},
		{in: "EOF", fails: "an LF without CR"},
	})
}

// TestFaultsComeEarly sees that what no further byte can mend is refused at
// once, and what may still become right is not.
func TestFaultsComeEarly(t *testing.T) {
	for _, c := range []struct{ in, reason string }{
		{"GET /\x00", "a control character"},
		{"\x16\x03\x01", "a control character"},
		{"GET /\rx", "a CR without LF"},
		{"GET /\n", "an LF without CR"},
		{"GET /\r", ""},
		{"GET / HTTP/2.0\r\n", "the protocol version is not HTTP/1"},
		{"GET / HTTP/2.0\r", ""},
		{"NO NO NO", ""},
		{"GET / HTTP/1.1\r\nA b\r\n", "whitespace in a field name or before its colon"},
		{"GET / HTTP/1.1\r\nA b", ""},
		{"GET / HTTP/1.1\r\nA: \x01", "a control character"},
		{"GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 117), "too many fields"},
		{"GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 116), ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n", ""}, // the whole head is judged at its end
		{teHead + "1\n", "an LF without CR"},
		{teHead + "1\rx", "a CR without LF"},
		{teHead + "g", ""},
		{teHead + "1\r\nxy", "no CRLF at the end of a chunk"},
		{teHead + "1\r\nx\ry", "no CRLF at the end of a chunk"},
		{teHead + "0\r\nA\n", "an LF without CR"},
	} {
		if _, err := readOne(t, http1test.Conversation{}, c.in); reason(err) != c.reason {
			t.Errorf("%q: %v, want %q", c.in, err, c.reason)
		}
	}
}

// TestOrderOfFaults has messages with two faults: which one is told must not
// depend on how the input comes. readOne looks after that.
func TestOrderOfFaults(t *testing.T) {
	long := strings.Repeat("a", 32<<10)
	for _, c := range []struct{ in, reason string }{
		{"G(T / HTTP/1.1\r\nA b: c\x00\r\n\r\n", "the method is not a token"},
		{"GET / HTTP/1.1\r\nHost: /\r\nA b: c\r\n\r\n", "whitespace in a field name or before its colon"},
		{"GET / HTTP/1.1\r\nA b: c\x00\r\n\r\n", "a control character"},
		{"GET / HTTP/1.1\r\nA: " + long + "\x00\r\n\r\n", "the head is too large"},
		{"GET / HTTP/1.1\r\nA: \x00" + long + "\r\n\r\n", "a control character"},
		{"GET / HTTP/1.1\r\nA b: " + long + "\r\n\r\n", "the head is too large"},
		{"GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 117) + "A b\r\n\r\n", "too many fields"},
		{"GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 116) + "A b\r\n\r\n",
			"whitespace in a field name or before its colon"},
		{"GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 116) + "\r\n", "too many fields"},
		{"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "no Host field"},
		{"GET / HTTP/2.0\r\n\r\n", "the protocol version is not HTTP/1"},
		{"GET a HTTP/2.0\r\nHost: a\r\n\r\n", "the protocol version is not HTTP/1"},
	} {
		if _, err := readOne(t, http1test.Conversation{}, c.in); reason(err) != c.reason {
			t.Errorf("%.60q: %v, want %q", c.in, err, c.reason)
		}
	}
}

// TestDataDoesNotReachBeyond sees that appending to what is handed out cannot
// overwrite what follows it.
func TestDataDoesNotReachBeyond(t *testing.T) {
	in := []byte("PUT http://h/p?q HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab!")
	r := http1.NewRequestReader(nil)
	var h http1.Head
	ev := testkit.Must(r.Next(in, &h))(t)
	data := testkit.Must(r.Next(in[ev.N:], nil))(t)
	for _, b := range [][]byte{h.MethodText, h.Target, h.Path, h.Query, h.Host, h.Fields[0].Name, h.Fields[0].Value,
		data.Data} {
		if cap(b) != len(b) {
			t.Errorf("%q has room for %d bytes", b, cap(b))
		}
	}
}

func TestReaderIsSmall(t *testing.T) {
	if n := reflect.TypeFor[http1.Reader]().Size(); n > 64 {
		t.Errorf("a Reader has %d bytes", n)
	}
}
