package remote

import (
	"context"
	"crypto/tls"
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
func TestLoopClientOfSilentMaster(t *testing.T) {
	t.Parallel()
	var questions atomic.Int32
	silent := listen(t, func(c net.Conn) {
		if asked(c) == nil {
			questions.Add(1)
		}
	})
	s := openSidecar(t, Config{URLs: []string{silent, granting(t, func(net.Conn) {})}})
	g := one(1, "r", fixed(5))
	batch := &store.Batch{Groups: []*store.Group{g}}
	testkit.Receive(t, s.send(batch, time.Second), "the end") // half of it is for connecting
	conns := s.idle()
	s.on(func(time.Time) { conns += len(s.loopClient.calls) })
	if !errors.Is(g.Err, context.DeadlineExceeded) || s.current.Load() != 1 || conns > 0 {
		t.Errorf("%v, then master %d; %d connections", g.Err, s.current.Load(), conns)
	}
	if s.decide(g); g.Err != nil || g.Granted != 1 || questions.Load() > 1 {
		t.Errorf("the next: %v, %d questions for the first", g.Err, questions.Load())
	}
	s.current.Store(0)
	ended := s.send(batch, patience)
	testkit.Eventually(t, "it is asked", func() bool { return questions.Load() == 2 })
	s.on(func(now time.Time) {
		s.loopClient.End(now, now.Add(-time.Hour)) // told late, of what was sent before
		conns = len(s.loopClient.calls)
		s.loopClient.End(now, now)
	})
	testkit.Receive(t, ended, "the end")
	if !errors.Is(g.Err, context.Canceled) || s.current.Load() != 0 || conns != 1 {
		t.Errorf("%v, then master %d; %d calls had been left", g.Err, s.current.Load(), conns)
	}
}

// When its loop ends, what was asked has no answer, which says nothing about the master.
func TestLoopClientOfEndingLoop(t *testing.T) {
	t.Parallel()
	questions := make(chan net.Conn, 1)
	s := openSidecar(t, Config{URLs: []string{listen(t, func(c net.Conn) {
		if asked(c) == nil {
			questions <- c
		}
	})}})
	g := one(1, "r", fixed(5))
	ended := s.send(&store.Batch{Groups: []*store.Group{g}}, patience)
	testkit.Receive(t, questions, "the question")
	s.group.Stop()
	testkit.Receive(t, ended, "the end")
	if fault := s.Classify(g.Err); g.Err == nil || fault.Class != store.NoFault {
		t.Errorf("%v is %v", g.Err, fault)
	}
}

// What no master can or need be asked about has its result later, too.
func TestLoopClientAsksNobody(t *testing.T) {
	t.Parallel()
	s := openSidecar(t, Config{URLs: []string{"http://" + testkit.FreeAddr(t)}})
	long, many := one(1, "r", fixed(5)), one(asks.RequestsMax+1, "r", fixed(5))
	long.Counters[0].Key = make([]byte, asks.BatchBytesMax)
	for name, g := range map[string]*store.Group{
		"a key that is too long": long, "too many requests": many, "nothing to ask": {N: 1},
	} {
		s.decide(g)
		if unlimited := len(g.Counters) == 0; (g.Err == nil) != unlimited || unlimited && g.Granted != 1 {
			t.Errorf("%s: %v, %d granted", name, g.Err, g.Granted)
		}
	}
	if n := s.commands.Load(); n > 0 {
		t.Errorf("%d questions", n)
	}
}

// A connection is not used if its master has closed it or sent unrequested bytes, if a question
// has failed elsewhere, if it was idle for long, or if it leads to another master.
func TestLoopClientConnections(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *sidecar, server net.Conn){
		"closed": func(_ *sidecar, server net.Conn) { server.Close() },
		"more": func(_ *sidecar, server net.Conn) {
			_, _ = io.WriteString(server, "HTTP/1.1 408 Request Timeout\r\n\r\n")
		},
		"failed": func(s *sidecar, _ net.Conn) { s.heard(io.ErrUnexpectedEOF) },
		"idle for long": func(s *sidecar, _ net.Conn) {
			s.on(func(now time.Time) { s.loopClient.idle[0].used = now.Add(-idleTimeout) })
		},
		"another": func(s *sidecar, _ net.Conn) { s.current.Store(1) },
	} {
		servers := make(chan net.Conn, 2)
		url := granting(t, func(c net.Conn) { servers <- c })
		s := openSidecar(t, Config{URLs: []string{url, url}})
		g := s.decide(one(1, "r", fixed(5)))
		spoil(s, testkit.Receive(t, servers, "the connection"))
		testkit.Eventually(t, name+": it is noticed", func() bool {
			return s.idle() == 0 || name != "closed" && name != "more"
		})
		s.decide(g)
		testkit.Receive(t, servers, "another connection")
		if g.Err != nil || g.Granted != 1 {
			t.Errorf("%s: %v", name, g.Err)
		}
	}
}

