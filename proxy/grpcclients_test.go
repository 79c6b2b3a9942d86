package main

import (
	"context"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/test/testkit"
)

// pythonCalls calls methods of the server at its argument with the bytes of a StringValue, and prints the results.
const pythonCalls = `
import grpc, sys
channel = grpc.insecure_channel(sys.argv[1])
message = bytes([10, 5]) + b"hello"
for method, timeout in ("Echo", 60), ("Limited", 60), ("Limited", 60), ("Held", 0.2):
    try:
        answer, call = channel.unary_unary("/test.Calls/" + method).with_call(message, timeout=timeout)
        print(method, answer == message, call.code().name, dict(call.trailing_metadata())["messages"])
    except grpc.RpcError as e:
        print(method, e.code().name, e.details())
`

// The client of gRPC in C, as Python uses it, gets answers with their trailing metadata; a call that a limit refuses is
// RESOURCE_EXHAUSTED, and one whose deadline passes is cancelled at the target too.
func TestPythonGRPC(t *testing.T) {
	const python = "/usr/bin/python3" // of Debian, which has its packages
	if err := exec.Command(python, "-c", "import grpc").Run(); err != nil {
		testkit.SkipIfMissing(t, &exec.Error{Name: "python3-grpcio", Err: exec.ErrNotFound})
	}
	cancelled := make(chan error, 1)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var m wrapperspb.StringValue
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
		if method, _ := grpc.MethodFromServerStream(s); strings.HasSuffix(method, "/Held") {
			<-s.Context().Done()
			cancelled <- s.Context().Err()
			return s.Context().Err()
		}
		s.SetTrailer(metadata.Pairs("messages", "1"))
		return s.SendMsg(&m)
	}))
	t.Cleanup(server.Stop)
	ln := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.Serve(ln) }()
	p := launch(t, slices.Concat(limited(10_000), []string{"HTTP2", "all", "TARGET_URL", "h2c://" + ln.Addr().String(),
		"RULES_FILE", ruleFile(t, `rules:
  - {id: limited, match: {path: /test.Calls/Limited}, limit: {algorithm: fixed, limit: 1, window: C}}`)}))
	out, _ := testkit.RequireExit(t, exec.Command(python, "-c", pythonCalls, p.Addr), 0)
	const want = `Echo True OK 1
Limited True OK 1
Limited RESOURCE_EXHAUSTED rate limit exceeded
Held DEADLINE_EXCEEDED `
	if !strings.HasPrefix(out, want) {
		t.Errorf("the calls print\n%swant\n%s", out, want)
	}
	if err := testkit.Receive(t, cancelled, "the end of the call at the target"); err != context.Canceled &&
		err != context.DeadlineExceeded {
		t.Errorf("the call ends at the target with %v", err)
	}
}
