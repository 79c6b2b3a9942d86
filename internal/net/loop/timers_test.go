package loop

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/net/loop/looptest"
	"weir/internal/test/testkit"
)

// gnet: no timers on the loop.
func TestDeadline(t *testing.T) {
	g := start(t, Config{Loops: 1})
	type fired struct{ set, at time.Time }
	got := make(chan fired, 4)
	ln := listen(t, g, func(now time.Time, c *Conn) Handler {
		set := now.Add(30 * time.Millisecond)
		c.SetDeadline(now.Add(time.Hour))
		c.SetDeadline(set)
		return &script{expired: func(now time.Time) { got <- fired{set, now} }}
	})
	connect(t, ln)
	f := testkit.Receive(t, got, "the deadline")
	if f.at.Before(f.set) {
		t.Fatalf("expired %v early", f.set.Sub(f.at))
	}
	select {
	case <-got:
		t.Fatal("told twice")
	default:
	}
}

// Bytes that have arrived while the loop was busy are in time, although the loop learns of the deadline first.
func TestDeadlineComesAfterWhatHasArrived(t *testing.T) {
	g := start(t, Config{Loops: 1})
	accepted, got := make(chan *Conn, 1), make(chan string, 2)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		accepted <- c
		return &script{
			data: func(now time.Time, b []byte) int {
				got <- string(b)
				c.SetDeadline(now.Add(time.Hour))
				return len(b)
			},
			expired: func(time.Time) { got <- "expired" },
		}
	})
	peer := connect(t, ln)
	c := testkit.Receive(t, accepted, "the connection")
	l := c.Loop()
	l.Post(func(now time.Time) {
		c.SetDeadline(now.Add(deadlineStep))
		time.Sleep(3 * deadlineStep)
		l.Post(func(time.Time) { sendAndAwait(t, peer, c) }) // in a turn that begins after the deadline
	})
	if text := testkit.Receive(t, got, "bytes or the deadline"); text != "in time" {
		t.Errorf("got %q, want the bytes", text)
	}
}

// A deadline that has passed is not put off by a Handler that sets it again for what has arrived: its peer could always
// send more.
func TestPassedDeadlineIsNotPutOff(t *testing.T) {
	g := start(t, Config{Loops: 1})
	accepted, got := make(chan *Conn, 1), make(chan time.Time, 3)
	var by time.Time
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		accepted <- c
		return &script{
			data: func(now time.Time, b []byte) int {
				got <- now
				c.SetDeadline(by)
				return len(b)
			},
			expired: func(now time.Time) { got <- now },
		}
	})
	peer := connect(t, ln)
	c := testkit.Receive(t, accepted, "the connection")
	c.Loop().Post(func(now time.Time) {
		by = now.Add(deadlineStep)
		c.SetDeadline(by)
		time.Sleep(3 * deadlineStep)
		c.Loop().Post(func(time.Time) { sendAndAwait(t, peer, c) })
	})
	data := testkit.Receive(t, got, "the bytes")
	if expired := testkit.Receive(t, got, "the deadline"); !expired.Equal(data) {
		t.Errorf("expired %v after the bytes, want in the same turn", expired.Sub(data))
	}
}

// sendAndAwait sends bytes from the peer of c, and returns when the kernel has them. It is called on the loop, which
// does not look for them meanwhile.
func sendAndAwait(t *testing.T, peer io.Writer, c *Conn) {
	if _, err := io.WriteString(peer, "in time"); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the bytes have arrived", func() bool {
		n, err := unix.IoctlGetInt(c.descriptor(), unix.TIOCINQ)
		return err == nil && n > 0
	})
}

func TestClearedDeadlineIsSilent(t *testing.T) {
	g := start(t, Config{Loops: 1})
	got := make(chan string, 4)
	ln := listen(t, g, func(now time.Time, c *Conn) Handler {
		c.SetDeadline(now.Add(20 * time.Millisecond))
		c.SetDeadline(time.Time{})
		return &script{expired: func(time.Time) { got <- "cleared" }}
	})
	connect(t, ln)
	second := listen(t, g, func(now time.Time, c *Conn) Handler {
		c.SetDeadline(now.Add(100 * time.Millisecond))
		return &script{expired: func(time.Time) { got <- "set" }}
	})
	connect(t, second)
	if who := testkit.Receive(t, got, "a deadline"); who != "set" {
		t.Fatalf("the %s deadline expired", who)
	}
}

