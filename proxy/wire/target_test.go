package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

// A fakeTarget plays the protected service: on each connection its script runs.
//
// Safe for concurrent use: a mutex guards the connections.
type fakeTarget struct {
	t      *testing.T
	script func(c *targetConn)
	addr   string
	asked  chan string  // requests that came, see holds
	let    chan bool    // of those that are held: each value lets one answer out
	opened atomic.Int64 // connections ever
	served atomic.Int64 // requests that were read, but for checks
	status atomic.Int64 // of a member's answers
	health atomic.Int64 // of those to GET /health

	mu    sync.Mutex
	ln    net.Listener
	conns map[net.Conn]bool
	ended sync.WaitGroup
}

// newTarget starts a target. It ends with the test.
func newTarget(t *testing.T, script func(c *targetConn)) *fakeTarget {
	t.Helper()
	addr := testkit.FreeAddr(t) // so that it can come back
	return newTargetAt(t, addr, script)
}

func newTargetAt(t *testing.T, addr string, script func(c *targetConn)) *fakeTarget {
	t.Helper()
	f := &fakeTarget{t: t, script: script, addr: addr, asked: make(chan string, 1000),
		let: make(chan bool, 1000)}
	f.start()
	t.Cleanup(f.kill)
	return f
}

// start listens, on the address of before if there was one.
func (f *fakeTarget) start() {
	f.t.Helper()
	ln := testkit.Must(net.Listen("tcp", f.addr))(f.t)
	f.addr, f.ln, f.conns = ln.Addr().String(), ln, make(map[net.Conn]bool)
	f.ended.Go(func() { f.accept(ln) })
}

func (f *fakeTarget) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		if f.conns == nil {
			f.mu.Unlock()
			_ = c.Close()
			continue
		}
		f.conns[c] = true
		f.mu.Unlock()
		number := f.opened.Add(1)
		f.ended.Go(func() {
			defer f.forget(c)
			f.script(&targetConn{Conn: c, t: f.t, at: f, number: number, reader: http1.NewRequestReader(&room)})
		})
	}
}

func (f *fakeTarget) forget(c net.Conn) {
	_ = c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// kill ends the target and waits for its scripts.
func (f *fakeTarget) kill() {
	f.crash()
	f.ended.Wait()
}

// crash resets all connections and stops listening.
func (f *fakeTarget) crash() {
	_ = f.ln.Close()
	f.mu.Lock()
	for c := range f.conns {
		testkit.Reset(c)
	}
	f.conns = nil
	f.mu.Unlock()
}

func (f *fakeTarget) url() string { return "http://" + f.addr }

// open is how many connections there are now.
func (f *fakeTarget) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// room is for what a proxy adds to a request that is as large as it may be.
var room = http1.Limits{HeadBytes: 1 << 20, Fields: 20_000}

// A targetConn is one connection of a fakeTarget.
type targetConn struct {
	net.Conn
	t      *testing.T
	at     *fakeTarget
	number int64 // of the target's connections, from 1
	reader http1.Reader
	head   http1.Head
	unread []byte
	space  []byte // that is read into
}

// A seen is a request as the target sees it.
type seen struct {
	head     http1.Head
	raw      string // the head's bytes
	body     string
	trailers string
	conn     int64
}

func (s *seen) method() string { return string(s.head.MethodText) }
func (s *seen) target() string { return string(s.head.Target) }

// from is what the proxy says about where the request came from.
func (s *seen) from() string {
	v, _ := s.head.Value(http1.FieldXForwardedFor)
	return string(v)
}

// next reads one complete request; nil when the connection is over. What is no
// valid HTTP fails the test: the proxy must never send it.
func (c *targetConn) next() *seen {
	s := new(seen)
	var raw, body bytes.Buffer
	for {
		ev, err := c.reader.Next(c.unread, &c.head)
		if err != nil {
			c.t.Errorf("the proxy sent what is not valid HTTP: %v: %.500q", err, c.unread)
			return nil
		}
		if !s.headDone() {
			raw.Write(c.unread[:ev.N])
		}
		switch ev.Kind {
		case http1.HeadDone:
			s.head, s.raw, s.conn = http1test.CloneHead(&c.head), raw.String(), c.number
		case http1.Data:
			body.Write(ev.Data)
		}
		c.unread = c.unread[ev.N:]
		if ev.Kind == http1.End {
			s.body, s.trailers = body.String(), string(ev.Data)
			if s.target() != "/health" {
				c.at.served.Add(1)
			}
			return s
		}
		if ev.Kind == http1.NeedMore && !c.more() {
			return nil
		}
	}
}

func (s *seen) headDone() bool { return s.conn != 0 }

// more reads from the connection; false at its end.
func (c *targetConn) more() bool {
	if c.space == nil {
		c.space = make([]byte, 32<<10)
	}
	n, err := c.Read(c.space)
	c.unread = append(bytes.Clone(c.unread), c.space[:n]...)
	return n > 0 || err == nil
}

// say writes an answer, or a part of one. A proxy that has gone is no fault.
func (c *targetConn) say(text string) { _, _ = c.Write([]byte(text)) }

// silence waits until the proxy closes the connection, or sends more.
func (c *targetConn) silence() { _, _ = c.Read(make([]byte, 1)) }

// echo answers 200 with what was asked.
func (c *targetConn) echo(s *seen) { c.say(echoAnswer(s)) }

func echoAnswer(s *seen) string {
	answer, body := "", echoOf(s.method(), s.target(), s.body)
	if answer = answerOf(body); s.method() == "HEAD" {
		answer = strings.TrimSuffix(answer, body)
	}
	return answer
}

// answerOf is an answer with a body of a known length.
func answerOf(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// echoOf is what echo answers to a request.
func echoOf(method, target, body string) string {
	return fmt.Sprintf("%s %s %d %s", method, target, len(body), sumOf(body))
}

// sumOf tells bodies apart, as the corpus does.
func sumOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:8])
}

