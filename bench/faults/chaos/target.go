package chaos

import (
	"bufio"
	"context"
	"hash"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/bench/lab/rig"
)

// slowPiece is the pause between pieces of a slow peer.
const slowPiece = 5 * time.Millisecond

// A target answers with the behaviour named in the path, by HTTP/1.1 at one address and by HTTP/2 at another. Requests
// are parsed by net/http, so the proxy's output is checked by another parser than its own.
//
// Safe for concurrent use: counters are atomic, mu guards what follows it.
type target struct {
	addrs     [2]string    // of HTTP/1.1 and HTTP/2
	sockets   *rig.Sockets // belongs to the goroutine that restarts the target, like
	http2     *http.Server // its part with HTTP/2
	seen      atomic.Int64 // requests
	seenHTTP2 atomic.Int64 // those of them by HTTP/2
	served    atomic.Int64 // complete answers
	malformed atomic.Int64 // messages that are not requests
	restarts  atomic.Int64
	settled   atomic.Int64 // when the last restart has no more effects, Unix ns; maximal while down

	mu       sync.Mutex
	wasReset map[string]bool // requests of the behaviour "once" that were reset
}

func (t *target) listen() error {
	var lns [2]net.Listener
	for i := range lns {
		ln, err := net.Listen("tcp", t.addrs[i])
		if err != nil {
			return err
		}
		lns[i], t.addrs[i] = ln, ln.Addr().String()
	}
	t.sockets, t.http2 = rig.Accept(lns[0], t.serve), t.serveHTTP2(lns[1])
	return nil
}

// stop closes all connections.
func (t *target) stop() {
	_ = t.http2.Close()
	t.sockets.Stop()
}

// downtime is the time that a restart takes, aftermath how long it may have effects.
const (
	downtime  = 100 * time.Millisecond
	aftermath = time.Second
)

// restart resets all connections and listens again after downtime.
func (t *target) restart(ctx context.Context) error {
	t.settled.Store(1<<63 - 1)
	t.restarts.Add(1)
	t.stop()
	_ = rig.Wait(ctx, downtime)
	err := t.listen()
	t.settled.Store(time.Now().Add(aftermath).UnixNano())
	return err
}

func (t *target) serve(c net.Conn) {
	in, sum := bufio.NewReader(c), crc32.NewIEEE()
	for t.one(c, in, sum) {
	}
}

// one answers a request and reports whether the connection can be used again.
func (t *target) one(c net.Conn, in *bufio.Reader, sum hash.Hash32) bool {
	if _, err := in.Peek(1); err != nil {
		return false
	}
	r, err := http.ReadRequest(in)
	if err != nil {
		//nolint:errorlint // as ReadRequest returns them
		if _, broken := err.(net.Error); !broken && err != io.ErrUnexpectedEOF {
			t.malformed.Add(1)
		}
		return false
	}
	sum.Reset()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		return false // the client disconnected in the middle
	}
	t.seen.Add(1)
	behaviour := t.behaviour(r)
	if behaviour == "echoes" || behaviour == "stalls" {
		t.switched(c, in, behaviour)
		return false
	}
	p := &reply{target: t, conn: c, head: r.Method == http.MethodHead, body: echo(r.Method, r.URL.Path, n, sum.Sum32())}
	return p.in(behaviour)
}

// behaviour returns how to answer.
func (t *target) behaviour(r *http.Request) string {
	behaviour, _, _ := strings.Cut(r.URL.Path[1:], "/")
	if behaviour == "once" && !t.first(r.URL.Path) {
		return "ok"
	}
	return behaviour
}

func (t *target) first(path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.wasReset[path]
	if before {
		delete(t.wasReset, path)
	} else {
		t.wasReset[path] = true
	}
	return !before
}

// A reply is an answer being sent.
type reply struct {
	*target
	conn net.Conn
	head bool // to a HEAD
	body string
}

// in sends an answer with a behaviour and reports whether the connection can be used again.
func (p *reply) in(behaviour string) bool {
	switch behaviour {
	case "once", "reset":
		rig.Reset(p.conn)
		return false
	case "eof":
		return false
	case "junk":
		_, _ = io.WriteString(p.conn, "HTTP/1.1 2000 NO\r\n\r\n")
		return false
	case "cut":
		if p.head {
			break // no body to truncate
		}
		p.send(p.length(len(p.body)+5, "") + p.text())
		return false
	case "cutlarge":
		p.send(p.length(2*largeBytes, "") + p.text() + strings.Repeat(".", largeBytes))
		return false
	case "split":
		return p.pieces(0)
	case "slow":
		return p.pieces(slowPiece)
	case "late":
		time.Sleep(2 * slowPiece)
	case "chunks":
		return p.finish("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + p.chunk())
	case "hints":
		return p.finish("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + p.length(len(p.body), "") + p.text())
	case "last":
		return p.finish(p.length(len(p.body), "Connection: close\r\n")+p.text()) && false
	case "large":
		if !p.head {
			p.body += strings.Repeat(".", largeBytes)
		}
	}
	return p.finish(p.length(len(p.body), "") + p.text())
}

func (p *reply) length(n int, field string) string {
	return "HTTP/1.1 200 OK\r\n" + field + "Content-Length: " + strconv.Itoa(n) + "\r\n\r\n"
}

// text returns the body, which is empty for HEAD.
func (p *reply) text() string {
	if p.head {
		return ""
	}
	return p.body
}

func (p *reply) chunk() string {
	if p.head {
		return ""
	}
	return strconv.FormatInt(int64(len(p.body)), 16) + "\r\n" + p.body + "\r\n0\r\n\r\n"
}

func (p *reply) send(text string) bool {
	_, err := io.WriteString(p.conn, text)
	return err == nil
}

// finish sends the rest of the answer. It counts before it sends, so that an answer that was
// read has been counted.
func (p *reply) finish(text string) bool {
	p.served.Add(1)
	return p.send(text)
}

// pieces sends the answer in three pieces, with pauses.
func (p *reply) pieces(pause time.Duration) bool {
	text := p.length(len(p.body), "") + p.text()
	for third := len(text) / 3; len(text) > third+2; text = text[third:] {
		if !p.send(text[:third]) {
			return false
		}
		if pause > 0 {
			time.Sleep(pause)
		}
	}
	return p.finish(text)
}
