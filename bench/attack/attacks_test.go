package attack

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What attackers send is what the attack says, as net/http reads it.
func TestMessages(t *testing.T) {
	texts := make(map[string]string)
	for _, a := range attacks(10) {
		texts[a.name] = a.text
	}
	// net/http takes no extension of more than 4 KiB.
	texts["extension"] = strings.Replace(texts["extension"], strings.Repeat("a", 64<<10), strings.Repeat("a", 3000), 1)
	read := func(name string) *http.Request {
		t.Helper()
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(texts[name])))
		if err != nil {
			t.Fatalf("%s is no request: %v", name, err)
		}
		return r
	}
	if r := read("long-line"); len(r.Header.Get("X-Long")) != 100_000 {
		t.Errorf("a long line of %d", len(r.Header.Get("X-Long")))
	}
	if r := read("many-fields"); len(r.Header) != 10_000 {
		t.Errorf("%d fields", len(r.Header))
	}
	if r := read("long-name"); len(r.Header) != 1 {
		t.Errorf("%d fields", len(r.Header))
	}
	for name, want := range map[string]string{"tiny-chunks": strings.Repeat("a", 1<<16), "extension": "a"} {
		if body, err := io.ReadAll(read(name).Body); err != nil || string(body) != want {
			t.Errorf("%s: a body of %d bytes, want %d, %v", name, len(body), len(want), err)
		}
	}
	if n := strings.Count(strings.Repeat(message(usual), 7), "GET /api/test "); n != 7 {
		t.Errorf("a pipeline of %d", n)
	}
	if text := texts["empty-lines"]; strings.TrimLeft(text, "\r\n") != message(usual) || len(text) != 4000+len(message(usual)) {
		t.Errorf("empty lines: %q", text)
	}
	if r := read("huge-length"); r.ContentLength != 1<<63-1 {
		t.Errorf("a huge length of %d", r.ContentLength)
	}
	if text := texts["slow-head"]; !strings.HasSuffix(text, "\r\nX-Slow: ") || strings.Contains(text, "\r\n\r\n") {
		t.Errorf("an open head: %q", text)
	}
}

func TestStatusOf(t *testing.T) {
	for line, want := range map[string]int{
		"HTTP/1.1 431 Too Large\r\n": 431, "HTTP/1.1 200": 200, "HTTP/1.1 2": 0, "HTTP/1.1 xyz": 0, "HTTP/1.0 200 OK": 0, "junk": 0, "": 0,
	} {
		if got := statusOf([]byte(line)); got != want {
			t.Errorf("%q is %d, want %d", line, got, want)
		}
	}
}