// A master that closes every connection is unavailable: only an idle connection may have been closed
// for another reason than the question.
func TestLoopClientOfClosingMaster(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	s := openSidecar(t, Config{URLs: []string{listen(t, func(c net.Conn) {
		connections.Add(1)
		c.Close()
	})}})
	g := s.decide(one(1, "r", fixed(5)))
	if f := s.Classify(g.Err); f.Class != store.OutageFault || connections.Load() != 1 {
		t.Errorf("%v, %d connections", g.Err, connections.Load())
	}
}

// Of the connections of batches in flight no more are kept than a lane needs.
func TestLoopClientKeepsFewConnections(t *testing.T) {
	t.Parallel()
	servers := make(chan net.Conn, 3)
	s := openSidecar(t, Config{URLs: []string{granting(t, func(c net.Conn) { servers <- c })}})
	answers := make(chan bool, cap(servers))
	s.on(func(now time.Time) {
		for range cap(servers) {
			batch := &store.Batch{Groups: []*store.Group{one(1, "r", fixed(5))}}
			s.loopClient.Send(now, batch, now.Add(patience), func(time.Time) { answers <- batch.Groups[0].Err == nil })
		}
	})
	for range cap(servers) {
		if !testkit.Receive(t, answers, "the answer") {
			t.Error("it has failed")
		}
		testkit.Receive(t, servers, "a connection")
	}
	if idle := s.idle(); idle != s.cfg.InFlight {
		t.Errorf("%d are kept", idle)
	}
}

// An answer that has arrived while the loop was busy is taken, though its time is over.
func TestLoopClientOfBusyLoop(t *testing.T) {
	t.Parallel()
	s, prefix := mastered(t)
	g := s.decide(one(1, prefix+"r", fixed(5)))
	s.on(func(now time.Time) {
		answered := false
		batch := &store.Batch{Groups: []*store.Group{g}}
		s.loopClient.Send(now, batch, now.Add(time.Nanosecond), func(time.Time) { answered = true })
		testkit.Eventually(t, "it arrives in this turn", func() bool {
			s.loopClient.Fetch(now)
			return answered
		})
		s.loopClient.expire(now.Add(time.Second))
	})
	if g.Err != nil || g.Granted != 1 {
		t.Errorf("%v, %d granted", g.Err, g.Granted)
	}
}

// A question is asked again if its master had closed the connection before it arrived, also when
// the loop has not noticed that yet; and never when the master may have read it.
func TestLoopClientAsksAgain(t *testing.T) {
	t.Parallel()
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	authority, _ := testkit.WritePair(t, pair)
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
		for _, scheme := range []string{"http", "https"} {
			name := name + " with " + scheme
			type server struct{ wire, plain net.Conn }
			servers := make(chan server, 2)
			addr := testkit.Serve(t, func(c net.Conn) {
				s := server{c, c}
				if scheme == "https" {
					s.plain = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}})
				}
				if asked(s.plain) == nil {
					servers <- s
					grant(s.plain)
				}
			})
			s := openSidecar(t, Config{URLs: []string{scheme + "://" + addr}, CAFile: authority})
			g := s.decide(one(1, "r", fixed(5)))
			first := testkit.Receive(t, servers, "the connection")
			leave := func() {
				if test.reset {
					_ = first.wire.(*net.TCPConn).SetLinger(0)
					_ = first.wire.Close()
				}
				_ = first.plain.Close()
			}
			var ended <-chan struct{}
			s.on(func(now time.Time) {
				if !test.reads {
					leave()
				}
				done := make(chan struct{})
				ended = done
				batch := &store.Batch{Groups: []*store.Group{g}}
				s.loopClient.Send(now, batch, now.Add(patience), func(time.Time) { close(done) })
			})
			if test.reads {
				if err := asked(first.plain); err != nil {
					t.Fatal(err)
				}
				leave()
			}
			testkit.Receive(t, ended, "the end")
			again := len(servers) > 0
			if again != test.again || again != (g.Err == nil) || again != (s.errors.Load() == 0) {
				t.Errorf("%s: asked again %v, %v, %d errors", name, again, g.Err, s.errors.Load())
			}
			var text strings.Builder
			set := metric.New()
			s.Register(set)
			set.Write(&text)
			observed := testkit.Samples(t, text.String())["ratelimiter_remote_request_duration_seconds_count"]
			if commands := s.commands.Load(); commands != 2 || observed != 2 {
				t.Errorf("%s: %d commands, %v exchanges, want 2", name, commands, observed)
			}
		}
	}
}
