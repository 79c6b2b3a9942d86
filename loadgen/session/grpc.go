package session

import (
	"strconv"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/loadgen/record"
)

// grpcStatuses are the HTTP statuses that correspond to the status codes of gRPC, by google/rpc/code.proto.
var grpcStatuses = [...]int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}

// calledBy records the end of the answer to a gRPC call, whose grpc-status is in its trailers, or in its head h if
// that is all there is. It reports whether there is one.
func calledBy(o *record.Outcome, ev *http2.Event, h *http1.Head) (valid bool) {
	if ev.Kind == http2.Data {
		return false
	}
	text, _ := h.Field("Grpc-Status")
	code, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		return false
	}
	if o.Status = 500; code < uint64(len(grpcStatuses)) {
		o.Status = grpcStatuses[code]
	}
	o.Gate = o.Status == 503 && byGate(h)
	return true
}
