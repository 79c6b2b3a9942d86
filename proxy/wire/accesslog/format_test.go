package accesslog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"regexp"
	"testing"
	"time"
)

func entry() *Entry {
	return &Entry{At: time.Date(2026, 1, 19, 16, 30, 0, 5e6, time.UTC), Client: netip.MustParseAddr("192.0.2.7"),
		Method: []byte("GET"), Host: []byte("example.com"),
		Target: []byte("/a?b=c"), Status: 429, Bytes: 12, Duration: 1500 * time.Microsecond, TargetTime: -1,
		Rule: "global", Reason: "limit",
		Decision: []byte("0a"), RequestID: []byte("r-1"), UserAgent: []byte("curl/8")}
}

func TestLines(t *testing.T) {
	for f, want := range map[Format]string{
		Combined: `192.0.2.7 - - [19/Jan/2026:16:30:00 +0000] "GET /a?b=c HTTP/1.1" 429 12 "-" "curl/8"`,
		JSON: `{"time":"2026-01-19T16:30:00.005Z","client":"192.0.2.7","method":"GET","host":"example.com","path":"/a?b=c","status":429,"bytes":12,"duration":0.0015,` +
			`"rule":"global","decision":"0a","requestId":"r-1","reason":"limit","userAgent":"curl/8"}`,
	} {
		if got := string(f.Append(nil, entry())); got != want+"\n" {
			t.Errorf("got  %swant %s", got, want)
		}
	}
	if got, want := string(Combined.Append(nil, &Entry{Status: 400})),
		`- - - [01/Jan/0001:00:00:00 +0000] "-" 400 0 "-" "-"`; got != want+"\n" {
		t.Errorf("got  %swant %s", got, want)
	}
}

// combinedLine is a line as readers of the format take it apart.
var combinedLine = regexp.MustCompile(
	`^[0-9a-f.:]+ - - \[[^]]+\] "(?:[^"\\]|\\x[0-9a-f]{2})*" 429 12 "(?:[^"\\]|\\x[0-9a-f]{2})*" "(?:[^"\\]|\\x[0-9a-f]{2})*"\n$`)

// Whatever a client sends is one line that says what it says.
func FuzzLine(f *testing.F) {
	for _, evil := range []string{"x", "\n127.0.0.1 - - admin", `" 200 1 "`, `\`, `","status":200,"x":"`,
		"\xff\xfe\x80", "\u2028\u2029\u0085", "\x1b[31m\x7f\x00\r", "\u009b31m\u202e\u2066"} {
		f.Add(evil, evil)
	}
	f.Fuzz(func(t *testing.T, target, agent string) {
		e := entry()
		e.Method, e.Target, e.UserAgent, e.Referer, e.Host, e.RequestID, e.Key = []byte(target), []byte(target),
			[]byte(agent), []byte(agent), []byte(target), []byte(agent), []byte(target)
		line := Combined.Append(nil, e)
		if !combinedLine.Match(line) {
			t.Errorf("combined: %q", line)
		}
		line = JSON.Append(nil, e)
		var read struct {
			Status    int
			Path, Key string
		}
		if err := json.Unmarshal(line, &read); err != nil || read.Status != 429 || bytes.Count(line, []byte("\n")) != 1 ||
			bytes.ContainsAny(line, "\r\x1b\x7f\u2028\u2029\u0085\u009b\u202e\u2066") {
			t.Errorf("JSON: %q, %v", line, err)
		}
		if want := string([]rune(target)); read.Path != want || read.Key != want {
			t.Errorf("JSON: the path %q is read as %q", target, read.Path)
		}
	})
}

func TestLineDoesNotAllocate(t *testing.T) {
	e, line := entry(), make([]byte, 0, 1024)
	for _, f := range []Format{JSON, Combined} {
		if n := testing.AllocsPerRun(100, func() { line = f.Append(line[:0], e) }); n != 0 {
			t.Errorf("%d: %v allocations", f, n)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	e, line := entry(), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		line = JSON.Append(line[:0], e)
	}
}
