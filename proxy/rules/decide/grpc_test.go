package decide

import (
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/limit"
)

func TestCallType(t *testing.T) {
	long := "application/grpc+" + strings.Repeat("x", callTypeMax-len("application/grpc+"))
	for kind, want := range map[string]string{"application/grpc": "application/grpc",
		"application/grpc+proto": "application/grpc+proto", "application/grpc+json; a=b": "application/grpc+json",
		"application/grpc ;a=b": "application/grpc", "Application/GRPC;a=b": "application/grpc",
		long: long, long + "x": "application/grpc",
		"application/grpc-web": "", "application/grpcs": "", "application/json": "", "": "", "application/grp": ""} {
		if got := GRPCContentType([]byte(kind)); got != want {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
}

func TestGRPCTimeout(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for value, want := range map[string]time.Duration{"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second,
		"40m": 40 * time.Millisecond, "5u": 5 * time.Microsecond, "006n": 6, "99999999H": year, "99999999n": 99999999,
		"": 0, "1": 0, "S": 0, "0S": 0, "1s": 0, "-1S": 0, "+1S": 0, "1.5S": 0, "100000000n": 0, "1 S": 0, "1SS": 0} {
		if got, ok := GRPCTimeout([]byte(value)); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %v, %t; want %v", value, got, ok, want)
		}
	}
}

// Answers in the form of gRPC have status and fields in the head.
func TestEndCall(t *testing.T) {
	a := Responder{Style: new(RefusalStyle)}
	for _, test := range []struct {
		failure Failure
		want    string
	}{
		{Failure{Status: 503, Reason: "no"}, "14\r\nGrpc-Message: no\r\n"},
		{Failure{Status: 503, Reason: "no", RetryAfter: 1500 * time.Microsecond},
			"14\r\nGrpc-Message: no\r\nGrpc-Retry-Pushback-Ms: 2\r\n"},
		{Failure{Status: 429, Reason: "no", RetryAfter: limit.Never},
			"14\r\nGrpc-Message: no\r\nGrpc-Retry-Pushback-Ms: -1\r\n"},
		{Failure{Status: 504, Reason: "100 % ü\n"}, "4\r\nGrpc-Message: 100 %25 %C3%BC%0A\r\n"},
		{Failure{Status: 502}, "14\r\nGrpc-Message: \r\n"}, {Failure{Status: 400}, "13\r\nGrpc-Message: \r\n"},
		{Failure{Status: 401}, "16\r\nGrpc-Message: \r\n"}, {Failure{Status: 403}, "7\r\nGrpc-Message: \r\n"},
		{Failure{Status: 404}, "12\r\nGrpc-Message: \r\n"}, {Failure{Status: 413}, "8\r\nGrpc-Message: \r\n"},
		{Failure{Status: 508}, "2\r\nGrpc-Message: \r\n"},
	} {
		a.Extra = a.Extra[:0]
		a.Fail(&test.failure, nil, 0, &ResponseOptions{})
		got := a.EndCall(http1.LocalResponse{Status: test.failure.Status, Body: []byte("{}")}, "application/grpc+x")
		if got.Status != 200 || got.ContentType != "application/grpc+x" || len(got.Body) > 0 ||
			string(got.Extra) != "Grpc-Status: "+test.want {
			t.Errorf("%+v: %d %s %q %q", test.failure, got.Status, got.ContentType, got.Extra, got.Body)
		}
	}
}
