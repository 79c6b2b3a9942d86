package http1_test

import (
	"bytes"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

// A head that is assembled from its parts is that which a Reader has read, except for the capitals of names.
func TestAssembledAsRead(t *testing.T) {
	same := 0
	for _, c := range http1test.Requests(t) {
		in := testkit.Must(c.Bytes())(t)
		r := http1.NewRequestReader(nil)
		var read, made http1.Head
		if ev, err := r.Next(in, &read); err != nil || ev.Kind != http1.HeadDone || ofHTTP11(&read) {
			continue
		}
		made.Begin()
		made.MethodText, made.Target = read.MethodText, read.Target
		for _, f := range read.Fields {
			if id, ok := made.Add(bytes.ToLower(f.Name), f.Value); !ok || id != f.ID {
				t.Errorf("%s: Add(%q, %q) returns %v, %t", c.ID, f.Name, f.Value, id, ok)
			}
		}
		if err := made.FinishRequest(nil, read.Framing == http1.BodyNone); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		want, got := http1test.Message{Head: http1test.CloneHead(&read)}, http1test.Message{Head: made}
		for i := range want.Head.Fields {
			want.Head.Fields[i].Name = bytes.ToLower(want.Head.Fields[i].Name)
		}
		if got.String() != want.String() {
			t.Errorf("%s:\nread %s\nmade %s", c.ID, &want, &got)
		}
		same++
	}
	if same < 10 {
		t.Errorf("only %d heads were compared", same)
	}
}

// ofHTTP11 reports whether a head has what only HTTP/1 has.
func ofHTTP11(h *http1.Head) bool {
	for _, id := range []http1.FieldID{http1.FieldConnection, http1.FieldTransferEncoding} {
		if _, ok := h.Value(id); ok {
			return true
		}
	}
	return h.Minor != 1
}

func TestAssembleRefuses(t *testing.T) {
	long := strings.Repeat("x", 20<<10)
	for _, c := range []struct {
		name, method, target string
		fields               []string // names and values
		status               int
	}{
		{"nothing wrong", "GET", "/", []string{"host", "a"}, 0},
		{"no method", "", "/", []string{"host", "a"}, 400},
		{"a method that is no token", "G T", "/", []string{"host", "a"}, 400},
		{"no target", "GET", "", []string{"host", "a"}, 400},
		{"a space in the target", "GET", "/a b", []string{"host", "a"}, 400},
		{"a line end in the target", "GET", "/a\r\n", []string{"host", "a"}, 400},
		{"a broken escape", "GET", "/%zz", []string{"host", "a"}, 400},
		{"no host", "GET", "/", nil, 400},
		{"two hosts", "GET", "/", []string{"host", "a", "host", "a"}, 400},
		{"a host that is not valid", "GET", "/", []string{"host", "a b"}, 400},
		{"two lengths", "GET", "/", []string{"host", "a", "content-length", "1", "content-length", "1"}, 400},
		{"a length that is too large", "GET", "/", []string{"host", "a", "content-length", "9999999999999999999"}, 413},
		{"a target that is too long", "GET", "/" + long, []string{"host", "a"}, 414},
		{"too many bytes", "GET", "/", []string{"host", "a", "x", long}, 431},
	} {
		var h http1.Head
		h.Begin()
		h.MethodText, h.Target = []byte(c.method), []byte(c.target)
		for i := 0; i < len(c.fields); i += 2 {
			if _, ok := h.Add([]byte(c.fields[i]), []byte(c.fields[i+1])); !ok {
				t.Errorf("%s: %s is not added", c.name, c.fields[i])
			}
		}
		switch err := h.FinishRequest(nil, true); {
		case err == nil && c.status != 0, err != nil && http1.StatusOf(err) != c.status:
			t.Errorf("%s: %v, want %d", c.name, err, c.status)
		}
	}
}

func TestAddRefuses(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"accept", "*/*", true}, {"x_y", "", true}, {"a", "b\tc", true}, {"a", "\x80", true},
		{"", "b", false}, {"Accept", "b", false}, {"x-Y", "b", false}, {"a b", "c", false}, {"a:", "b", false},
		{"a\x80", "b", false}, {"a", "b\rc", false}, {"a", "b\nc", false}, {"a", "\x00", false}, {"a", "\x7f", false},
		{"a", " b", false}, {"a", "b\t", false}, {"a", " ", false},
	} {
		var h http1.Head
		h.Begin()
		if _, ok := h.Add([]byte(c.name), []byte(c.value)); ok != c.ok || ok != (len(h.Fields) == 1) {
			t.Errorf("Add(%q, %q) returns %t with %d fields", c.name, c.value, ok, len(h.Fields))
		}
	}
}

// The framing of a response says how a forwarder delimits it.
func TestAssembledResponses(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		method  http1.Method
		lengths []string
		ended   bool
		framing http1.Framing
		length  int64
	}{
		{"of unknown length", 200, http1.GET, nil, false, http1.BodyChunked, -1},
		{"without body", 200, http1.GET, nil, true, http1.BodyLength, 0},
		{"with a length", 200, http1.GET, []string{"5"}, false, http1.BodyLength, 5},
		{"to HEAD", 200, http1.HEAD, []string{"5"}, true, http1.BodyNone, 5},
		{"not modified", 304, http1.GET, nil, true, http1.BodyNone, -1},
		{"interim", 103, http1.GET, nil, false, http1.BodyNone, -1},
		{"with two lengths", 200, http1.GET, []string{"5", "5"}, false, 0, 0},
	} {
		var h http1.Head
		h.Begin()
		h.Status = c.status
		for _, length := range c.lengths {
			h.Add([]byte("content-length"), []byte(length))
		}
		if err := h.FinishResponse(nil, c.method, c.ended); len(c.lengths) > 1 {
			if http1.StatusOf(err) != 502 {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if h.Framing != c.framing || h.Length != c.length {
			t.Errorf("%s: framing %d, length %d", c.name, h.Framing, h.Length)
		}
	}
}

func TestFieldLinesOfBytes(t *testing.T) {
	in := []byte("A: b\r\nC:  d \r\nE:\r\n\r\nF: g\r\n")
	var got []string
	for f := range http1.FieldLines(in) {
		got = append(got, string(f.Name)+"="+string(f.Value))
	}
	if want := "A=b C=d E="; strings.Join(got, " ") != want {
		t.Errorf("FieldLines yields %q, want %q", got, want)
	}
	for range http1.FieldLines(nil) {
		t.Error("FieldLines yields something of nothing")
	}
}
