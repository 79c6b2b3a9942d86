package exchange

import (
	"net/netip"
	"time"

	"weir/internal/net/http1"
)

// An Abandoned is what is left of an exchange whose client has disconnected after the whole request
// was sent.
//
// A target goes on working on a request after its client has disconnected. So the connection to the
// target, and the place that the request has there, remain taken until the answer has come; then the
// connection may be reusable.
//
// Only answers that would be collected are read to their end. One that would be streamed may never
// end; if it is not complete with its head, the connection is to be closed, which the target notices
// when it writes.
//
// Owned by its loop.
type Abandoned struct {
	Method   http1.Method
	Client   netip.Addr   // of the client that has disconnected
	Sent     time.Time    // when all of the request had been sent
	By       time.Time    // until when the answer is awaited
	Status   int          // of the answer; 0: its head has not been received
	Reader   http1.Reader // of the answer
	Reusable bool         // the connection can be used again after the answer
	SizeMax  int64        // of bodies that are read to their end

	long bool // the body is larger, or of unknown length
}

// An AbandonedEnd says how the answer has ended, and what to do with the connection.
type AbandonedEnd uint8

const (
	AbandonedNone  AbandonedEnd = iota // it has not ended
	AbandonedKeep                      // the connection can be used again
	AbandonedClose                     // it cannot
)

// HandleUpstream handles bytes of the answer. It returns how many it has consumed. h is memory for
// a head.
func (x *Abandoned) HandleUpstream(b []byte, h *http1.Head) (n int, end AbandonedEnd) {
	for {
		ev, err := x.Reader.Next(b[n:], h)
		if err != nil {
			return n, AbandonedClose
		}
		n += ev.N
		switch {
		case ev.Kind == http1.HeadDone:
			x.handleHead(h)
		case ev.Kind == http1.NeedMore && !x.long:
			return n, AbandonedNone
		case ev.Kind == http1.End && x.Reusable && n == len(b):
			return n, AbandonedKeep
		case ev.Kind != http1.Data:
			return n, AbandonedClose
		}
	}
}

// handleHead handles the head of an answer, which may be an interim one.
func (x *Abandoned) handleHead(h *http1.Head) {
	if h.Status < 200 {
		return
	}
	x.Status, x.long = h.Status, h.Size() > x.SizeMax
	x.Reusable = x.Reusable && h.KeepAlive
	for i := range h.Fields {
		x.Reusable = x.Reusable && !http1.OffersLogin(&h.Fields[i])
	}
}