func TestAlarmsRingInOrderAndNeverEarly(t *testing.T) {
	g := start(t, Config{Loops: 1})
	l := g.Loops()[0]
	got := make(chan int, 3)
	l.Post(func(now time.Time) {
		for _, i := range []int{2, 0, 1} {
			at := now.Add(time.Duration(i+1) * 300 * time.Microsecond)
			l.NewAlarm(func(now time.Time) {
				if now.Before(at) {
					t.Errorf("alarm %d rang %v early", i, at.Sub(now))
				}
				got <- i
			}).Set(at)
		}
		stopped := l.NewAlarm(func(time.Time) { t.Error("a stopped alarm rang") })
		stopped.Set(now.Add(100 * time.Microsecond))
		stopped.Stop()
	})
	for want := range 3 {
		if i := testkit.Receive(t, got, "an alarm"); i != want {
			t.Fatalf("alarm %d rang when %d was due", i, want)
		}
	}
}

// An alarm that sets itself to the past rings again and again, and the loop
// still serves its sockets.
func TestAlarmCannotStarveSockets(t *testing.T) {
	g := start(t, Config{Loops: 1})
	l := g.Loops()[0]
	l.Post(func(now time.Time) {
		var a *Alarm
		a = l.NewAlarm(func(now time.Time) { a.Set(now) })
		a.Set(now)
	})
	ln := listen(t, g, echo)
	mustEcho(t, connect(t, ln), "still here")
}

func TestDialOnTheAskingLoop(t *testing.T) {
	g := start(t, Config{Loops: 2})
	ln := listen(t, g, echo)
	for _, l := range g.Loops() {
		got := make(chan string, 1)
		l.Post(func(time.Time) {
			l.Dial(ln.Addr().String(), testkit.Timeout, nil, func(_ time.Time, c *Conn, err error) Handler {
				if err != nil || c.Loop() != l {
					t.Errorf("dialled with error %v", err)
					return nil
				}
				c.Write([]byte("ping"))
				return &script{data: func(_ time.Time, b []byte) int { got <- string(b); return len(b) }}
			})
		})
		if s := testkit.Receive(t, got, "the echo"); s != "ping" {
			t.Fatalf("got %q", s)
		}
	}
}

func dialError(t *testing.T, g *Group, addr string, timeout time.Duration) error {
	t.Helper()
	got := make(chan error, 1)
	l := g.Loops()[0]
	l.Post(func(time.Time) {
		l.Dial(addr, timeout, nil, func(_ time.Time, c *Conn, err error) Handler {
			if c != nil {
				t.Error("a failed dial came with a connection")
			}
			got <- err
			return nil
		})
	})
	return testkit.Receive(t, got, "the end of the dial")
}

// A loop begins only a few dials to an address at once, and to others independently. The pace rises as long as dials
// wait, and is forgotten.
func TestDialPace(t *testing.T) {
	const dials, pace = 20, 3
	g := start(t, Config{Loops: 1, DialPace: pace})
	ln := listen(t, g, echo)
	l := g.Loops()[0]
	dialled := make(chan error, 2*dials)
	to := func(addr string) {
		l.Dial(addr, testkit.Timeout, nil, func(_ time.Time, _ *Conn, err error) Handler {
			dialled <- err
			return nil
		})
	}
	waiting := make(chan [2]int, 1)
	addrs := [2]string{ln.Addr().String(), listen(t, g, echo).Addr().String()}
	l.Post(func(time.Time) {
		for range dials {
			to(addrs[0])
			to(addrs[1])
		}
		waiting <- [2]int{len(l.dials[addrs[0]].waiting), len(l.dials[addrs[1]].waiting)}
	})
	if n := testkit.Receive(t, waiting, "the number of those that wait"); n != [2]int{dials - pace, dials - pace} {
		t.Errorf("%d of %d dials wait, want all but %d each", n, dials, pace)
	}
	for range 2 * dials {
		if err := testkit.Receive(t, dialled, "the end of a dial"); err != nil {
			t.Error(err)
		}
	}
	left := make(chan int, 2)
	testkit.Eventually(t, "the pace is forgotten", func() bool {
		l.Post(func(time.Time) { left <- len(l.dials) })
		return testkit.Receive(t, left, "the number of addresses") == 0
	})

	p := pacedDials{loop: l, most: 1}
	p.alarm = &Alarm{loop: l, i: -1}
	l.Post(func(now time.Time) {
		p.since = now
		p.waiting = make([]*dial, 1000)
		for i := range p.waiting {
			p.waiting[i] = &dial{c: newConn(l), addr: addrs[0]}
			p.waiting[i].c.dialled = func(time.Time, *Conn, error) Handler { return nil }
		}
		for range 2 * int(dialPatience/dialTick) {
			p.tick(now)
			p.alarm.Stop()
		}
		left <- p.most
		p.waiting = nil
		p.tick(now.Add(dialMemory))
		p.alarm.Stop()
		left <- p.most
	})
	if most := testkit.Receive(t, left, "the pace"); most != 4 {
		t.Errorf("the pace is %d after twice the patience, want 4", most)
	}
	if most := testkit.Receive(t, left, "the pace"); most != pace {
		t.Errorf("the pace is %d when few dials have begun for a while, want %d", most, pace)
	}
}

