package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/internal/test/testkit"
)

// textCodec is a codec of messages that are strings.
type textCodec struct{}

func (textCodec) Marshal(v any) ([]byte, error)   { return []byte(*v.(*string)), nil }
func (textCodec) Unmarshal(b []byte, v any) error { *v.(*string) = string(b); return nil }
func (textCodec) Name() string                    { return "plain" }

// calls is the service of the tests: every message is answered by itself. A call of Fail fails.
func calls(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	for n := 0; ; n++ {
		var m string
		switch err := s.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			s.SetTrailer(metadata.Pairs("messages", fmt.Sprint(n)))
			return nil
		case err != nil:
			return err
		case strings.HasSuffix(method, "/Fail"):
			return status.Error(codes.NotFound, "100 % of üs")
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

// startGRPC runs a proxy before a server of gRPC, which gets HTTP/1.1 in place of HTTP/2, and returns a client.
func startGRPC(t *testing.T, env ...string) (*rig, *grpc.ClientConn) {
	t.Helper()
	server := grpc.NewServer(grpc.ForceServerCodec(textCodec{}), grpc.UnknownServiceHandler(calls))
	t.Cleanup(server.Stop)
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		q.ProtoMajor = 2 // what it refuses is older
		server.ServeHTTP(w, q)
	}, env...)
	return r, r.grpcClient()
}

// grpcClient returns a client of gRPC.
func (r *rig) grpcClient() *grpc.ClientConn {
	r.t.Helper()
	c := testkit.Must(grpc.NewClient("passthrough:///"+r.Addr().String(), grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(textCodec{}))))(r.t)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// call is a call with one message and its answer.
func call(ctx context.Context, c *grpc.ClientConn, method, message string, opts ...grpc.CallOption) (string, error) {
	var answer string
	err := c.Invoke(ctx, method, &message, &answer, opts...)
	return answer, err
}

// Calls with one message each way pass, with their status and metadata.
func TestGRPCUnary(t *testing.T) {
	t.Parallel()
	_, c := startGRPC(t)
	for _, size := range []int{0, 10, 70_000, 1 << 20} {
		var trailer metadata.MD
		message := strings.Repeat("m", size)
		got, err := call(t.Context(), c, "/test.Calls/Echo", message, grpc.Trailer(&trailer))
		if err != nil || got != message || fmt.Sprint(trailer["messages"]) != "[1]" {
			t.Errorf("a message of %d bytes: %v, answer of %d, trailer %v", size, err, len(got), trailer)
		}
	}
	if _, err := call(t.Context(), c, "/test.Calls/Fail", "m"); status.Code(err) != codes.NotFound ||
		status.Convert(err).Message() != "100 % of üs" {
		t.Errorf("a call that fails: %v", err)
	}
}

// A server of gRPC that is reached by HTTP/2 gets calls as they are.
func TestGRPCToHTTP2(t *testing.T) {
	t.Parallel()
	server := grpc.NewServer(grpc.ForceServerCodec(textCodec{}), grpc.UnknownServiceHandler(calls))
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, "h2c://"+l.Addr().String(), "HTTP2", "all")
	c := r.grpcClient()
	for _, size := range []int{0, 10, 200_000} {
		var trailer metadata.MD
		message := strings.Repeat("m", size)
		got, err := call(t.Context(), c, "/test.Calls/Echo", message, grpc.Trailer(&trailer))
		if err != nil || got != message || fmt.Sprint(trailer["messages"]) != "[1]" {
			t.Errorf("a message of %d bytes: %v, answer of %d, trailer %v", size, err, len(got), trailer)
		}
	}
}

