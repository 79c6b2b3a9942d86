package loop

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// pumping is how many goroutines are inside pumps.
func pumping() int {
	b := make([]byte, 1<<20)
	return strings.Count(string(b[:runtime.Stack(b, true)]), "pump.(*Pump).")
}

// Whoever drains waits for Stats.Open: a TLS connection counts until all of it
// is on its way.
func TestSecureConnectionCountsUntilItIsSent(t *testing.T) {
	body := pattern(1 << 20) // what the kernel holds
	g := start(t, Config{Loops: 1})
	asked := make(chan bool, 1)
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{data: func(_ time.Time, b []byte) int {
			c.Write(body)
			c.CloseDrained()
			asked <- true
			return len(b)
		}}
	})
	c, _ := connectSecure(t, ln)
	_, _ = io.WriteString(c, "go")
	testkit.Receive(t, asked, "the request")
	testkit.Eventually(t, "nothing is open", func() bool { return g.Stats().Open.Load() == 0 })
	ln.Close()
	g.Stop()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, body) {
		t.Fatalf("read %d of %d bytes, %v", len(got), len(body), err)
	}
}

// A Conn that is gone leaves a peer that takes nothing: the pump does not wait
// for it for ever.
func TestPumpOfAGoneConnGivesUpOnAStalledPeer(t *testing.T) {
	stall := 700 * time.Millisecond
	for pumpOfAGoneConn(t, stall) > 0 { // the Conn stalled before it was closed: no case of ours
		stall *= 2
	}
}

// pumpOfAGoneConn closes a Conn whose peer takes nothing, waits until its pump has
// given up, and returns how many connections had stalled before they were closed.
func pumpOfAGoneConn(t *testing.T, stall time.Duration) uint64 {
	t.Helper()
	g := start(t, Config{Loops: 1, WriteStall: stall})
	conns := make(chan *Conn, 1)
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		c.Write(make([]byte, 32<<20)) // more than all buffers hold
		conns <- c
		return &script{}
	})
	connectSecure(t, ln) // and reads nothing
	conn := testkit.Receive(t, conns, "the connection")
	unsent := func() int {
		n := make(chan int, 1)
		g.Loops()[0].Post(func(time.Time) { n <- conn.Unsent() })
		return <-n
	}
	last, same := 0, 0
	testkit.Eventually(t, "the peer's buffers are full", func() bool {
		time.Sleep(5 * time.Millisecond)
		n := unsent()
		if same++; n != last {
			last, same = n, 0
		}
		return same > 10
	})
	g.Loops()[0].Post(func(time.Time) { conn.Close() })
	testkit.Eventually(t, "the pump is gone", func() bool { return g.Stats().Open.Load() == 0 && pumping() == 0 })
	return g.Stats().Stalled.Load()
}

// After handshakes that never end, resets, stalls and proper ends, and a Stop
// in the middle of all, nothing is left.
func TestStopEndsAllPumps(t *testing.T) {
	before := descriptors(t)
	g := start(t, Config{Loops: 2})
	conns := make(chan *Conn, 64)
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		return &script{data: func(_ time.Time, b []byte) int {
			c.Write(make([]byte, 32<<20)) // nobody reads it
			return len(b)
		}}
	})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // never shakes hands
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refused := make(chan error, 1)
	dialSecure(g, silent.Addr().String(), time.Hour, trust().client, func(_ time.Time, _ *Conn, err error) Handler {
		refused <- err
		return nil
	})
	met := testkit.Must(silent.Accept())(t)
	var tcps []net.Conn
	for i := range 12 {
		tcp := connect(t, ln)
		tcps = append(tcps, tcp)
		if i%4 == 0 {
			continue // silent
		}
		c := tls.Client(tcp, trust().client)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		testkit.Receive(t, conns, "the connection")
		switch i % 4 {
		case 1:
			_, _ = io.WriteString(c, "stall")
		case 2:
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
	ln.Close()
	g.Stop()
	testkit.Eventually(t, "no pump runs", func() bool { return pumping() == 0 })
	for _, tcp := range append(tcps, met) {
		_ = tcp.Close()
	}
	_ = silent.Close()
	testkit.Eventually(t, "the descriptors are back", func() bool { return descriptors(t) <= before })
}

// Many connections that come and go in all ways leave nothing behind while the
// Group runs on.
func TestSecureConnectionsLeakNothing(t *testing.T) {
	g, hasty := start(t, Config{Loops: 2}), start(t, Config{Loops: 2, HandshakeTimeout: 300 * time.Millisecond})
	ln, lnOfSilent := serveSecure(t, g, echo), serveSecure(t, hasty, echo)
	round := func() {
		for i := range 20 {
			if i%5 == 0 {
				connect(t, lnOfSilent)
				continue
			}
			tcp := connect(t, ln)
			c := tls.Client(tcp, trust().client)
			mustEcho(t, c, "hello")
			switch i % 5 {
			case 1:
				_ = c.Close()
			case 2:
				_ = tcp.SetLinger(0)
				_ = tcp.Close()
			case 3:
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, c)
			}
			_ = tcp.Close()
		}
		testkit.Eventually(t, "nothing is open", func() bool {
			return g.Stats().Open.Load() == 0 &&
				hasty.Stats().Open.Load() == 0 && pumping() == 0
		})
	}
	round()
	before := descriptors(t)
	round()
	// the four silent ones of ours
	testkit.Eventually(t, "the descriptors are back", func() bool { return descriptors(t) <= before+4 })
}
