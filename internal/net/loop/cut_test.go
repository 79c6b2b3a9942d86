package loop

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/net/loop/looptest"
	"weir/internal/test/testkit"
)

// A peer must not take a part of what was written for all of it, however the connection ends: it
// reads an error after that part. Over TLS a missing close_notify says the same.
func TestCutIsNoEnd(t *testing.T) {
	for _, test := range []struct {
		name  string
		large bool // more is written than the peer takes
		ends  func(g *Group, c *Conn)
		cut   bool
	}{
		{"Close with unsent bytes", true, func(_ *Group, c *Conn) { c.Close() }, true},
		{"a stall", true, func(*Group, *Conn) {}, true},
		{"a stall while draining", true, func(_ *Group, c *Conn) { c.CloseDrained() }, true},
		{"Stop with unsent bytes", true, func(g *Group, c *Conn) { go g.Stop() }, true},
		{"Close of what is incomplete", false, func(_ *Group, c *Conn) { c.SetIncomplete(true); c.Close() }, true},
		{"Stop of what is incomplete", false, func(g *Group, c *Conn) { c.SetIncomplete(true); go g.Stop() }, true},
		{"Close of what is complete", false,
			func(_ *Group, c *Conn) { c.SetIncomplete(true); c.SetIncomplete(false); c.Close() }, false},
		{"Stop of what is complete", false, func(g *Group, c *Conn) { go g.Stop() }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, x transport) {
				g := start(t, Config{Loops: 1, WriteStall: 200 * time.Millisecond})
				closed := make(chan error, 1)
				ln := x.listen(t, g, func(_ time.Time, c *Conn) Handler {
					return &script{
						data: func(_ time.Time, b []byte) int {
							n := 100
							if test.large {
								n = 32 << 20
							}
							c.Write(make([]byte, n))
							test.ends(g, c)
							return len(b)
						},
						closed: func(_ time.Time, err error) { closed <- err },
					}
				})
				c, _ := x.connect(t, ln)
				_, _ = io.WriteString(c, "x")
				testkit.Receive(t, closed, "the end")
				n, err := io.Copy(io.Discard, c)
				if got := errors.Is(err, unix.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF); got != test.cut ||
					err != nil != test.cut {
					t.Errorf("after %d bytes the peer reads %v", n, err)
				}
				if !test.cut && n != 100 {
					t.Errorf("the peer reads %d bytes of 100", n)
				}
			})
		})
	}
}

// CloseIncomplete of a connection that lingers waits as long for the peer as otherwise, and then resets.
func TestCloseCutWhileLingering(t *testing.T) {
	for _, half := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := looptest.NewKernel(rand.New(rand.NewPCG(1, 1)))
			g := testkit.Must(Start(Config{Loops: 1, System: k}))(t)
			from := k.NewListener()
			ln := g.Serve(from, nil, func(_ time.Time, c *Conn) Handler {
				c.Write(make([]byte, 1000))
				g.loops[0].Post(func(time.Time) { // when it is in the loop
					if half {
						c.CloseWrite()
					}
					c.CloseLinger()
					c.CloseIncomplete()
				})
				return new(script)
			})
			peer := k.NewSocket("peer ", netip.MustParseAddrPort("10.0.0.1:1"), nil)
			k.After(0, func() { from.Connect(peer) })
			k.Until(k.Now().Add(3 * lingerIdleMax))
			if peer.Closed {
				t.Errorf("half closed before: %t: closed before the peer has anything", half)
			}
			if n := len(peer.Receive(2000)); n != 1000 {
				t.Errorf("half closed before: %t: the peer gets %d bytes, want 1000", half, n)
			}
			k.Until(k.Now().Add(time.Second))
			if !peer.Cut {
				t.Errorf("half closed before: %t: no reset", half)
			}
			k.Await(func() {
				ln.Close()
				g.Stop()
			})
		})
	}
}

// CloseIncomplete delivers all that was written, however slowly the peer reads, and then an error.
func TestCloseCutDeliversWhatWasWritten(t *testing.T) {
	overBoth(t, func(t *testing.T, x transport) {
		g := start(t, Config{Loops: 1})
		body := pattern(8 << 20)
		began := make(chan bool, 1)
		ln := x.listen(t, g, func(_ time.Time, c *Conn) Handler {
			return &script{data: func(_ time.Time, b []byte) int {
				c.Write(body)
				c.CloseIncomplete()
				began <- true
				return len(b)
			}}
		})
		c, _ := x.connect(t, ln)
		_, _ = io.WriteString(c, "x")
		testkit.Receive(t, began, "the end to begin")
		got, err := io.ReadAll(c)
		if !bytes.Equal(got, body) || !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the peer reads %d bytes of %d and then %v, want all and an error", len(got), len(body), err)
		}
		testkit.Eventually(t, "it is closed", func() bool { return g.Stats().Open.Load() == 0 })
	})
}

// A peer that half closes while it has not read all gets an error after that too, although its end
// closes gnet's socket.
func TestCloseCutOfHalfClosed(t *testing.T) {
	g := start(t, Config{Loops: 1})
	body := pattern(256 << 10)
	unsent := make(chan int, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{data: func(_ time.Time, b []byte) int {
			c.Write(body)
			c.CloseIncomplete()
			unsent <- c.Unsent()
			return len(b)
		}}
	})
	c := connect(t, ln)
	_, _ = io.WriteString(c, "x")
	if n := testkit.Receive(t, unsent, "the end to begin"); n > 0 {
		t.Fatalf("the system leaves %d bytes, so this tests nothing", n)
	}
	_ = c.CloseWrite()
	for range 2 { // the loop has seen the end of the peer
		seen := make(chan bool, 1)
		g.loops[0].Post(func(time.Time) { seen <- true })
		testkit.Receive(t, seen, "a turn")
	}
	if got, err := io.ReadAll(c); !bytes.Equal(got, body) || !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the peer reads %d bytes of %d and then %v, want all and a reset", len(got), len(body), err)
	}
}
