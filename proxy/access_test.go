package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
)

// accessLine is a line of the access log.
type accessLine struct {
	Client, Method, Path, Target, Rule, Decision, RequestID, Reason, UserAgent string
	Status                                                                     int
	Bytes                                                                      int
	Duration, TargetTime                                                       float64
}

// accessLines are the lines of a file, when there are n of them.
func (p *running) accessLines(file string, n int) (lines []accessLine) {
	p.T.Helper()
	testkit.Eventually(p.T, fmt.Sprintf("%d lines in %s", n, file), func() bool {
		text, _ := os.ReadFile(file)
		lines = nil
		for line := range strings.Lines(string(text)) {
			var one accessLine
			if !strings.HasSuffix(line, "\n") {
				return false
			}
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				p.T.Fatalf("%s: %v", line, err)
			}
			lines = append(lines, one)
		}
		return len(lines) >= n
	})
	if len(lines) != n {
		p.T.Fatalf("%s has %d lines, want %d: %+v", file, len(lines), n, lines)
	}
	return lines
}

// The access log has the client and the outcome of each request. Request ids of trusted proxies
// are kept in log, target and answer; others are replaced.
func TestAccessLog(t *testing.T) {
	var sawID string
	target := serve(t, func(w http.ResponseWriter, q *http.Request) {
		sawID = q.Header.Get("X-Request-Id")
		w.Header().Set("X-Request-Id", "the target's")
		fmt.Fprint(w, "hello")
	})
	file := filepath.Join(t.TempDir(), "access.log")
	p := launch(t, []string{"TARGET_URL", target, "TRUSTED_PROXIES", "127.0.0.2/32", "ADMIN_OPEN", "true",
		"RATE_LIMIT_LIMIT", "2", "RATE_LIMIT_WINDOW", "31536000", "ACCESS_LOG", file, "REQUEST_ID", "on"})
	send := func(from, request string) (status int, id string) {
		t.Helper()
		p.From = from
		res, _ := p.Do(request + ` X-Forwarded-For=192.0.2.9 X-Request-Id=from-outside-1 User-Agent=evil","status":200,"x":"`)
		if ids := res.Header.Values("X-Request-Id"); len(ids) == 1 {
			id = ids[0]
		} else {
			t.Errorf("%s: the answer's ids are %q", request, ids)
		}
		return res.StatusCode, id
	}
	made := regexp.MustCompile(`^[0-9a-f]{32}$`)
	if status, id := send("127.0.0.2", "GET /a?b=c"); status != 200 || id != "from-outside-1" || sawID != id {
		t.Errorf("of a trusted proxy: %d, %q, the target saw %q", status, id, sawID)
	}
	if status, id := send("127.0.0.1", "GET /a"); status != 200 || !made.MatchString(id) || sawID != id {
		t.Errorf("of a client: %d, %q, the target saw %q", status, id, sawID)
	}
	_, refusedID := send("127.0.0.1", "GET /r")
	p.Call("GET /config/limits") // own endpoints are not in the log
	testkit.Dial(t, p.Addr).Send("nonsense\r\n\r\n")
	lines := p.accessLines(file, 4) // in order by loop only
	order := []string{"/a?b=c", "/a", "/r", ""}
	slices.SortFunc(lines, func(a, b accessLine) int { return slices.Index(order, a.Path) - slices.Index(order, b.Path) })
	if l := lines[0]; l.Client != "192.0.2.9" || l.Method != "GET" || l.Path != "/a?b=c" || l.Status != 200 ||
		l.Bytes != 5 || l.RequestID != "from-outside-1" || l.Target == "" || l.Duration <= 0 || l.TargetTime <= 0 ||
		l.Rule != "global" || l.Reason != "" || l.UserAgent != `evil","status":200,"x":"` {
		t.Errorf("first %+v", l)
	}
	if l := lines[1]; l.Client != "127.0.0.1" || l.Path != "/a" {
		t.Errorf("second %+v", l)
	}
	if l := lines[2]; l.Status != 429 || l.Reason != "limit" || l.RequestID != refusedID || len(l.Decision) != 24 ||
		l.Target != "" {
		t.Errorf("refused %+v", l)
	}
	if l := lines[3]; l.Status != 400 || l.Reason != "bad_request" || l.Client != "127.0.0.1" ||
		!made.MatchString(l.RequestID) || l.Path != "" {
		t.Errorf("nonsense %+v", l)
	}
	p.Require("GET /config/decisions/"+lines[2].Decision, 200, `"requestId":"`+refusedID+`"`)

	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	p.Logged("INFO Proxy - Reloaded ")
	send("127.0.0.1", "GET /after")
	if l := p.accessLines(file, 1)[0]; l.Path != "/after" {
		t.Errorf("after the rotation %+v", l)
	}
	p.accessLines(file+".1", 4)
}

