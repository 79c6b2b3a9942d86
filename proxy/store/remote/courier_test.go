package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// A master that says nothing is waited for until the deadline, and the next one is asked then;
// or until the store is known to be silent.
func TestCourierOfSilentMaster(t *testing.T) {
	t.Parallel()
	silent := func() (url string, asks *atomic.Int32) {
		asks = new(atomic.Int32)
		return listen(t, func(c net.Conn) {
			if asked(c) == nil {
				asks.Add(1)
			}
		}), asks
	}
	first, questions := silent()
	second, _ := silent()
	b := openBackend(t, Config{URLs: []string{first, second}})
	c := newCarrying(t, b)
	g := one(1, "r", fixed(5))
	testkit.Receive(t, c.send(t, 10*time.Millisecond, g), "the end")
	links := 0
	c.on(func(time.Time) { links = len(c.idle) + len(c.busy) })
	if !errors.Is(g.Err, context.DeadlineExceeded) || b.current.Load() != 1 || links > 0 {
		t.Errorf("%v, then master %d; %d connections", g.Err, b.current.Load(), links)
	}
	b.current.Store(0)
	ended := c.send(t, patience, g)
	testkit.Eventually(t, "it is asked", func() bool { return questions.Load() == 2 })
	c.on(func(now time.Time) {
		c.End(now, now.Add(-time.Hour)) // told late, of what was sent before
		links = len(c.busy)
		c.End(now, now)
	})
	testkit.Receive(t, ended, "the end")
	if !errors.Is(g.Err, context.Canceled) || b.current.Load() != 0 || links != 1 {
		t.Errorf("%v, then master %d; %d links had been left busy", g.Err, b.current.Load(), links)
	}
}

// When its loop ends, what was asked has no answer, which says nothing about the master.
func TestCourierOfEndingLoop(t *testing.T) {
	t.Parallel()
	questions := make(chan net.Conn, 1)
	b := openBackend(t, Config{URLs: []string{listen(t, func(c net.Conn) {
		if asked(c) == nil {
			questions <- c
		}
	})}})
	c := newCarrying(t, b)
	g := one(1, "r", fixed(5))
	ended := c.send(t, patience, g)
	testkit.Receive(t, questions, "the question")
	c.stop()
	testkit.Receive(t, ended, "the end")
	if fault := b.Classify(g.Err); g.Err == nil || fault.Class != store.NoFault {
		t.Errorf("%v is %v", g.Err, fault)
	}
}

// What cannot be asked by one question over a plain connection is left to helpers.
func TestCourierLeaves(t *testing.T) {
	t.Parallel()
	url := granting(t, func(net.Conn) {})
	b := openBackend(t, Config{URLs: []string{url, "https://127.0.0.1"}})
	c := newCarrying(t, b)
	c.carry(t, one(1, "r", fixed(5))) // there is a connection
	long, many := one(1, "r", fixed(5)), one(asks.NMax+1, "r", fixed(5))
	long.Counters[0].Key = make([]byte, asks.QuestionBytesMax)
	sends := func(groups ...*store.Group) (sent bool) {
		c.on(func(now time.Time) {
			sent = c.Send(now, &store.Batch{Groups: groups}, now, func(time.Time, bool) { t.Error("done is called") })
		})
		return sent
	}
	for name, g := range map[string]*store.Group{"a key that is too long": long, "too many requests": many,
		"nothing to ask": {N: 1}} {
		if sends(g) || g.Err != nil {
			t.Errorf("%s: is sent, %v", name, g.Err)
		}
	}
	b.current.Store(1)
	if sends(one(1, "r", fixed(5))) {
		t.Error("TLS: is sent")
	}
}

// A connection is not used if its master has closed it or sent unrequested bytes, if a question
// has failed elsewhere, or if it was idle for long.
func TestCourierConnections(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(c *carrying, server net.Conn){
		"closed": func(_ *carrying, server net.Conn) { server.Close() },
		"more": func(_ *carrying, server net.Conn) {
			_, _ = io.WriteString(server, "HTTP/1.1 408 Request Timeout\r\n\r\n")
		},
		"failed": func(c *carrying, _ net.Conn) { c.b.heard(io.ErrUnexpectedEOF) },
		"idle for long": func(c *carrying,
			_ net.Conn) {
			c.on(func(now time.Time) { c.idle[0].used = now.Add(-idleTimeout) })
		},
	} {
		servers := make(chan net.Conn, 2)
		b := openBackend(t, Config{URLs: []string{granting(t, func(c net.Conn) { servers <- c })}})
		c := newCarrying(t, b)
		g := one(1, "r", fixed(5))
		c.carry(t, g)
		spoil(c, testkit.Receive(t, servers, "the connection"))
		testkit.Eventually(t, name+": it is noticed", func() (noticed bool) {
			c.on(func(time.Time) { noticed = len(c.idle) == 0 })
			return noticed || name == "failed" || name == "idle for long"
		})
		c.carry(t, g)
		testkit.Receive(t, servers, "another connection")
		if g.Err != nil || g.Granted != 1 {
			t.Errorf("%s: %v", name, g.Err)
		}
	}
}

