package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
)

const chainLength = 20

// TestMain makes the test binary take the sockets over, as a child: its argument is
// the name under which they are offered.
func TestMain(m *testing.M) {
	testkit.Main(m, func() {
		if err := runChild(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// A server answers bytes with themselves until its socket is taken; then it
// drains.
type server struct {
	group   *loop.Group
	ln      *loop.Listener
	drained chan struct{}
}

type echo struct{ c *loop.Conn }

func (e echo) Data(_ time.Time, b []byte) int { e.c.Write(b); return len(b) }
func (echo) Expired(time.Time)                {}
func (echo) Closed(time.Time, error)          {}

// serve starts a server that takes over from the one under name, or begins.
func serve(name string) (*server, error) {
	g, err := loop.Start(loop.Config{Loops: 1})
	if err != nil {
		return nil, err
	}
	s := &server{group: g, drained: make(chan struct{})}
	accept := func(_ time.Time, c *loop.Conn) loop.Handler { return echo{c} }
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	taken, err := Receive(ctx, name)
	if err == nil {
		s.ln = g.Serve(taken.Sockets[0], nil, accept)
		err = taken.Ready()
	} else {
		var socket net.Listener
		if socket, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			s.ln = g.Serve(socket, nil, accept)
		}
	}
	if err != nil {
		return nil, err
	}
	_, err = Offer(name, []syscall.Conn{s.ln}, nil, s.drain)
	return s, err
}

// drain stops accepting and ends when the last client has gone.
func (s *server) drain() {
	s.ln.Close()
	for end := time.Now().Add(testkit.Timeout); s.group.Stats().Open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s.group.Stop()
	close(s.drained)
}

// runChild serves until its socket is taken and everybody has gone, or until
// the test that started it ends.
func runChild(name string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	s, err := serve(name)
	if err != nil {
		return err
	}
	fmt.Println(s.ln.Addr())
	<-s.drained
	return nil
}

// A storm is clients that connect, are answered three times and leave, over
// and over.
type storm struct {
	clients  sync.WaitGroup
	stop     atomic.Bool
	answered atomic.Int64
}

func newStorm(t *testing.T, addr string) *storm {
	s := &storm{}
	for range 8 {
		s.clients.Go(func() {
			for !s.stop.Load() {
				if err := visit(addr); err != nil {
					t.Errorf("a client met %v", err)
					return
				}
				s.answered.Add(1)
			}
		})
	}
	return s
}

func visit(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	for range 3 {
		if _, err := io.WriteString(c, "x"); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

// blow waits until some more clients have been answered.
func (s *storm) blow(t *testing.T) {
	more := s.answered.Load() + 50
	testkit.Eventually(t, "clients are answered", func() bool { return s.answered.Load() >= more || t.Failed() })
}

func (s *storm) end() {
	s.stop.Store(true)
	s.clients.Wait()
}

func TestChainOfHandovers(t *testing.T) {
	name := anyName()
	s := testkit.Must(serve(name))(t)
	wind := newStorm(t, s.ln.Addr().String())
	for range chainLength {
		wind.blow(t)
		next := testkit.Must(serve(name))(t)
		testkit.Receive(t, s.drained, "the old server to end")
		s = next
	}
	wind.end()
	last := mustTake(t, name)
	if err := last.Ready(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, s.drained, "the last server to end")
}

// startChild starts a process and returns when it serves.
func startChild(t *testing.T, name string) *testkit.Program {
	t.Helper()
	cmd := testkit.Command(t, nil, name)
	in := testkit.Must(cmd.StdinPipe())(t)
	t.Cleanup(func() { in.Close() })
	return testkit.Launch(t, cmd, "") // it writes the address alone
}

func TestChainOfProcesses(t *testing.T) {
	name := anyName()
	old := startChild(t, name)
	wind := newStorm(t, old.Addr)
	for range chainLength {
		wind.blow(t)
		next := startChild(t, name)
		if next.Addr != old.Addr {
			t.Fatalf("the successor serves %s, not %s", next.Addr, old.Addr)
		}
		old.RequireExit(0)
		old = next
	}
	wind.blow(t)
	wind.end()
	taken := mustTake(t, name)
	if err := taken.Ready(); err != nil {
		t.Fatal(err)
	}
	old.RequireExit(0)
}

// A process that is killed leaves nothing that would keep the next one from
// starting.
func TestKilledProcessLeavesTheNameFree(t *testing.T) {
	name := anyName()
	old := startChild(t, name)
	old.Kill()
	if _, err := Receive(t.Context(), name); !errors.Is(err, ErrNoOffer) {
		t.Fatalf("error %v, want that there is no offer", err)
	}
	f := socket(t)
	mustOffer(t, name, usual(), func() {}, f)
}
