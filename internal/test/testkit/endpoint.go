package testkit

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An Endpoint is an address where a program answers requests. Requests are written as a line with
// method, target and fields, such as "GET /a X-A=1", and each has a connection of its own.
type Endpoint struct {
	T     testing.TB
	Addr  string
	From  string      // address of the client; empty: 127.0.0.1
	Token string      // bearer token; empty: none
	TLS   *tls.Config // nil: no TLS
}

// At returns the endpoint at another port of the program.
func (e Endpoint) At(port string) Endpoint {
	host, _, _ := strings.Cut(e.Addr, ":")
	e.Addr = host + ":" + port
	return e
}

// Port returns the port of the endpoint.
func (e Endpoint) Port() string { return e.Addr[strings.LastIndexByte(e.Addr, ':')+1:] }

// Listens reports whether a connection is accepted.
func (e Endpoint) Listens() bool {
	c, err := net.Dial("tcp", e.Addr)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Try sends a request and returns its answer and the body of that.
func (e Endpoint) Try(line string, body ...string) (*http.Response, string, error) {
	return e.Raw(e.request(line, strings.Join(body, "")))
}

// Raw is Try for the bytes of a request. The answer is nil if there is none.
func (e Endpoint) Raw(request string) (*http.Response, string, error) {
	var d net.Dialer
	if e.From != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(e.From)}
	}
	c, err := d.Dial("tcp", e.Addr)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(Timeout))
	if e.TLS != nil {
		c = tls.Client(c, e.TLS)
	}
	_, _ = io.WriteString(c, request) // it may be answered before its end
	method, _, _ := strings.Cut(request, " ")
	for in := bufio.NewReader(c); ; {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return nil, "", err
		}
		if res.StatusCode != http.StatusContinue {
			text, err := io.ReadAll(res.Body)
			return res, string(text), err
		}
	}
}

// request returns the bytes of a request.
func (e Endpoint) request(line, body string) string {
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' })
	host, fields, length := "localhost", "", fmt.Sprintf("Content-Length: %d\r\n", len(body))
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "Host":
			host = value
			continue
		case "Transfer-Encoding":
			length, body = "", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
		fields += name + ": " + value + "\r\n"
	}
	if e.Token != "" {
		fields += "Authorization: Bearer " + e.Token + "\r\n"
	}
	return words[0] + " " + words[1] + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + length + fields +
		"\r\n" + body
}

// Do is Try for a request that must be answered.
func (e Endpoint) Do(line string, body ...string) (*http.Response, string) {
	e.T.Helper()
	res, text, err := e.Try(line, body...)
	if err != nil {
		e.T.Fatalf("%s: %v", line, err)
	}
	return res, text
}

// Call is Do for callers that need no fields of the answer.
func (e Endpoint) Call(line string, body ...string) (status int, text string) {
	e.T.Helper()
	res, text := e.Do(line, body...)
	return res.StatusCode, text
}

// Require fails unless a request is answered with the status and with part in the body, which it
// returns.
func (e Endpoint) Require(line string, status int, part string, body ...string) string {
	e.T.Helper()
	got, text := e.Call(line, body...)
	if got != status || !strings.Contains(text, part) {
		e.T.Errorf("%s: answered %d %.300s, want %d with %q", line, got, text, status, part)
	}
	return text
}

// Await waits until a request is answered with the status and with part in the body, which it
// returns. Until then there may be no answer at all.
func (e Endpoint) Await(line string, status int, part string, body ...string) (text string) {
	e.T.Helper()
	Eventually(e.T, fmt.Sprintf("%s is answered %d with %q", line, status, part), func() bool {
		res, got, err := e.Try(line, body...)
		text = got
		return err == nil && res.StatusCode == status && strings.Contains(text, part)
	})
	return text
}

// Decode reads the JSON of an answer to GET.
func (e Endpoint) Decode(target string, into any) {
	e.T.Helper()
	status, text := e.Call("GET " + target)
	if err := json.Unmarshal([]byte(text), into); err != nil || status != http.StatusOK {
		e.T.Fatalf("GET %s: %d %s %v", target, status, text, err)
	}
}

// Metrics returns the samples of the program.
func (e Endpoint) Metrics() map[string]float64 {
	e.T.Helper()
	return Samples(e.T, e.Require("GET /metrics", http.StatusOK, ""))
}

// Open sends a GET request on a connection that stays open, and does not wait for the answer.
func (e Endpoint) Open(target string) *Conn {
	e.T.Helper()
	c := DialFrom(e.T, cmp.Or(e.From, "127.0.0.1"), e.Addr)
	c.Send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
	return c
}