// Of what was answered well a share is written, or none; of what was refused everything.
func TestAccessLogOfRefused(t *testing.T) {
	for _, which := range [][]string{{"ACCESS_LOG_WHICH", "refused"}, {"ACCESS_LOG_SAMPLE", "0"}} {
		file := filepath.Join(t.TempDir(), "access.log")
		p := launch(t, append([]string{"RATE_LIMIT_LIMIT", "3", "RATE_LIMIT_WINDOW", "31536000",
			"ACCESS_LOG", file}, which...))
		for range 5 {
			p.Call("GET /")
		}
		for _, l := range p.accessLines(file, 2) {
			if l.Status != 429 || l.RequestID != "" {
				t.Errorf("%v: %+v", which, l)
			}
		}
	}
}

// A disk that is full stops nothing: lines are lost, counted and warned of.
func TestAccessLogOnFullDisk(t *testing.T) {
	p := launch(t, []string{"ACCESS_LOG", "/dev/full", "ACCESS_LOG_FORMAT", "combined"})
	for range 7 {
		p.Require("GET /", 200, "")
	}
	p.Await("GET /metrics", 200, "\nratelimiter_access_log_dropped_total 7\n")
	p.Logged(`WARN AccessLog - Lines of the access log were lost count=`)

	cannotStart(t, []string{"ACCESS_LOG", "/dev/null/x"}, 2, `proxy: ACCESS_LOG: "/dev/null/x" cannot be written: `)
}

// On the standard output its lines stand between those of the log.
func TestAccessLogOnStdout(t *testing.T) {
	p := launch(t, []string{"ACCESS_LOG", "stdout", "ACCESS_LOG_FORMAT", "combined"})
	p.Call("GET /x?y=z User-Agent=me/1.1")
	if line := p.Logged(`"GET /x?y=z HTTP/1.1" 200 2 "-" "me/1.1"`); !strings.HasPrefix(line, "127.0.0.1 - - [") {
		t.Errorf("wrote %s", line)
	}
}

// A line about a target that could not be reached says which.
func TestAccessLogOfDeadTarget(t *testing.T) {
	dead := testkit.FreeAddr(t)
	file := filepath.Join(t.TempDir(), "access.log")
	p := launch(t, []string{"TARGET_URL", "http://" + dead, "ACCESS_LOG", file})
	p.Call("GET /")
	if l := p.accessLines(file, 1)[0]; l.Status != 502 || l.Reason != "connect_refused" || l.Target != dead {
		t.Errorf("%+v", l)
	}
}

// A client that leaves within an answer has got its status; one that leaves before, none.
func TestAccessLogOfClientThatLeaves(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/stream" {
			fmt.Fprint(w, "hello")
			_ = http.NewResponseController(w).Flush()
		}
		<-q.Context().Done()
	})
	file := filepath.Join(t.TempDir(), "access.log")
	p := launch(t, []string{"TARGET_URL", target, "ACCESS_LOG", file})
	for path, want := range map[string]int{"/stream": 200, "/never": 499} {
		conn := p.Open(path)
		if want == 200 {
			if _, err := conn.Read(make([]byte, 12)); err != nil {
				t.Fatal(err)
			}
		} else {
			p.Await("GET /metrics", 200, "\nratelimiter_upstream_in_flight 1\n")
		}
		conn.Reset()
		if l := p.accessLines(file, 1)[0]; l.Path != path || l.Status != want || l.Reason != "client_left" {
			t.Errorf("%+v", l)
		}
		if err := os.Truncate(file, 0); err != nil {
			t.Fatal(err)
		}
	}
}
