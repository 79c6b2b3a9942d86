package http1_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
)

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"request line", http1.AppendRequestLine(nil, &http1.Head{MethodText: []byte("GET"), Target: []byte("/a?b")}),
			"GET /a?b HTTP/1.1\r\n"},
		{"status line", http1.AppendStatusLine(nil, 429, http1.ReasonPhrase(429)), "HTTP/1.1 429 Too Many Requests\r\n"},
		{"status line without phrase", http1.AppendStatusLine(nil, 299, http1.ReasonPhrase(299)), "HTTP/1.1 299 \r\n"},
		{"reason", http1.AppendStatusLine(nil, 200, []byte("Fine")), "HTTP/1.1 200 Fine\r\n"},
		{"field", http1.AppendField(nil, "A", []byte("b")), "A: b\r\n"},
		{"string field", http1.AppendField(nil, "A", "b"), "A: b\r\n"},
		{"number", http1.AppendFieldInt(nil, "A", -12), "A: -12\r\n"},
		{"received field", http1.AppendFieldLine(nil, &http1.Field{Name: []byte("a"), Value: []byte("")}), "a: \r\n"},
		{"head end", http1.AppendHeadEnd([]byte("x")), "x\r\n"},
		{"chunk", http1.AppendChunk(nil, bytes.Repeat([]byte("x"), 18)), "12\r\n" + strings.Repeat("x", 18) + "\r\n"},
		{"empty chunk", http1.AppendChunk([]byte("x"), nil), "x"},
		{"last chunk", http1.AppendLastChunk(nil, nil), "0\r\n\r\n"},
		{"trailers", http1.AppendLastChunk(nil, []byte("A: b\r\n")), "0\r\nA: b\r\n\r\n"},
		{"answer", http1.AppendLocalResponse(nil, http1.LocalResponse{Status: 429, ContentType: "text/plain",
			Body:  []byte("no"),
			Extra: []byte("A: b\r\n"), Close: true}),
			"HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nA: " +
				"b\r\nConnection: close\r\n\r\nno"},
		{"empty answer", http1.AppendLocalResponse(nil, http1.LocalResponse{Status: 503}),
			"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"},
		{"answer to HEAD", http1.AppendLocalResponse(nil, http1.LocalResponse{Status: 200, Body: []byte("no"), Head: true}),
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		{"100", http1.AppendLocalResponse(nil, http1.LocalResponse{Status: 100}), "HTTP/1.1 100 Continue\r\n\r\n"},
		{"204", http1.AppendLocalResponse(nil, http1.LocalResponse{Status: 204, Body: []byte("no")}),
			"HTTP/1.1 204 No Content\r\n\r\n"},
		{"304", http1.AppendLocalResponse(nil, http1.LocalResponse{Status: 304, Body: []byte("no")}),
			"HTTP/1.1 304 Not Modified\r\n\r\n"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// pick returns n random bytes of those given.
func pick(rnd *rand.Rand, from string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[rnd.IntN(len(from))]
	}
	return string(b)
}

const (
	tokenBytes = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	valueBytes = tokenBytes + " \t\"(),/:;<=>?@[\\]{}\x80\xa0\xff"
)

// randomFields returns names and values that are well-formed and of no effect
// on the message.
func randomFields(rnd *rand.Rand) (fields [][2]string) {
	for range rnd.IntN(12) {
		name := "x" + pick(rnd, tokenBytes, rnd.IntN(30))
		value := strings.Trim(pick(rnd, valueBytes, rnd.IntN(60)), " \t")
		fields = append(fields, [2]string{name, value})
	}
	return fields
}

// TestParsingUndoesAppending sees that what is appended is read as it was
// meant, and appended again is the same.
func TestParsingUndoesAppending(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		response := rnd.IntN(2) == 0
		fields := append([][2]string{{"Host", "weir.test"}}, randomFields(rnd)...)
		method, target := pick(rnd, tokenBytes, 1+rnd.IntN(8)), "/"+pick(rnd, tokenBytes[4:], rnd.IntN(20))
		status, reason := 200+rnd.IntN(3)+rnd.IntN(4)*100, strings.TrimLeft(pick(rnd, valueBytes, rnd.IntN(20)), " ")
		var out []byte
		if response {
			out = http1.AppendStatusLine(out, status, []byte(reason))
		} else {
			out = http1.AppendRequestLine(out, &http1.Head{MethodText: []byte(method), Target: []byte(target)})
		}
		for _, f := range fields {
			out = http1.AppendField(out, f[0], f[1])
		}
		body := pick(rnd, valueBytes, rnd.IntN(100))
		if chunked := rnd.IntN(2) == 0; chunked {
			out = http1.AppendHeadEnd(http1.AppendField(out, "Transfer-Encoding", "chunked"))
			half := rnd.IntN(len(body) + 1)
			out = http1.AppendChunk(http1.AppendChunk(out, []byte(body[:half])), []byte(body[half:]))
			out = http1.AppendLastChunk(out, nil)
		} else {
			out = http1.AppendHeadEnd(http1.AppendFieldInt(out, "Content-Length", int64(len(body))))
			out = append(out, body...)
		}
		m, err := readOne(t, http1test.Conversation{Response: response, Single: true}, string(out))
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		h := &m.Head
		if response && (h.Status != status || string(h.Reason) != reason) ||
			!response && (string(h.MethodText) != method || string(h.Target) != target) || m.Body != body || !m.Complete {
			t.Fatalf("%q: %s", out, &m)
		}
		for i, f := range fields {
			if string(h.Fields[i].Name) != f[0] || string(h.Fields[i].Value) != f[1] {
				t.Fatalf("%q: field %d is %q: %q", out, i, h.Fields[i].Name, h.Fields[i].Value)
			}
		}
		if again := appendHead(nil, h); !bytes.HasPrefix(out, again) || !bytes.HasSuffix(again, []byte("\r\n\r\n")) {
			t.Fatalf("%q\nappended again is\n%q", out, again)
		}
	}
}

