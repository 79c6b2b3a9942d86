package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"weir/internal/test/testkit"
	"weir/proxy/store/redis/redistest"
)

// Callers ask two proxies by gRPC, in turn, and count the answers by the value that they ask about.
type callers struct {
	*load
	clients            []service.RateLimitServiceClient
	dials              atomic.Int64
	values             int
	admitted, over, no []atomic.Int64 // no: the store was away
}

const callersConns = 4

func newCallers(t *testing.T, values int, addrs ...string) *callers {
	c := &callers{values: values, admitted: make([]atomic.Int64, values), over: make([]atomic.Int64, values),
		no: make([]atomic.Int64, values)}
	both := manual.NewBuilderWithScheme("both")
	var state resolver.State
	for _, addr := range addrs {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	both.InitialState(state)
	for range callersConns {
		conn := testkit.Must(grpc.NewClient("both:///ratelimit", grpc.WithResolvers(both),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				c.dials.Add(1)
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			})))(t)
		t.Cleanup(func() { _ = conn.Close() })
		c.clients = append(c.clients, service.NewRateLimitServiceClient(conn))
	}
	return c
}

// callsAtOnce is how many calls a caller makes at the same time.
const callsAtOnce = 8

// call makes calls, and reports whether the store has decided them. Any other end than an answer, or the status of
// the failure mode, is an error.
func (c *callers) call(t *testing.T, n, i int) bool {
	var undecided atomic.Bool
	var all sync.WaitGroup
	for k := range callsAtOnce {
		all.Go(func() {
			value := (i*callsAtOnce + k) % c.values
			ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
			defer cancel()
			answer, err := c.clients[n%callersConns].ShouldRateLimit(ctx, &service.RateLimitRequest{Domain: "shop",
				Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{
					{Key: "user", Value: strconv.Itoa(value)}}}}})
			switch {
			case err == nil && answer.OverallCode == service.RateLimitResponse_OK && len(answer.Statuses) == 1:
				c.admitted[value].Add(1)
			case err == nil && answer.OverallCode == service.RateLimitResponse_OVER_LIMIT:
				c.over[value].Add(1)
			case status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "the rate limiter's store "):
				c.no[value].Add(1)
				undecided.Store(true)
			default:
				t.Errorf("a call has ended with %v, %v", answer, err)
			}
		})
	}
	all.Wait()
	return !undecided.Load()
}

// sum is what was counted for all values.
func sum(counts []atomic.Int64) (n int64) {
	for i := range counts {
		n += counts[i].Load()
	}
	return n
}

// away waits until calls are answered that the store is away.
func (c *callers) away() {
	since := sum(c.no)
	testkit.Eventually(c.t, "the store is away", func() bool { return c.t.Failed() || sum(c.no) > since+100 })
}

// No call is lost, while connections reach their maximum age all the time, while Redis is killed and started again,
// and frozen, when a successor takes the ports over, and when one of two proxies ends. What Redis has charged, it has
// charged once: no more calls are admitted than the limits allow.
func TestNoCallIsLost(t *testing.T) {
	calls, _ := strconv.Atoi(os.Getenv(ratelimitCalls))
	calls = max(calls, 20_000)
	const values = 8
	limit, phase := calls*3/4/values, int64(calls/5/callsAtOnce) // of a value; how many turns of a caller
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	root := t.TempDir()
	testkit.WriteFile(t, filepath.Join(root, "shop.yaml"), fmt.Sprintf(
		"domain: shop\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: %d}}]\n", limit))
	env := []string{"RUNTIME_ROOT", root, "RUNTIME_APPDIRECTORY", ".", "REDIS_SOCKET_TYPE", "tcp", "REDIS_URL",
		redis.Addr(), "GRPC_MAX_CONNECTION_AGE", "1ns", "TAKEOVER", "true", "LOG_LEVEL", "WARN"}
	cmd, http, first, debug := asRatelimit(t, env...)
	one := testkit.StartAt(t, cmd, "127.0.0.1:"+debug)
	ports := []string{"PORT", http, "GRPC_PORT", first, "DEBUG_PORT", debug}
	cmd, _, second, debug := asRatelimit(t, env...)
	two := testkit.StartAt(t, cmd, "127.0.0.1:"+debug)
	for _, port := range []string{first, second} {
		one.At(port).Await("GET /healthcheck", 200, "OK") // the debug port is open earlier
	}
	c := newCallers(t, values, "127.0.0.1:"+first, "127.0.0.1:"+second)
	c.load = startLoad(t, func(n, i int) bool { return c.call(t, n, i) })
	c.more(phase)
	redis.Kill()
	c.away()
	redis.Start()
	c.more(phase)
	redis.Signal(syscall.SIGSTOP)
	c.away()
	redis.Signal(syscall.SIGCONT)
	c.more(phase)
	cmd, _, _, _ = asRatelimit(t, slices.Concat(env, ports)...)
	testkit.Start(t, cmd)
	one.RequireExit(0)
	c.more(phase)
	two.Terminate()
	c.more(phase)
	c.stop()
	t.Logf("%d admitted, %d over the limit, %d without the store, over %d connections", sum(c.admitted), sum(c.over),
		sum(c.no), c.dials.Load())
	for v := range values {
		admitted, over, no := c.admitted[v].Load(), c.over[v].Load(), c.no[v].Load()
		if admitted > int64(limit) || over == 0 || admitted+no < int64(limit) {
			t.Errorf("user %d: %d admitted, want %d; %d over the limit, %d without the store", v, admitted, limit, over, no)
		}
	}
	if c.dials.Load() < int64(calls/100) {
		t.Errorf("%d connections, want one per hundred calls at least", c.dials.Load())
	}
}
