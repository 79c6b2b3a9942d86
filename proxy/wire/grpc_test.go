package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

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