// A stream goes both ways: each message is sent after the answer to the one before.
func TestGRPCStream(t *testing.T) {
	t.Parallel()
	_, c := startGRPC(t)
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	s := testkit.Must(c.NewStream(t.Context(), both, "/test.Calls/Echo"))(t)
	for i := range 100 {
		message, answer := strings.Repeat("m", i*i), ""
		if err := s.SendMsg(&message); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&answer); err != nil || answer != message {
			t.Fatalf("message %d: %v, answer of %d bytes", i, err, len(answer))
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var answer string
	if err := s.RecvMsg(&answer); !errors.Is(err, io.EOF) || fmt.Sprint(s.Trailer()["messages"]) != "[100]" {
		t.Errorf("the end: %v, trailer %v", err, s.Trailer())
	}
}

// refused makes a call that is refused by the proxy, and returns its status and the metadata of its end.
func refused(t *testing.T, c *grpc.ClientConn, ctx context.Context, method string) (*status.Status, metadata.MD) {
	t.Helper()
	var header, trailer metadata.MD
	_, err := call(ctx, c, method, "m", grpc.Header(&header), grpc.Trailer(&trailer))
	return status.Convert(err), metadata.Join(header, trailer)
}

// A refusal by a limit tells the client when to call again, and keeps its status in metrics.
func TestGRPCLimit(t *testing.T) {
	t.Parallel()
	r, c := startGRPC(t, "RATE_LIMIT_LIMIT", "1", "RATE_LIMIT_WINDOW", "60")
	if _, err := call(t.Context(), c, "/test.Calls/Echo", "m"); err != nil {
		t.Fatal(err)
	}
	got, md := refused(t, c, t.Context(), "/test.Calls/Echo")
	if got.Code() != codes.ResourceExhausted || got.Message() != "rate limit exceeded" {
		t.Errorf("refused with %v", got)
	}
	after := r.number(strings.Join(md["grpc-retry-pushback-ms"], ","))
	if after <= 0 || after > 60_000 || fmt.Sprint(md["x-ratelimit-remaining"]) != "[0]" ||
		len(md["x-weir-decision"]) != 1 || fmt.Sprint(md["content-type"]) != "[application/grpc+plain]" ||
		md["content-length"] != nil {
		t.Errorf("metadata %v", md)
	}
	r.play(`metrics responses.429=1 rejected=1`)
}

// What a rule matches of a call: its path and its metadata.
func TestGRPCRules(t *testing.T) {
	t.Parallel()
	r, c := startGRPC(t, "RULES_FILE", ruleFile(t, `rules:
  - id: echo
    match: {methods: [POST], path: /test.Calls/Echo, headers: {x-plan: free}}
    key: [header:x-tenant]
    limit: {algorithm: fixed, limit: 1, window: 3600}
  - {id: tenants, match: {path: /test.Calls/Own}, key: [header:x-tenant], missing: refuse, limit: {algorithm: off}}`))
	for _, test := range []struct {
		method, plan, tenant string
		code                 codes.Code
	}{
		{"Echo", "free", "a", codes.OK}, {"Echo", "free", "a", codes.ResourceExhausted}, {"Echo", "free", "b", codes.OK},
		{"Echo", "paid", "a", codes.OK}, {"Other", "free", "a", codes.OK}, {"Echo", "free", "b", codes.ResourceExhausted},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-plan", test.plan, "x-tenant", test.tenant)
		if got, _ := refused(t, c, ctx, "/test.Calls/"+test.method); got.Code() != test.code {
			t.Errorf("%+v: %v", test, got)
		}
	}
	if got, _ := refused(t, c, t.Context(), "/test.Calls/Own"); got.Code() != codes.Internal ||
		got.Message() != "the request lacks header:x-tenant, which rule tenants needs" {
		t.Errorf("without a part of a key: %v", got)
	}
	r.play(`metrics echo.rejected=2 echo.forwarded=2`)
}

// Failures of the proxy have statuses of gRPC too.
func TestGRPCFailures(t *testing.T) {
	t.Parallel()
	down := testkit.FreeAddr(t)
	r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, "http://"+down, "HTTP2", "all")
	if got, md := refused(t, r.grpcClient(), t.Context(), "/test.Calls/Echo"); got.Code() != codes.Unavailable ||
		got.Message() != "the target refuses connections" || md["grpc-retry-pushback-ms"] != nil {
		t.Errorf("without a target: %v, %v", got, md)
	}
	r = startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, newTarget(t, holds).url(),
		"HTTP2", "all", "TARGET_TIMEOUT", "50ms")
	if got, _ := refused(t, r.grpcClient(), t.Context(), "/held/Echo"); got.Code() != codes.DeadlineExceeded ||
		got.Message() != "the target did not answer in time" {
		t.Errorf("a target that does not answer: %v", got)
	}
}

