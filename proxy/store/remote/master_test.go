package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// listen serves every connection with serve, one at a time.
func listen(t testing.TB, serve func(net.Conn)) (url string) {
	t.Helper()
	return "http://" + testkit.Serve(t, serve)
}

// granting answers the first question of each connection with all, and passes the connection on.
func granting(t testing.TB, then func(net.Conn)) (url string) {
	t.Helper()
	body := all()
	return listen(t, func(c net.Conn) {
		if asked(c) == nil {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			then(c)
		}
	})
}

// asked reads one question.
func asked(c net.Conn) error {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	return err
}

// all is the answer that grants the one request of a group without counters that are limited.
func all() string {
	ans := store.Answer{Granted: 1, Traces: make([]store.Trace, 1)}
	return string(asks.AppendAnswer(asks.AppendHead(nil, store.Exact, 1), &ans))
}

// Answers may come in any form that HTTP/1.1 has, and in pieces, to helpers and to couriers.
func TestFormsOfAnswers(t *testing.T) {
	t.Parallel()
	body := all()
	sized := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for name, test := range map[string]struct {
		text  string
		class store.Class
		kept  bool
	}{
		"a length": {sized, 0, true},
		"chunks": {fmt.Sprintf(
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", 3, body[:3],
			len(body)-3, body[3:]), 0, true},
		"until the end":         {"HTTP/1.1 200 OK\r\n\r\n" + body, 0, false},
		"the last":              {"HTTP/1.1 200 OK\r\nConnection: close\r\n" + sized[len("HTTP/1.1 200 OK\r\n"):], 0, false},
		"an interim one before": {"HTTP/1.1 103 Early Hints\r\n\r\n" + sized, 0, true},
		"more than an answer":   {sized + "HTTP/1.1", 0, false},
		"a head that ends":      {sized[:20], store.OutageFault, false},
		"a body that ends":      {sized[:len(sized)-1], store.OutageFault, false},
		"no HTTP":               {"+PONG\r\n\r\n", store.OutageFault, false},
		"nothing":               {"", store.OutageFault, false},
		"a fault of ours":       {"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", store.ItemFault, true},
	} {
		for i := range 6 {
			piece, carried := [...]int{1, 7, len(test.text) + 1}[i/2], i%2 > 0
			url := listen(t, func(c net.Conn) {
				defer c.Close()
				if asked(c) != nil {
					return
				}
				for text := test.text; text != ""; {
					n := min(piece, len(text))
					if _, err := io.WriteString(c, text[:n]); err != nil {
						return
					}
					text = text[n:]
				}
				if test.kept {
					_, _ = io.Copy(io.Discard, c) // until the other side closes it
				}
			})
			b := openBackend(t, Config{URLs: []string{url}})
			g, idle := one(1, "r", fixed(5)), 0
			if carried {
				c := newCarrying(t, b)
				c.carry(t, g)
				c.on(func(time.Time) { idle = len(c.idle) })
			} else {
				decide(b, g)
				idle = len(b.masters[0].idle)
			}
			if f := b.Classify(g.Err); f.Class != test.class || f.Class == 0 && g.Granted != 1 {
				t.Errorf("%s in pieces of %d, carried %t: %v, %d granted", name, piece, carried, g.Err, g.Granted)
			}
			if piece > len(test.text) && idle != map[bool]int{true: 1}[test.kept] {
				t.Errorf("%s, carried %t: %d connections are kept", name, carried, idle)
			}
			b.Close()
		}
	}
}

// A connection that its master has closed, or on which something came that was not asked
// for, is not used again.
func TestIdleConnections(t *testing.T) {
	body := all()
	for name, more := range map[string]string{"closed": "", "more": "HTTP/1.1 408 Request Timeout\r\n\r\n"} {
		after := make(chan struct{})
		var served atomic.Int32
		url := listen(t, func(c net.Conn) {
			go func() {
				defer c.Close()
				if asked(c) != nil {
					return
				}
				first := served.Add(1) == 1 // before the answer, at which the test looks at it
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				if !first {
					return
				}
				<-after
				if more != "" {
					_, _ = io.WriteString(c, more)
					_, _ = io.Copy(io.Discard, c)
				}
			}()
		})
		b := openBackend(t, Config{URLs: []string{url}})
		m := b.masters[0]
		if g := decide(b, one(1, "r", fixed(5))); g.Err != nil || len(m.idle) != 1 || !m.idle[0].quiet() {
			t.Fatalf("%s: %v, %d connections are kept", name, g.Err, len(m.idle))
		}
		if err := m.idle[0].SetDeadline(time.Unix(1, 0)); err != nil || !m.idle[0].quiet() {
			t.Errorf("%s: with a deadline that has passed it is spoilt, %v", name, err)
		}
		if n := testing.AllocsPerRun(10, func() { m.idle[0].quiet() }); n > 0 {
			t.Errorf("%s: looking allocates %.0f times", name, n)
		}
		close(after)
		testkit.Eventually(t, "the connection is seen to be spoilt", func() bool { return !m.idle[0].quiet() })
		if g := decide(b, one(1, "r", fixed(5))); g.Err != nil || served.Load() != 2 {
			t.Errorf("%s: %v, %d answers", name, g.Err, served.Load())
		}
	}
}