func TestDialRefused(t *testing.T) {
	g := start(t, Config{Loops: 1})
	if err := dialError(t, g, testkit.FreeAddr(t), testkit.Timeout); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v, want connection refused", err)
	}
}

// gnet: its own dial has no timeout.
func TestDialTimeout(t *testing.T) {
	g := start(t, Config{Loops: 1})
	var timeout net.Error
	addr, _ := looptest.FullListener(t)
	err := dialError(t, g, addr, 50*time.Millisecond)
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("got %v, want a timeout", err)
	}
}

// Exactly the cap is held, the next is refused, and a place given back is free.
func TestConnectionsMax(t *testing.T) {
	g := start(t, Config{Loops: 1, ConnectionsMax: 3})
	ln := listen(t, g, echo)
	var held []*net.TCPConn
	for range 3 {
		c := connect(t, ln)
		mustEcho(t, c, "in")
		held = append(held, c)
	}
	over := connect(t, ln)
	if n, err := over.Read(make([]byte, 1)); err == nil {
		t.Fatalf("the connection beyond the cap was served: %d bytes", n)
	}
	if n := g.Stats().Refused.Load(); n != 1 {
		t.Fatalf("%d refused, want 1", n)
	}
	_ = held[0].Close()
	testkit.Eventually(t, "the place is free", func() bool { return g.Stats().Open.Load() == 2 })
	mustEcho(t, connect(t, ln), "in again")
	mustEcho(t, held[1], "noticed nothing")
}

// At the cap, connections on which nothing was received make room, the oldest first. Those in use are
// not affected.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	g := start(t, Config{Loops: 2, ConnectionsMax: 3})
	ln, secure := listen(t, g, echo), serveSecure(t, g, echo)
	used := connect(t, ln)
	mustEcho(t, used, "in use")
	first, _ := connectSecure(t, secure)
	silent := func(n int64) {
		testkit.Eventually(t, "they wait", func() bool { _, _, s := g.clients.Counts(); return int64(s) == n })
	}
	silent(1)
	second := connectFrom(t, ln, "127.0.0.2")
	silent(2)
	mustEcho(t, connectFrom(t, ln, "127.0.0.3"), "in the place of the first")
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the first silent connection reads %v, want its end", err)
	}
	testkit.Eventually(t, "it is closed", func() bool { return g.Stats().Open.Load() == 3 })
	mustEcho(t, second, "the second is open")
	mustEcho(t, used, "noticed nothing")
	over := connectFrom(t, ln, "127.0.0.4")
	if _, err := over.Read(make([]byte, 1)); err == nil {
		t.Error("all are in use, and another is accepted")
	}
	if s := g.Stats(); s.Replaced.Load() != 1 || s.Refused.Load() != 1 {
		t.Errorf("%d replaced and %d refused, want one each", s.Replaced.Load(), s.Refused.Load())
	}
}

// gnet: EMFILE on accept ends the engine. A child process with few descriptors
// is flooded; those it has go on, and it accepts again afterwards.
func TestDescriptorExhaustion(t *testing.T) {
	child := startChild(t)
	first := testkit.Must(net.Dial("tcp", child.addr))(t)
	defer first.Close()
	_ = first.SetDeadline(time.Now().Add(testkit.Timeout))
	mustEcho(t, first, "before")
	var flood []net.Conn
	for child.acceptErrors(t) == 0 {
		c := testkit.Must(net.DialTimeout("tcp", child.addr, testkit.Timeout))(t)
		flood = append(flood, c)
	}
	mustEcho(t, first, "during")
	for _, c := range flood {
		_ = c.Close()
	}
	testkit.Eventually(t, "a new connection is served", func() bool {
		c, err := net.DialTimeout("tcp", child.addr, testkit.Timeout)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
		_, err = io.WriteString(c, "new")
		b := make([]byte, 3)
		if err == nil {
			_, err = io.ReadFull(c, b)
		}
		return err == nil && string(b) == "new"
	})
	mustEcho(t, first, "after")
}
