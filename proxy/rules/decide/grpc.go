package decide

import (
	"bytes"
	"strconv"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/limit"
)

// The statuses of gRPC that the proxy answers with.
const (
	grpcUnknown           = 2
	grpcDeadlineExceeded  = 4
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnimplemented     = 12
	grpcInternal          = 13
	grpcUnavailable       = 14
	grpcUnauthenticated   = 16
)

// GRPCStatus returns the status of gRPC for one of HTTP (gRPC, doc/http-grpc-status-mapping.md). Unlike there, 405,
// 408, 413, 431 and 504 have statuses of the same meaning.
func GRPCStatus(status int) int64 {
	switch status {
	case 400, 431:
		return grpcInternal
	case 401:
		return grpcUnauthenticated
	case 403:
		return grpcPermissionDenied
	case 404, 405:
		return grpcUnimplemented
	case 408, 504:
		return grpcDeadlineExceeded
	case 413:
		return grpcResourceExhausted
	case 429, 502, 503:
		return grpcUnavailable
	}
	return grpcUnknown
}

// callTypeMax bounds a Content-Type that is repeated in the answer. In place of a longer one it is application/grpc.
const callTypeMax = 64

// GRPCContentType returns the Content-Type of an answer to a call of gRPC over HTTP/2, which names the encoding of the
// messages, as the request does: clients take no other. It is empty if the request's is not that of such a call.
func GRPCContentType(contentType []byte) string {
	const kind = "application/grpc"
	m, n := len("application/"), len(kind) // application/ is compared last, because most types begin with it
	if len(contentType) < n || !http1.EqualFold(contentType[m:n], kind[m:]) ||
		!http1.EqualFold(contentType[:m], kind[:m]) ||
		len(contentType) > n && bytes.IndexByte([]byte("+; \t"), contentType[n]) < 0 {
		return ""
	}
	switch name, _, _ := bytes.Cut(contentType, []byte(";")); {
	case len(name) == n || len(name) > callTypeMax:
		return kind
	case string(name) == kind+"+proto":
		return kind + "+proto"
	default:
		return string(bytes.TrimRight(name, " \t"))
	}
}

// grpcUnits are the units of a Grpc-Timeout.
var grpcUnits = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}

// GRPCTimeout parses the value of a Grpc-Timeout field: how long the client waits for the end of the call,
// at most a year.
func GRPCTimeout(value []byte) (d time.Duration, ok bool) {
	const digitsMax, timeoutMax = 8, 365 * 24 * time.Hour
	n := len(value) - 1
	if n < 1 || n > digitsMax {
		return 0, false
	}
	unit := grpcUnits[value[n]]
	count, err := strconv.ParseUint(string(value[:n]), 10, 32)
	if err != nil || count == 0 || unit == 0 {
		return 0, false
	}
	return min(time.Duration(count), timeoutMax/unit) * unit, true
}

// A callEnd says how a call of gRPC ends by an answer.
type callEnd struct {
	status  int64
	message string
	after   time.Duration // when to call again; 0: unknown, limit.Never: never
}

// EndCall returns the answer that was written last in the form of gRPC, since clients of gRPC understand no other: it
// has no message, and its head has the status (Trailers-Only in gRPC, doc/PROTOCOL-HTTP2.md). callType is from
// GRPCContentType.
func (a *Responder) EndCall(answer http1.LocalResponse, callType string) http1.LocalResponse {
	end := &a.end
	dst := AppendGRPCStatus(answer.Extra, end.status, end.message)
	switch {
	case end.after == limit.Never:
		dst = http1.AppendFieldInt(dst, "Grpc-Retry-Pushback-Ms", -1)
	case end.after > 0:
		dst = http1.AppendFieldInt(dst, "Grpc-Retry-Pushback-Ms", int64((end.after-1)/time.Millisecond)+1)
	}
	return http1.LocalResponse{Status: 200, ContentType: callType, Extra: dst}
}

// AppendGRPCStatus appends the fields of the end of a call.
func AppendGRPCStatus(dst []byte, status int64, message string) []byte {
	dst = http1.AppendFieldInt(dst, "Grpc-Status", status)
	return append(appendPercent(append(dst, "Grpc-Message: "...), message), "\r\n"...)
}

// appendPercent appends a message in which all but printable ASCII characters are encoded, and the percent sign.
func appendPercent(dst []byte, message string) []byte {
	for i := range len(message) {
		if c := message[i]; c < ' ' || c > '~' || c == '%' {
			const digits = "0123456789ABCDEF"
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