// What has been idle for long is closed, and so is what is too much.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMaster("http://127.0.0.1", "", nil)
	now := time.Unix(1e9, 0)
	var closed atomic.Int32
	for range idleMax + 1 {
		m.give(now, &conn{Conn: &canned{closed: &closed}})
	}
	if len(m.idle) != idleMax || closed.Load() != 1 {
		t.Errorf("%d are kept, %d are closed", len(m.idle), closed.Load())
	}
	c := testkit.Must(m.take(background, now.Add(idleTimeout-1), now))(t)
	m.give(now.Add(idleTimeout), c)
	if len(m.idle) != idleMax-1 || closed.Load() != 2 {
		t.Errorf("later %d are kept, %d are closed", len(m.idle), closed.Load())
	}
}

// A master that accepts no connection leaves time for the next one, and what is asked after
// one that does not answer goes to the next.
func TestNextMaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prefix, _ := w.open(t)
	good := startMaster(t, w, "127.0.0.1:0")
	var questions atomic.Int32
	silent := listen(t, func(c net.Conn) {
		if asked(c) == nil {
			questions.Add(1)
		}
	})
	cfg := config(good)
	cfg.URLs = append([]string{silent}, cfg.URLs...)

	b := openBackend(t, cfg)
	ctx, cancel := context.WithTimeout(background, time.Second) // half of it is for connecting
	defer cancel()
	first := one(1, prefix+"r", fixed(5))
	b.Decide(ctx, &store.Batch{Groups: []*store.Group{first}})
	if f := b.Classify(first.Err); f.Class != store.LateFault {
		t.Errorf("a silent master: %v", first.Err)
	}
	if g := decide(b, one(1, prefix+"r", fixed(5))); g.Err != nil || g.Granted != 1 || questions.Load() > 1 {
		t.Errorf("after a silent master: %v, %d questions for it", g.Err, questions.Load())
	}

	b = openBackend(t, cfg)
	until := time.Now().Add(patience)
	ctx, cancel = context.WithDeadline(background, until)
	defer cancel()
	var share time.Duration
	b.masters[0].dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		at, _ := ctx.Deadline()
		share = until.Sub(at)
		return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	}
	g := one(1, prefix+"r", fixed(5))
	b.Decide(ctx, &store.Batch{Groups: []*store.Group{g}})
	if g.Err != nil || g.Granted != 1 || share < patience/3 || share > patience*2/3 {
		t.Errorf("after one that accepts nothing: %v, with %v left for the next", g.Err, share)
	}
}

// A question whose context ends waits no longer.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	b := openBackend(t, Config{URLs: []string{listen(t, func(c net.Conn) {
		if asked(c) == nil {
			cancel()
		}
	})}})
	g := one(1, "r", fixed(5))
	if b.Decide(ctx, &store.Batch{Groups: []*store.Group{g}}); !errors.Is(g.Err, context.Canceled) {
		t.Errorf("%v", g.Err)
	}
}

// canned is a connection to a master that always answers the same.
type canned struct {
	net.Conn
	answer string
	closed *atomic.Int32
}

func (c *canned) Read(b []byte) (int, error)  { return copy(b, c.answer), nil }
func (c *canned) Write(b []byte) (int, error) { return len(b), nil }
func (c *canned) SetDeadline(time.Time) error { return nil }
func (c *canned) Close() error                { c.closed.Add(1); return nil }

// A call allocates nothing of its own.
func TestAskAllocates(t *testing.T) {
	b := openBackend(t, Config{URLs: []string{"http://127.0.0.1"}, Token: "secret"})
	body := all()
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nDate: x\r\nContent-Length: %d\r\n\r\n%s",
		asks.ContentType, len(body), body)
	b.masters[0].dial = func(context.Context, string, string) (net.Conn, error) {
		return &canned{answer: answer, closed: new(atomic.Int32)}, nil
	}
	l := testkit.Must(limit.NewFixed(5, time.Hour))(t)
	groups := []*store.Group{one(1, strings.Repeat("r", 10), &l)}
	if n := testing.AllocsPerRun(100, func() {
		if err := b.ask(background, &question{groups: groups}); err != nil {
			t.Error(err)
		}
	}); n > 1 {
		t.Errorf("%.0f allocations", n)
	}
}
