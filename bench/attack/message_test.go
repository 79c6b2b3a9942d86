package attack

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
)

// What attackers send is what the attack says, as net/http reads it.
func TestMessages(t *testing.T) {
	read := func(name string, b []byte) (*http.Request, []byte) {
		t.Helper()
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatalf("%s is no request: %v", name, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatalf("%s has a broken body: %v", name, err)
		}
		return r, body
	}
	if r, _ := read("a long line", longLine(1000)); len(r.Header.Get("X-Long")) != 1000 {
		t.Errorf("a long line of %d", len(r.Header.Get("X-Long")))
	}
	if r, _ := read("many fields", manyFields(300)); len(r.Header) != 300 {
		t.Errorf("%d fields", len(r.Header))
	}
	if r, _ := read("a long name", longName(2000)); len(r.Header) != 1 {
		t.Errorf("%d fields", len(r.Header))
	}
	if _, body := read("tiny chunks", tinyChunks(500)); len(body) != 500 {
		t.Errorf("tiny chunks of %d bytes", len(body))
	}
	if _, body := read("an extension", longExtension(3000)); string(body) != "a" {
		t.Errorf("behind an extension came %q", body)
	}
	if n := bytes.Count(pipeline(7), []byte("GET /api/test ")); n != 7 {
		t.Errorf("a pipeline of %d", n)
	}
	if b := emptyLines(3); !bytes.HasPrefix(b, []byte("\r\n\r\n\r\nGET ")) {
		t.Errorf("empty lines: %q", b)
	}
	if r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(post("9223372036854775807")))); err != nil || r.ContentLength != 1<<63-1 {
		t.Errorf("a huge length: %v", err)
	}
	if bytes.Contains(openHead(), []byte("\r\n\r\n")) {
		t.Error("an open head is closed")
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