// Grpc-Timeout bounds the wait at the proxy, for a target and for a turn in a queue. The target is not to
// blame, and goes on working.
func TestGRPCTimeout(t *testing.T) {
	t.Parallel()
	const ended = ` -> 200 Grpc-Status=4 Grpc-Message="the time that the client waits has passed" Content-Length=0 ` +
		`Content-Type=application/grpc =""`
	const called = `c POST /held Content-Type=application/grpc Grpc-Timeout=50m body=m`
	t.Run("target", func(t *testing.T) {
		serve(t, holds, "EVENT_LOOPS", "1").play(called + ` + ` + ended + `
			target gets /held; until upstream_abandoned=1; metrics responses.504=1 errors.timeout=0
			target answers; until upstream_abandoned=0; c GET / -> 200; target opened 1`)
	})
	t.Run("queue", func(t *testing.T) {
		serve(t, holds, "RATE_LIMIT_ALGORITHM", "leaky", "RATE_LIMIT_CAPACITY", "10", "RATE_LIMIT_FILL_RATE", "0.001").
			play(`GET / -> 200` + "\n" + called + ended + `
				target gets /; target gets nothing`)
	})
	t.Run("place", func(t *testing.T) {
		serve(t, holds, "TARGET_MAX_CONNECTIONS", "1", "EVENT_LOOPS", "1").play(`a GET /held; target gets /held` + "\n" + called + ended + `
			target answers all; a -> 200; target gets nothing`)
	})
	t.Run("invalid", func(t *testing.T) {
		serve(t, echoes).play(`POST / Content-Type=application/grpc Grpc-Timeout=50s body=m -> 200 echo Grpc-Status=`)
	})
}

