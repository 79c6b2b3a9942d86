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
	ctx, cancel := context.WithTimeout(r.t.Context(), testkit.Patience)
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
	r, conn := tunnel(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }, "DRAIN_TIMEOUT", "50ms")
	if n := r.drain(context.Background()); n != 1 {
		t.Errorf("%d connections were cut, want 1", n)
	}
	conn.Close()
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
	if n := <-drained; n != 0 {
		t.Errorf("%d connections were cut, want 0", n)
	}
}

// tunnel opens a tunnel with a target that does serve with its end.
func tunnel(t *testing.T, serve func(c *net.TCPConn), env ...string) (*rig, *testkit.Conn) {
	t.Helper()
	target := newTarget(t, func(c *targetConn) {
		c.next()
		c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		serve(c.Conn.(*net.TCPConn))
	})
	r := start(t, target.url(), env...)
	conn := r.dial()
	conn.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	if res, err := http.ReadResponse(conn.In, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("answered %v, %v", res, err)
	}
	return r, conn
}

// When one side of a tunnel has finished sending, the other side is notified and may continue to
// send.
func TestTunnelHalfClose(t *testing.T) {
	const n = 4 << 20
	t.Run("of the client", func(t *testing.T) {
		r, conn := tunnel(t, func(c *net.TCPConn) {
			got := newStream(0)
			if _, err := got.take(c); err != nil { // ends with the client's half close
				t.Errorf("the target reads: %v", err)
			}
			fmt.Fprint(c, got)
		})
		sent := newStream(n)
		if err := sent.give(conn); err != nil {
			t.Fatal(err)
		}
		if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn.In); err != nil || string(got) != sent.String() {
			t.Errorf("the target says it got %q, %v, of %v", got, err, sent)
		}
		checkBaseLine(r)
	})
	t.Run("of the target", func(t *testing.T) {
		sent := newStream(n)
		heard := make(chan string, 1)
		r, conn := tunnel(t, func(c *net.TCPConn) {
			if err := sent.give(c); err != nil {
				t.Errorf("the target writes: %v", err)
			}
			_ = c.CloseWrite()
			got, err := io.ReadAll(c)
			if err != nil {
				t.Errorf("the target reads: %v", err)
			}
			heard <- string(got)
		})
		got := newStream(0)
		if _, err := got.take(conn.In); err != nil || got.String() != sent.String() {
			t.Errorf("the client got %v, %v, of %v", got, err, sent)
		}
		conn.Send(got.String())
		_ = conn.Conn.(*net.TCPConn).CloseWrite()
		if text := <-heard; text != sent.String() {
			t.Errorf("the target heard %q", text)
		}
		checkBaseLine(r)
	})
}

// A reset of one side ends the other, and not as if nothing was amiss.
func TestTunnelReset(t *testing.T) {
	t.Run("of the client", func(t *testing.T) {
		ended := make(chan error, 1)
		r, conn := tunnel(t, func(c *net.TCPConn) {
			_, err := io.ReadAll(c)
			ended <- err
		})
		conn.Reset()
		<-ended
		checkBaseLine(r)
	})
	t.Run("of the target", func(t *testing.T) {
		r, conn := tunnel(t, func(c *net.TCPConn) { testkit.Reset(c) })
		if got, err := io.ReadAll(conn.In); err == nil {
			t.Errorf("the tunnel ends with %q as if it were whole", got)
		}
		conn.Close()
		checkBaseLine(r)
	})
}

// A side that reads nothing from a tunnel holds the other one back, in both directions at the
// same time; later everything arrives.
func TestTunnelBackPressure(t *testing.T) {
	const n = stalledBytes
	open := make(chan bool)
	down, up := newStream(n), newStream(n)
	targetGot, clientGot := newStream(0), newStream(0)
	both := func(c io.ReadWriter, sent, got *stream, end func() error) {
		var sending sync.WaitGroup
		sending.Go(func() {
			if err := sent.give(c); err != nil {
				t.Errorf("write: %v", err)
			}
			_ = end()
		})
		await(t, open)
		if _, err := got.take(c); err != nil {
			t.Errorf("read: %v", err)
		}
		sending.Wait()
	}
	served := make(chan bool)
	r, conn := tunnel(t, func(c *net.TCPConn) {
		both(c, down, targetGot, c.CloseWrite)
		close(served)
	}, "WRITE_TIMEOUT", stalledPatience)
	before := heapAfter()
	var talking sync.WaitGroup
	talking.Go(func() {
		both(struct {
			io.Reader
			io.Writer
		}{conn.In, conn}, up, clientGot, conn.Conn.(*net.TCPConn).CloseWrite)
	})
	stalls(t, []*stream{down, up}, stalledSent)
	heapSettles(t, before, stalledHeap)
	close(open)
	talking.Wait()
	<-served
	checkBaseLine(r)
	if clientGot.String() != down.String() || targetGot.String() != up.String() {
		t.Errorf("down: %v of %v; up: %v of %v", clientGot, down, targetGot, up)
	}
}

// A silent tunnel ends after TUNNEL_TIMEOUT.
func TestTunnelTimeout(t *testing.T) {
	ended := make(chan error, 1)
	r, conn := tunnel(t, func(c *net.TCPConn) {
		_, err := io.ReadAll(c)
		ended <- err
	}, "TUNNEL_TIMEOUT", "50ms")
	conn.Closed()
	if err := <-ended; err != nil {
		t.Errorf("the target's side ends with %v", err)
	}
	conn.Close()
	checkBaseLine(r)
}

// A client that floods a target which stops reading, ends, and is gone when
// the target is cut, leaves nothing behind.
func TestTunnelOfAClientThatIsGone(t *testing.T) {
	t.Parallel() // waits for the timeout
	fixed := make(chan bool)
	r, conn := tunnel(t, func(c *net.TCPConn) {
		_ = c.SetReadBuffer(16 << 10) // it grows no more, so that who pauses once stays paused
		close(fixed)
		<-t.Context().Done()
	}, "WRITE_TIMEOUT", "3s")
	<-fixed
	tcp := conn.Conn.(*net.TCPConn)
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
		conn.Send(strings.Repeat("x", 16<<10))
		r.until("the proxy has it, or pauses", func() bool { return unsent() == 0 || paused() })
	}
	_ = tcp.CloseWrite()
	r.until("the proxy's kernel has it all", func() bool { return unsent() <= end && err == nil })
	conn.Reset()
	checkBaseLine(r)
}
