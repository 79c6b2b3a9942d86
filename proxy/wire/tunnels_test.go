package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// websockets runs a proxy before a WebSocket server that does serve with each
// connection.
func websockets(t *testing.T, serve func(ctx context.Context, c *websocket.Conn) error, env ...string) *rig {
	t.Helper()
	return start(t, newService(t, func(w http.ResponseWriter, req *http.Request) {
		c, err := websocket.Accept(w, req, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
		if err != nil {
			t.Errorf("the server does not accept: %v", err)
			return
		}
		c.SetReadLimit(-1)
		defer c.CloseNow()
		if err := serve(req.Context(), c); err != nil {
			t.Errorf("the server: %v", err)
		}
	}), env...)
}

// connect opens a WebSocket through the proxy. It ends with the test.
func (r *rig) connect() (context.Context, *websocket.Conn) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testkit.Timeout)
	r.t.Cleanup(cancel)
	c, res, err := websocket.Dial(ctx, "ws://"+r.Addr().String()+"/ws",
		&websocket.DialOptions{Subprotocols: []string{"chat"}})
	if err != nil {
		r.t.Fatalf("connect: %v", err)
	}
	r.t.Cleanup(func() { c.CloseNow() })
	if c.Subprotocol() != "chat" || res.Header.Get("Via") != "1.1 weir" || res.Header.Get("X-RateLimit-Limit") == "" {
		r.t.Errorf("connected as %q with %v", c.Subprotocol(), res.Header)
	}
	c.SetReadLimit(-1)
	return ctx, c
}

// echoMessages sends back what comes until the client closes with a reason,
// which the proxy must have passed on.
func echoMessages(ctx context.Context, c *websocket.Conn) error {
	for {
		kind, message, err := c.Read(ctx)
		if closed, ok := errors.AsType[websocket.CloseError](err); ok {
			if closed.Code != websocket.StatusGoingAway || closed.Reason != "enough" {
				return fmt.Errorf("closed with %v", closed)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.Write(ctx, kind, message); err != nil {
			return err
		}
	}
}

// A real client and a real server: messages of all sizes come back as they are,
// pings are answered, and the closing handshake is the other side's.
func TestWebSocketEcho(t *testing.T) {
	r := websockets(t, echoMessages)
	ctx, c := r.connect()
	large := make([]byte, 8<<20)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	for _, n := range []int{0, 1, 125, 126, 65535, 65536, 1 << 20, len(large)} {
		if err := c.Write(ctx, websocket.MessageBinary, large[:n]); err != nil {
			t.Fatal(err)
		}
		if kind, got, err := c.Read(ctx); err != nil || kind != websocket.MessageBinary || !bytes.Equal(got, large[:n]) {
			t.Fatalf("a message of %d bytes comes back as %v of %d bytes, %v", n, kind, len(got), err)
		}
	}
	reading := c.CloseRead(ctx) // pongs are seen by who reads
	if err := c.Ping(reading); err != nil {
		t.Errorf("ping: %v", err)
	}
	r.metrics(`client_connections=1 responses.101=1 forwarded=1 upstream_in_flight=1`)
	if err := c.Close(websocket.StatusGoingAway, "enough"); err != nil {
		t.Errorf("close: %v", err)
	}
	checkBaseLine(r)
}

// The server closes first: the client learns its code and reason.
func TestWebSocketServerCloses(t *testing.T) {
	r := websockets(t, func(_ context.Context, c *websocket.Conn) error { return c.Close(4001, "tired") })
	ctx, c := r.connect()
	_, _, err := c.Read(ctx)
	if closed, ok := errors.AsType[websocket.CloseError](err); !ok || closed.Code != 4001 || closed.Reason != "tired" {
		t.Errorf("closed with %v", err)
	}
	checkBaseLine(r)
}

// Many messages on many connections, both ways at the same time: each side gets
// all of the other's, in order.
func TestWebSocketBothWays(t *testing.T) {
	const conns, messages = 4, 1000
	talk := func(ctx context.Context, c *websocket.Conn) error {
		var sending sync.WaitGroup
		var sent error
		sending.Go(func() {
			for i := range messages {
				if err := c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i))); err != nil {
					sent = err
					return
				}
			}
		})
		defer sending.Wait()
		for i := range messages {
			_, got, err := c.Read(ctx)
			if err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			if number, _, _ := strings.Cut(string(got), " "); number != fmt.Sprint(i) || len(got) != len(number)+1+i {
				return fmt.Errorf("message %d is %.20q of %d bytes", i, got, len(got))
			}
		}
		sending.Wait()
		return sent
	}
	ended := make(chan bool) // closing might cut what the other has not read
	var all, served sync.WaitGroup
	r := websockets(t, func(ctx context.Context, c *websocket.Conn) error {
		err := talk(ctx, c)
		served.Done()
		await(t, ended)
		return err
	})
	served.Add(conns)
	for range conns {
		ctx, c := r.connect()
		all.Go(func() {
			if err := talk(ctx, c); err != nil {
				t.Errorf("the client: %v", err)
			}
			await(t, ended)
			_ = c.CloseNow()
		})
	}
	served.Wait()
	close(ended)
	all.Wait()
	checkBaseLine(r)
}