// A call whose client has not ended its messages takes a place at the gate, because the target may work on those that
// came, and is a stream when its answer has begun. Other uploads need a place only for their last piece.
func TestGRPCStreamHasPlace(t *testing.T) {
	t.Parallel()
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(1)(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all")
	c := r.rawHTTP2(65535)
	first := c.request("POST", "/upload", false)
	upload := s.request()
	second := c.request("POST", "/call", false, "content-type", "application/grpc")
	call := s.request()
	if upload.path != "/upload" || call.path != "/call" {
		t.Fatalf("the target gets %s and %s", upload.path, call.path)
	}
	third := c.request("POST", "/waits", false, "content-type", "application/grpc")
	r.waiting(3)
	c.must(c.framer.WriteData(first, true, nil))
	r.waiting(4) // the upload twice
	call.answer("200", "", false)
	waits := s.request() // in the place of the call, before the end of the upload
	if waits.path != "/waits" {
		t.Fatalf("the target gets %s", waits.path)
	}
	waits.answer("200", "waited", true)
	c.must(c.framer.WriteData(third, true, nil))
	if status, n := c.response(third); status != "200" || n != len("waited") {
		t.Errorf("%s with %d bytes", status, n)
	}
	upload.answer("200", "", true)
	call.of.write(func(f *xnet.Framer) error { return f.WriteData(call.id, true, []byte("message")) })
	c.must(c.framer.WriteData(second, true, nil))
	if _, n := c.response(second); n != len("message") {
		t.Errorf("of the answer to the call %d bytes came", n)
	}
}

// The messages of a call may pause for longer than other bodies, if its answer begins only when they have ended: then
// it is a stream, has no place at the gate, and needs one again for its end.
func TestGRPCMessagesPause(t *testing.T) {
	t.Parallel() // for the time of the timeouts
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(1)(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all",
		"BODY_TIMEOUT", "100ms")
	c := r.rawHTTP2(65535)
	slow := c.request("POST", "/report", false, "content-type", "application/grpc")
	report := s.request()
	c.must(c.framer.WriteData(slow, false, []byte("message")))
	c.get("/other")
	other := s.request() // in the place of the call
	if report.path != "/report" || other.path != "/other" {
		t.Fatalf("the target gets %s and %s", report.path, other.path)
	}
	r.metrics("upstream_streams=1 responses.408=0")
	c.must(c.framer.WriteData(slow, false, []byte("another")))
	c.must(c.framer.WriteData(slow, true, nil))
	r.waiting(3)
	other.answer("200", "", true)
	r.until("the end of the call has a place", func() bool { return r.samples()["ratelimiter_upstream_streams"] == 0 })
	report.answer("200", "whole", true)
	if status, n := c.response(slow); status != "200" || n != len("whole") {
		t.Errorf("status %s with %d bytes, want 200 with %d", status, n, len("whole"))
	}
}

// The end of a call that has paused waits for a place. If the client cancels then, the target works on: the request
// keeps its share of streams as one that was abandoned.
func TestGRPCEndWaitsAndIsCancelled(t *testing.T) {
	t.Parallel() // for the time of the timeout
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(1)(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all",
		"BODY_TIMEOUT", "100ms", "TARGET_TIMEOUT", "1h")
	c := r.rawHTTP2(65535)
	slow := c.request("POST", "/report", false, "content-type", "application/grpc")
	s.request()
	c.get("/other")
	s.request() // in the place of the call
	r.metrics("upstream_streams=1")
	c.must(c.framer.WriteData(slow, true, nil))
	r.waiting(3)
	c.must(c.framer.WriteRSTStream(slow, xnet.ErrCodeCancel))
	r.until("the call is abandoned", func() bool {
		return len(r.differing([]string{"upstream_abandoned=1", "upstream_streams=1"})) == 0
	})
}

// A target that resets calls whose ends wait for a place has failed all the same.
func TestGRPCFailureWhileEndWaits(t *testing.T) {
	t.Parallel() // likewise
	const n = 8
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(1)(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all",
		"BODY_TIMEOUT", "100ms", "TARGET_TIMEOUT", "1h", "STREAM_TIMEOUT", "1m")
	c := r.rawHTTP2(65535)
	var ids []uint32
	var calls []*rawRequest
	for range n {
		ids = append(ids, c.request("POST", "/report", false, "content-type", "application/grpc"))
		calls = append(calls, s.request())
		r.until("the call is a stream", func() bool { return int(r.samples()["ratelimiter_upstream_streams"]) == len(ids) })
	}
	c.get("/other")
	s.request()
	for _, id := range ids {
		c.must(c.framer.WriteData(id, true, nil))
	}
	r.waiting(2*n + 1)
	for i, q := range calls {
		q.reset(xnet.ErrCodeInternal)
		c.response(ids[i])
	}
	r.until("the target is ejected", func() bool { return r.Targets.Status()[0].Ejections == 1 })
}

// Bodies that do not come are bounded all the same: those of calls after STREAM_TIMEOUT, of other requests after
// BODY_TIMEOUT, and calls beyond the share of streams are refused.
func TestGRPCMessagesDoNotCome(t *testing.T) {
	t.Parallel() // likewise
	s := newRawTarget(t)
	r := startWith(t, func(c *Config) { one(c); gated(1)(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all",
		"BODY_TIMEOUT", "50ms", "STREAM_TIMEOUT", "400ms", "TARGET_MAX_CONNECTIONS", "4", "TARGET_STREAM_SHARE", "0.5")
	c := r.rawHTTP2(65535)
	var calls []uint32
	for range 2 {
		calls = append(calls, c.request("POST", "/call", false, "content-type", "application/grpc"))
		s.request()
	}
	beyond := c.request("POST", "/call", false, "content-type", "application/grpc")
	if status, _ := c.response(beyond); status != "200" {
		t.Errorf("status %s, want 200 with that of gRPC", status)
	}
	r.metrics("responses.503=1")
	for _, id := range calls {
		if status, _ := c.response(id); status != "200" {
			t.Errorf("status %s, want 200 with that of gRPC", status)
		}
	}
	c = r.rawHTTP2(65535)
	if status, _ := c.response(c.request("POST", "/upload", false)); status != "408" {
		t.Errorf("status %s of another request, want 408", status)
	}
	r.metrics("responses.408=3")
}