// each is the script of a target that does the same for every request.
func each(do func(c *targetConn, s *seen)) func(c *targetConn) {
	return func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			do(c, s)
		}
	}
}

// echoes is the script of a target that answers everything.
func echoes(c *targetConn) { each((*targetConn).echo)(c) }

// holds is the script of a target that tells of all requests, and answers those to /held when it is
// let.
func holds(c *targetConn) { each((*targetConn).holds)(c) }

func (c *targetConn) holds(s *seen) {
	if strings.HasPrefix(s.target(), "/held") {
		c.hold(s)
	} else {
		c.at.asked <- s.target()
	}
	c.echo(s)
}

// hold tells of a request and waits until it may be answered.
func (c *targetConn) hold(s *seen) {
	c.at.asked <- s.target()
	await(c.t, c.at.let)
}

// says is the script of a target that answers every request with the text.
func says(text string) func(c *targetConn) {
	return each(func(c *targetConn, s *seen) {
		c.say(text)
	})
}

// faultsOf looks at the head as sent to a target, without the parser under
// test: it must have one Host, one X-Forwarded-For and at most one framing
// field, and that in its plain form; a Connection field only for a switch to a
// protocol that is let through.
func faultsOf(raw string) error {
	counts := make(map[string]int)
	lines := strings.Split(strings.TrimSuffix(raw, "\r\n\r\n"), "\r\n")
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok || name == "" || strings.ContainsAny(line, "\r\n\x00") {
			return fmt.Errorf("line %q", line)
		}
		name = strings.ToLower(name)
		counts[name]++
		switch {
		case name == "content-length" && (value == "" || strings.Trim(value, "0123456789") != "" || value[0] == '0' &&
			value != "0"):
			return fmt.Errorf("Content-Length %q", value)
		case name == "transfer-encoding" && value != "chunked":
			return fmt.Errorf("Transfer-Encoding %q", value)
		case name == "connection" && value == "TE":
			counts[name]--
		case name == "connection" && value != "upgrade" || name == "upgrade" && !strings.EqualFold(value, "websocket"):
			return fmt.Errorf("%s %q", name, value)
		}
	}
	switch {
	case counts["host"] != 1:
		return fmt.Errorf("%d Host fields", counts["host"])
	case counts["x-forwarded-for"] != 1:
		return fmt.Errorf("%d X-Forwarded-For fields", counts["x-forwarded-for"])
	case counts["content-length"]+counts["transfer-encoding"] > 1:
		return fmt.Errorf("%d framing fields", counts["content-length"]+counts["transfer-encoding"])
	case counts["connection"] != counts["upgrade"] || counts["connection"] > 1:
		return fmt.Errorf("%d Connection fields, %d Upgrade fields", counts["connection"], counts["upgrade"])
	}
	return nil
}