// A refused switch is an ordinary answer, and the limiter decides about it.
func TestWebSocketRefused(t *testing.T) {
	r := start(t, newService(t,
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }), "RATE_LIMIT_LIMIT", "1")
	for _, want := range []int{403, 429} {
		_, res, err := websocket.Dial(t.Context(), "ws://"+r.Addr().String()+"/", nil)
		if err == nil || res.StatusCode != want {
			t.Errorf("answered %v, want %d", res, want)
		}
	}
}

// A drain waits for tunnels no longer than it may.
func TestDrainOfTunnels(t *testing.T) {
	r, _ := tunnel(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }, "DRAIN_TIMEOUT", "50ms")
	r.play(`drain 1`)
}

// A tunnel that ends while a drain waits for it is not cut.
func TestTunnelEndsDuringADrain(t *testing.T) {
	r := websockets(t, echoMessages)
	ctx, c := r.connect()
	if err := c.Write(ctx, websocket.MessageText, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Read(ctx); err != nil {
		t.Fatal(err)
	}
	drained := make(chan int)
	go func() { drained <- r.drain(context.Background()) }()
	if err := c.Close(websocket.StatusGoingAway, "enough"); err != nil {
		t.Errorf("close: %v", err)
	}
	equal(t, "connections that were cut", <-drained, 0)
}

// tunnel opens a tunnel from client a to a target that does serve with its end.
func tunnel(t *testing.T, serves func(c *net.TCPConn), env ...string) (*rig, *net.TCPConn) {
	t.Helper()
	r := serve(t, func(c *targetConn) {
		c.next()
		c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		serves(c.Conn.(*net.TCPConn))
	}, env...)
	r.play(`a GET / upgrade -> 101`)
	return r, r.clients("a")[0].Conn.Conn.(*net.TCPConn)
}

// When one side of a tunnel has finished sending, the other side is notified and may continue to
// send.
func TestTunnelHalfClose(t *testing.T) {
	sent := newStream(4 << 20)
	t.Run("of the client", func(t *testing.T) {
		// the target's reading ends with the client's half close
		r, conn := tunnel(t, func(c *net.TCPConn) { fmt.Fprint(c, taken(t, "the target", c)) })
		sent.gives(t, "the client", conn)
		_ = conn.CloseWrite()
		r.playf(`a -> takes %q + closed; rest`, sent)
	})
	t.Run("of the target", func(t *testing.T) {
		sent, heard := newStream(4<<20), make(chan string, 1)
		r, conn := tunnel(t, func(c *net.TCPConn) {
			sent.gives(t, "the target", c)
			_ = c.CloseWrite()
			got, err := io.ReadAll(c)
			if err != nil {
				t.Errorf("the target reads: %v", err)
			}
			heard <- string(got)
		})
		got := taken(t, "the client", r.clients("a")[0].In)
		sent.arrives(t, got)
		fmt.Fprint(conn, got)
		_ = conn.CloseWrite()
		equal(t, "the target heard", <-heard, sent.String())
		r.play(`rest`)
	})
}

// A reset of one side ends the other, and not as if nothing was amiss.
func TestTunnelReset(t *testing.T) {
	t.Run("of the client", func(t *testing.T) {
		ended := make(chan error, 1)
		r, _ := tunnel(t, func(c *net.TCPConn) {
			_, err := io.ReadAll(c)
			ended <- err
		})
		r.play(`a resets`)
		<-ended
		r.play(`rest`)
	})
	t.Run("of the target", func(t *testing.T) {
		r, conn := tunnel(t, func(c *net.TCPConn) { testkit.Reset(c) })
		if got, err := io.ReadAll(conn); err == nil {
			t.Errorf("the tunnel ends with %q as if it were whole", got)
		}
		r.play(`rest`)
	})
}

// A side that reads nothing from a tunnel holds the other one back, in both directions at the
// same time; later everything arrives.
func TestTunnelBackPressure(t *testing.T) {
	open := make(chan bool)
	down, up := newStream(stalledBytes), newStream(stalledBytes)
	both := func(who string, c *net.TCPConn, in io.Reader, sent *stream, got chan *stream) {
		var sending sync.WaitGroup
		sending.Go(func() {
			sent.gives(t, who, c)
			_ = c.CloseWrite()
		})
		await(t, open)
		got <- taken(t, who, in)
		sending.Wait()
	}
	targetGot, clientGot := make(chan *stream, 1), make(chan *stream, 1)
	r, conn := tunnel(t, func(c *net.TCPConn) { both("the target", c, c, down, targetGot) }, "WRITE_TIMEOUT",
		stalledPatience)
	before := heapAfter()
	go both("the client", conn, r.clients("a")[0].In, up, clientGot)
	stalls(t, []*stream{down, up}, stalledSent)
	heapSettles(t, before, stalledHeap)
	close(open)
	down.arrives(t, <-clientGot)
	up.arrives(t, <-targetGot)
	r.play(`rest`)
}

// A silent tunnel ends after TUNNEL_TIMEOUT.
func TestTunnelTimeout(t *testing.T) {
	ended := make(chan error, 1)
	r, _ := tunnel(t, func(c *net.TCPConn) {
		_, err := io.ReadAll(c)
		ended <- err
	}, "TUNNEL_TIMEOUT", "50ms")
	r.play(`a -> closed`)
	if err := <-ended; err != nil {
		t.Errorf("the target's side ends with %v", err)
	}
	r.play(`rest`)
}

// A client that floods a target which stops reading, ends, and is gone when
// the target is cut, leaves nothing behind.
func TestTunnelOfAClientThatIsGone(t *testing.T) {
	t.Parallel() // waits for the timeout
	fixed := make(chan bool)
	r, tcp := tunnel(t, func(c *net.TCPConn) {
		_ = c.SetReadBuffer(16 << 10) // it grows no more, so that who pauses once stays paused
		close(fixed)
		<-t.Context().Done()
	}, "WRITE_TIMEOUT", "3s")
	<-fixed
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const end = 1 // what the end of what the client sends counts
	unsent := func() (n int) {
		_ = raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
		return n
	}
	paused := func() bool { return r.group.Stats().Paused.Load() > 0 }
	for !paused() { // no more at a time than the proxy's kernel takes of a reader that pauses
		_, _ = tcp.Write(make([]byte, 16<<10))
		r.until("the proxy has it, or pauses", func() bool { return unsent() == 0 || paused() })
	}
	_ = tcp.CloseWrite()
	r.until("the proxy's kernel has it all", func() bool { return unsent() <= end && err == nil })
	r.play(`a resets; rest`)
}