// A master that refuses connections is not dialled with every question.
func TestCourierDials(t *testing.T) {
	t.Parallel()
	c := newCarrying(t, openBackend(t, Config{URLs: []string{"http://" + testkit.FreeAddr(t)}}))
	batch := &store.Batch{Groups: []*store.Group{one(1, "r", fixed(5))}}
	testkit.Eventually(t, "the dial has failed", func() (failed bool) {
		c.on(func(now time.Time) {
			failed = c.Send(now, batch, now, nil) || c.redial.After(now)
		})
		return failed
	})
	c.on(func(now time.Time) {
		if c.Send(now, batch, now, nil); c.dialling {
			t.Error("it is dialled again at once")
		}
		if c.Send(c.redial, batch, now, nil); !c.dialling {
			t.Error("it is not dialled again")
		}
	})
}

// An answer that has arrived while the loop was busy is taken, though its time is over.
func TestCourierOfBusyLoop(t *testing.T) {
	t.Parallel()
	url := granting(t, func(net.Conn) {})
	b := openBackend(t, Config{URLs: []string{url}})
	c := newCarrying(t, b)
	g := one(1, "r", fixed(5))
	testkit.Eventually(t, "there is a connection", func() (sent bool) {
		c.on(func(now time.Time) {
			answered := false
			sent = c.Send(now, &store.Batch{Groups: []*store.Group{g}}, now.Add(time.Nanosecond),
				func(time.Time, bool) { answered = true })
			if !sent {
				return
			}
			testkit.Eventually(t, "it arrives in this turn", func() bool {
				c.Fetch(now)
				return answered
			})
			c.expire(now.Add(time.Second))
		})
		return sent
	})
	if g.Err != nil || g.Granted != 1 {
		t.Errorf("%v, %d granted", g.Err, g.Granted)
	}
}

// A question is asked again if its master had closed the connection before it arrived, also when
// the loop has not noticed that yet; and never when the master may have read it.
func TestCourierAsksAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reads bool // the question, before it closes
		reset bool
		again bool
	}{
		"closed before": {again: true},
		"reset before":  {reset: true, again: true},
		"closed after":  {reads: true},
		"reset after":   {reads: true, reset: true},
	} {
		servers := make(chan *net.TCPConn, 1)
		b := openBackend(t, Config{URLs: []string{granting(t, func(c net.Conn) { servers <- c.(*net.TCPConn) })}})
		c := newCarrying(t, b)
		g := one(1, "r", fixed(5))
		c.carry(t, g)
		server := testkit.Receive(t, servers, "the connection")
		leave := func() {
			if test.reset {
				_ = server.SetLinger(0)
			}
			_ = server.Close()
		}
		done := make(chan bool, 1)
		c.on(func(now time.Time) {
			if !test.reads {
				leave()
			}
			if !c.Send(now, &store.Batch{Groups: []*store.Group{g}}, now.Add(patience),
				func(_ time.Time, again bool) { done <- again }) {
				t.Errorf("%s: it is not sent", name)
			}
		})
		if test.reads {
			if err := asked(server); err != nil {
				t.Fatal(err)
			}
			leave()
		}
		if again := testkit.Receive(t, done, "the end"); again != test.again || again != (g.Err == nil) ||
			again != (b.errors.Load() == 0) {
			t.Errorf("%s: asked again %v, %v, %d errors", name, again, g.Err, b.errors.Load())
		}
		counted := uint64(2) // the question before, and this one
		if test.again {
			counted = 1 // the helper's counts
		}
		var text strings.Builder
		set := metric.New()
		b.Register(set)
		set.Write(&text)
		observed := uint64(testkit.Samples(t, text.String())["ratelimiter_remote_request_duration_seconds_count"])
		if commands := b.commands.Load(); commands != counted || observed != counted {
			t.Errorf("%s: %d commands, %d exchanges, want %d", name, commands, observed, counted)
		}
	}
}
