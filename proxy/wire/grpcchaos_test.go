package wire

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/test/testkit"
)

var grpcCalls = flag.Int("grpc-calls", 10_000, "how many calls of gRPC TestGRPCChaos makes")

const (
	grpcConns   = 4
	grpcCallers = 16 // of each connection
)

// TestGRPCChaos makes many calls, unary ones and streams, some of which the client cancels or gives a deadline. Each
// ends as it may, with its own messages, and nothing is left of it.
func TestGRPCChaos(t *testing.T) {
	t.Logf("-grpc-calls %d -chaos-seed %d", *grpcCalls, *chaosSeed)
	addr := testkit.FreeAddr(t)
	routines, files := goroutines(), descriptors(t)
	t.Cleanup(func() { // the last one: everything has ended
		testkit.Eventually(t, "no goroutine is left", func() bool { return goroutines() <= routines })
		testkit.Eventually(t, "no descriptor is left", func() bool { return descriptors(t) <= files })
	})
	c := &grpcChaos{t: t}
	server := grpc.NewServer(grpc.ForceServerCodec(textCodec{}), grpc.UnknownServiceHandler(c.serve))
	l := testkit.Must(net.Listen("tcp", addr))(t)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, "h2c://"+addr, "HTTP2", "all",
		"TARGET_TIMEOUT", "10s", // so long a call that was cancelled may have its place
		"HTTP2_GLITCHES_BURST", "1048576") // these clients cancel more than usual ones
	for range grpcConns {
		c.conns = append(c.conns, r.grpcClient())
	}
	c.play(*grpcCalls / 10)
	before := c.rest(r)
	c.play(*grpcCalls - *grpcCalls/10)
	if after := c.rest(r); after > 2*before+8<<20 {
		t.Errorf("%d KB are in use, %d KB after a tenth of the calls", after>>10, before>>10)
	}
	r.until("no place is taken", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
	t.Logf("calls by code: %v", c.codes)
	for _, code := range []codes.Code{codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.NotFound} {
		if c.codes[code] == 0 {
			t.Errorf("no call ended with %v", code)
		}
	}
}

// A grpcChaos is one run.
//
// Safe for concurrent use: mu guards the counts by code.
type grpcChaos struct {
	t       *testing.T
	conns   []*grpc.ClientConn
	serving atomic.Int64 // calls at the server
	mu      sync.Mutex
	codes   map[codes.Code]int
}

// serve is calls, with calls of Hang that end with their context.
func (c *grpcChaos) serve(srv any, s grpc.ServerStream) error {
	c.serving.Add(1)
	defer c.serving.Add(-1)
	if method, _ := grpc.MethodFromServerStream(s); strings.HasSuffix(method, "/Hang") {
		<-s.Context().Done()
		return status.FromContextError(s.Context().Err()).Err()
	}
	return calls(srv, s)
}

// play makes n calls.
func (c *grpcChaos) play(n int) {
	c.codes = make(map[codes.Code]int)
	var left atomic.Int64
	left.Store(int64(n))
	var callers sync.WaitGroup
	for i := range grpcConns * grpcCallers {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(*chaosSeed, uint64(i)))
			for k := left.Add(-1); k >= 0 && !c.t.Failed(); k = left.Add(-1) {
				code, err := c.call(r, c.conns[i%grpcConns], fmt.Sprintf("%d of %d ", k, n))
				if err != nil {
					c.t.Errorf("call %d: %v", k, err)
				}
				c.mu.Lock()
				c.codes[code]++
				c.mu.Unlock()
			}
		})
	}
	callers.Wait()
}

// rest waits until nothing is left of the calls, and returns how many bytes are in use then.
func (c *grpcChaos) rest(r *rig) uint64 {
	r.until("the server has no calls", func() bool { return c.serving.Load() == 0 })
	r.until("the proxy has no streams", func() bool {
		s := r.samples()
		return s["ratelimiter_http2_streams"] == 0 && s["ratelimiter_upstream_http2_streams"] == 0
	})
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// call makes a call whose messages begin with id, and returns how it has ended, or an error if it may not do so.
func (c *grpcChaos) call(r *rand.Rand, conn *grpc.ClientConn, id string) (codes.Code, error) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	may, method, messages := codes.OK, "/test.Calls/Echo", 0 // and OK
	if r.IntN(2) == 0 {
		messages = 1 + r.IntN(6)
	}
	cancelAt := -1 // after so many messages
	switch r.IntN(8) {
	case 0:
		may, cancelAt = codes.Canceled, r.IntN(messages+1)
	case 1, 2:
		var over context.CancelFunc
		ctx, over = context.WithTimeout(ctx, time.Duration(r.IntN(5_000_000)))
		defer over()
		if may = codes.DeadlineExceeded; r.IntN(2) == 0 {
			method = "/test.Calls/Hang"
		}
	case 3:
		may, method = codes.NotFound, "/test.Calls/Fail"
	}
	filler := strings.Repeat("x", r.IntN(1<<r.IntN(17)))
	var err error
	if messages == 0 {
		if cancelAt >= 0 {
			go cancel()
		}
		var answer string
		if answer, err = call(ctx, conn, method, id+filler); err == nil && answer != id+filler {
			return codes.OK, fmt.Errorf("%q is answered by %q", id, answer[:min(len(answer), 50)])
		}
	} else {
		err = c.stream(ctx, conn, method, id, filler, messages, cancelAt, cancel)
	}
	code := status.Code(err)
	if code != may && (code != codes.OK || may == codes.NotFound) {
		return code, fmt.Errorf("%s, %d messages of %d bytes: %w; may end with %v", method, messages, len(filler), err, may)
	}
	return code, nil
}

// stream makes a call with messages, which are sent while the answers are read.
func (c *grpcChaos) stream(ctx context.Context, conn *grpc.ClientConn, method, id, filler string, n, cancelAt int,
	cancel func()) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for i := range n {
			if message := fmt.Sprint(id, i, filler); s.SendMsg(&message) != nil {
				return // RecvMsg says why
			}
		}
		_ = s.CloseSend()
	}()
	for i := 0; ; i++ {
		if i == cancelAt {
			cancel()
		}
		var answer string
		switch err := s.RecvMsg(&answer); {
		case errors.Is(err, io.EOF) && i == n:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the stream ends after %d of %d messages", i, n)
		case err != nil:
			return err
		case answer != fmt.Sprint(id, i, filler):
			return fmt.Errorf("message %d of %q is answered by %q", i, id, answer[:min(len(answer), 50)])
		}
	}
}
