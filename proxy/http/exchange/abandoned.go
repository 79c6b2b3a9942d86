package exchange

import (
	"net/netip"
	"time"

	"weir/internal/net/http1"
)

// An AbandonedExchange is what is left of an exchange whose client has disconnected after the whole request
// was sent.
//
// A target continues to work on a request after its client has disconnected. So the connection to
// the target, and the place that the request has there, remain taken until the answer has come;
// then the connection may be reusable.
//
// Only answers that would be collected are read to their end. One that would be streamed may never
// end; if it is not complete with its head, the connection is to be closed, which the target notices
// when it writes.
//
// Owned by its loop.
type AbandonedExchange struct {
	Method   http1.Method
	Client   netip.Addr // of the client that has disconnected
	Sent     time.Time  // when all of the request had been sent; zero: it has not been
	By       time.Time  // until when the answer is awaited; zero if not all of the request had been sent
	Status   int        // of the answer; 0: its head has not been received
	Reusable bool       // the connection can be used again after the answer
	SizeMax  int64      // of bodies that are read to their end
	Long     bool       // the body is larger, or of unknown length
}

// HandleResponseHead handles the head of an answer, which may be an interim one.
func (x *AbandonedExchange) HandleResponseHead(h *http1.Head) {
	if h.Status < 200 {
		return
	}
	x.Status, x.Long = h.Status, h.Size() > x.SizeMax
	x.Reusable = x.Reusable && h.KeepAlive
	for i := range h.Fields {
		x.Reusable = x.Reusable && !http1.IsConnectionAuth(&h.Fields[i])
	}
}
