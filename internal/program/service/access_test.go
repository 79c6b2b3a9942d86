package service_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
)

// A row is a kind of request, and whom it gets past.
type row struct {
	name   string
	user   string // who makes it; empty: the test itself
	by     string // the relay that it takes; empty: none
	host   string // empty: localhost and the program's port
	fields string // HOST stands for host
	passes bool   // to guarded endpoints
}

// rowsOf are the requests that are made of programs started in the same way.
var rowsOf = map[string][]row{
	"": {
		{"by root", "", "", "", "", true},
		{"by the program's user", programUser, "", "", "", true},
		{"by another user", "nobody", "", "", "", false},
		{"with a token that nobody has set", "nobody", "", "", "Authorization: Bearer \r\n", false},
		{"by nginx", "", "nginx", "", "", false},
		{"by HAProxy, http", "", "haproxy http", "", "", false},
		{"by HAProxy, tcp", "", "haproxy tcp", "", "", false},
		{"by socat", "", "socat", "", "", false},
		{"by a proxy that says so", "", "", "", "X-Forwarded-For: 10.0.0.1\r\n", false},
		{"by a proxy that is hidden", "", "", "", "Connection: X-Forwarded-For, close\r\nX-Forwarded-For: 10.0.0.1\r\n",
			false},
		{"for a foreign page", "", "", "",
			"Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\n", false},
		{"for a foreign page, by an old browser", "", "", "",
			"Origin: http://evil.example\r\nContent-Type: text/plain\r\n", false},
		{"for a page whose name was resolved to loopback", "", "", "evil.example",
			"Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n", false},
		{"for an own page", "", "", "", "Origin: http://HOST\r\nSec-Fetch-Site: same-origin\r\n", true},
		{"for an own page, by nginx", "", "nginx", "", "Origin: http://HOST\r\nSec-Fetch-Site: same-origin\r\n", false},
	},
	"ADMIN_TOKEN=s3cr3t": {
		{"without the token", "", "", "", "", false},
		{"with another", "", "", "", "Authorization: Bearer s3cr3\r\n", false},
		{"with the token", "", "", "", "Authorization: Bearer s3cr3t\r\n", true},
		{"with the token, by another user", "nobody", "", "", "Authorization: Bearer s3cr3t\r\n", true},
		{"with the token, by nginx", "", "nginx", "", "Authorization: Bearer s3cr3t\r\n", true},
		{"without the token, by nginx", "", "nginx", "", "", false},
		{"with the token, for another host", "", "", "weir.example", "Authorization: Bearer s3cr3t\r\n", true},
	},
	"ADMIN_OPEN=true": {
		{"by root", "", "", "", "", true},
		{"by another user", "nobody", "", "", "", true},
		{"by nginx", "", "nginx", "", "", true},
		{"for a foreign page", "", "", "", "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n", true},
	},
	"TRUSTED_PROXIES=10.0.0.0/8,127.0.0.1/32": {
		{"by root", "", "", "", "", false},
		{"by the program's user", programUser, "", "", "", false},
	},
}

// What all programs do, as real processes: who may use which endpoint, behind real
// proxies, each of them as a user of its own; and what they do with SIGHUP.
func TestPrograms(t *testing.T) {
	s := startStage(t)
	t.Run("who may ask", s.testAccess)
	t.Run("hangup", s.testHangups)
}

func (s *stage) testAccess(t *testing.T) {
	for setting, rows := range rowsOf {
		for _, p := range s.programs {
			if p.setting != setting {
				continue
			}
			for _, r := range rows {
				if s.missing(r) {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %s", p.name, setting, r.name), func(t *testing.T) {
					for _, e := range service.OwnEndpoints() {
						if e.Program == "" || e.Program == p.name {
							check(t, p, r, e)
						}
					}
				})
			}
			warning := "Requests refused: " + p.remedy() + " count="
			if setting == "ADMIN_OPEN=true" {
				warning = "ADMIN_OPEN is set: everybody"
			}
			p.program.Logged("WARN Admin - " + warning)
		}
	}
}

// remedy is what operators are told that they can do.
func (i *instance) remedy() string {
	if strings.HasPrefix(i.setting, "ADMIN_TOKEN=") {
		return "send the ADMIN_TOKEN that is set, or set ADMIN_OPEN=true"
	}
	return "set ADMIN_TOKEN, or ADMIN_OPEN=true"
}

// check makes one request and judges its answer.
func check(t *testing.T, p *instance, r row, e service.Endpoint) {
	method, path, _ := strings.Cut(e.Pattern, " ")
	path = strings.NewReplacer("{id}", "abc", "{$}", "").Replace(path)
	host := r.host
	if host == "" {
		host = "localhost" + p.addr[strings.LastIndexByte(p.addr, ':'):]
	}
	fields := strings.ReplaceAll(r.fields, "HOST", host)
	if !strings.Contains(fields, "Connection:") {
		fields += "Connection: close\r\n"
	}
	status, answered, body := p.ask(t, r, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n%s\r\n",
		method, path, host, fields))
	if fault := framed(answered); fault != "" {
		t.Errorf("%s: %d has %s", e.Pattern, status, fault)
	}
	refused := e.Guarded && !r.passes
	switch {
	case (status == http.StatusForbidden) != refused:
		t.Errorf("%s: %d %.300s; want it refused: %t", e.Pattern, status, body, refused)
	case refused &&
		!(strings.HasPrefix(body, `{"error":"`) && strings.HasSuffix(body, "; operators: "+p.remedy()+"\"}\n")):
		t.Errorf("%s is refused with %s", e.Pattern, body)
	case status == http.StatusMethodNotAllowed || status >= 500 && !strings.Contains(path, "readiness") ||
		strings.Contains(body, "not found: "):
		t.Errorf("%s has no such endpoint as %s: %d %.300s", p.name, e.Pattern, status, body)
	}
}

// framed says which field would let a page show an answer in a frame, unless none does.
func framed(fields http.Header) string {
	if options := fields["X-Frame-Options"]; len(options) != 1 || options[0] != "DENY" {
		return fmt.Sprintf("X-Frame-Options %q", options)
	}
	policies := fields["Content-Security-Policy"]
	if len(policies) != 1 || !strings.HasSuffix("; "+policies[0], "; frame-ancestors 'none'") {
		return fmt.Sprintf("Content-Security-Policy %q", policies)
	}
	return ""
}

// ask makes a request and returns the answer.
func (i *instance) ask(t *testing.T, r row, request string) (status int, fields http.Header, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	addr := i.addr
	if r.by != "" {
		addr = i.relays[r.by]
	}
	var there io.ReadWriter
	if r.user == "" {
		c := testkit.Must(new(net.Dialer).DialContext(ctx, "tcp", addr))(t)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
		there = c
	} else {
		c := asUser(t, r.user, "socat", "-", "TCP:"+addr)
		in := testkit.Must(c.StdinPipe())(t)
		out := testkit.Must(c.StdoutPipe())(t)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = c.Process.Kill(), c.Wait() }()
		there = struct {
			io.Reader
			io.Writer
		}{out, in}
	}
	if _, err := io.WriteString(there, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(there), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return res.StatusCode, res.Header, string(text)
}

// inCI reports whether nothing may be left out.
func inCI() bool { return os.Getenv("CI") == "true" }