// appendHead appends all of h as it has come.
func appendHead(dst []byte, h *http1.Head) []byte {
	if h.Status != 0 {
		dst = http1.AppendStatusLine(dst, h.Status, h.Reason)
	} else {
		dst = fmt.Appendf(dst, "%s %s HTTP/1.1\r\n", h.MethodText, h.Target)
	}
	for _, f := range h.Fields {
		dst = http1.AppendFieldLine(dst, &f)
	}
	return http1.AppendHeadEnd(dst)
}

// TestAppendingDoesNotAllocate covers the functions that forwarding a head,
// which TestNoAllocation does, has no use for.
func TestAppendingDoesNotAllocate(t *testing.T) {
	dst, body := make([]byte, 0, 1024), []byte("body")
	answer := http1.LocalResponse{Status: 429, ContentType: "text/plain", Body: body, Extra: []byte("A: b\r\n"),
		Close: true}
	if n := testing.AllocsPerRun(100, func() {
		dst = http1.AppendLocalResponse(dst[:0], answer)
		dst = http1.AppendStatusLine(dst, 200, body)
		dst = http1.AppendLastChunk(http1.AppendChunk(dst, body), nil)
		dst = http1.AppendFieldInt(dst, "Content-Length", 1<<40)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWords(t *testing.T) {
	for m := http1.MethodOther + 1; m <= http1.PATCH; m++ {
		if http1.MethodOf([]byte(m.String())) != m {
			t.Errorf("%d is %q", m, m)
		}
	}
	for _, name := range []string{"get", "GETS", "", "OTHER"} {
		if m := http1.MethodOf([]byte(name)); m != http1.MethodOther {
			t.Errorf("%q is %s", name, m)
		}
	}
	if got := http1.Method(200).String(); got != "OTHER" {
		t.Errorf("a method that does not exist is called %q, want OTHER", got)
	}
	for m, want := range map[http1.Method]bool{http1.GET: true, http1.HEAD: true, http1.PUT: true, http1.DELETE: true,
		http1.OPTIONS: true, http1.TRACE: true, http1.POST: false, http1.PATCH: false, http1.CONNECT: false,
		http1.MethodOther: false} {
		if m.Idempotent() != want {
			t.Errorf("%s is idempotent: %t", m, !want)
		}
	}
	for status, want := range map[int]string{100: "Continue", 200: "OK", 226: "IM Used", 304: "Not Modified", 418: "",
		451: "Unavailable For Legal Reasons",
		511: "Network Authentication Required", 512: "", 599: "", 99: "", 600: "", -1: ""} {
		if got := http1.ReasonPhrase(status); got != want {
			t.Errorf("%d is %q", status, got)
		}
	}
}
