// Package record turns the outcomes of requests into counts, histograms and finally a
// result with a verdict.
//
// Four instants of a request matter: when it was due, when it was started, when it was
// done, and when the generator could have started it at the earliest. Four durations
// follow, which are recorded separately:
//
//	latency       done − due    what a user would have felt: it counts from the
//	                            moment when the request should have left, so
//	                            that a stalled target cannot hide the requests
//	                            it kept from being sent (coordinated omission)
//	service time  done − start  what the target took, seen from here
//	lag           start − due   how late the request left
//	pacer lag                   the part of the lag for which the generator is
//	                            to blame: it was late while connections were idle
//	busy lag, dial lag          the rest: waiting for a connection that was busy,
//	                            or for one that was being opened
//
// Every request that was due ends in exactly one outcome, or is counted as
// abandoned or unsent when a run is cut short. Nothing is left out.
//
// A run with too much lag is invalid. Histograms are part of the result, so results of several
// generators merge exactly.
package record

import (
	"strconv"
	"time"
)

// A Class is the coarse kind of an outcome, as in the metrics' label status.
type Class uint8

const (
	Success     Class = iota // a status below 400
	RateLimited              // 429
	Shed                     // 503 of a gate, which says so
	Failed                   // other statuses from 400 up, or no answer

	Classes = iota // their number
)

func (c Class) String() string {
	return [...]string{"success", "rate_limited", "shed", "error"}[c]
}

// A Reason says why an outcome is an error, as in the metrics' label reason.
type Reason uint8

const (
	NoError Reason = iota // of an outcome that is none
	HTTP4xx               // other than 429
	HTTP5xx
	ConnectRefused // by the target's host
	ConnectTimeout // no connection within the timeout of a request
	ConnectFailed  // for another reason, which the log names, such as too few ports or descriptors
	TLSFailed      // connected, but the handshake failed; the log says why
	Reset          // the connection or the stream, before the answer was complete
	Timeout        // no complete answer within the timeout
	BadResponse    // not HTTP, or to a gRPC call without its status
	Closed         // by the target, before the answer was complete
	QueueFull      // never sent, as it waited too long for a free connection
	HeadTooLarge   // never sent, as its head has more than the target accepts by HTTP/2

	Reasons = iota // their number
)

// String returns the reason as in metrics and results.
func (r Reason) String() string {
	return [Reasons]string{
		"", "http_4xx", "http_5xx", "connect_refused", "connect_timeout", "connect_failed", "tls_failed",
		"reset", "timeout", "bad_response", "closed", "queue_full", "head_too_large",
	}[r]
}

// Words returns the reason as spelled in the log.
func (r Reason) Words() string {
	return [Reasons]string{
		"", "HTTP status 4xx", "HTTP status 5xx", "connection refused", "connect timeout", "connect failed",
		"TLS handshake failed",
		"connection reset", "timeout", "bad response", "connection closed", "queue full", "request head too large",
	}[r]
}

// StatusMax is the greatest status that an answer can have.
const StatusMax = 599

// An Outcome is the outcome of one request.
type Outcome struct {
	Status int    // of the answer; 0 without one
	Gate   bool   // the answer says that a gate gave it, because the target is overloaded
	Reason Reason // why there is no answer; NoError when there is one
	Due    time.Time
	Start  time.Time // zero if it was never sent
	Done   time.Time // when the answer was complete, or the request failed
}

// Class returns the class of the outcome.
func (o *Outcome) Class() Class {
	switch {
	case o.Reason != NoError:
		return Failed
	case o.Status < 400:
		return Success
	case o.Status == 429:
		return RateLimited
	case o.Status == 503 && o.Gate:
		return Shed
	}
	return Failed
}

// Cause returns the reason that the outcome is counted under.
func (o *Outcome) Cause() Reason {
	switch {
	case o.Class() != Failed || o.Reason != NoError:
		return o.Reason
	case o.Status < 500:
		return HTTP4xx
	}
	return HTTP5xx
}

// OutcomesHeader is the first line of a file of outcomes: the names of its fields. Instants are
// in microseconds after the start of the schedule. The start is empty for a request that
// was never sent, the status is 0 for one without an answer. The reason of one that a gate
// shed is that of its class.
const OutcomesHeader = "due_us,start_us,done_us,status,reason\n"

// AppendLine appends the outcome as a line of such a file; start is that of the
// schedule.
func (o *Outcome) AppendLine(dst []byte, start time.Time) []byte {
	dst = append(strconv.AppendInt(dst, o.Due.Sub(start).Microseconds(), 10), ',')
	if !o.Start.IsZero() {
		dst = strconv.AppendInt(dst, o.Start.Sub(start).Microseconds(), 10)
	}
	dst = append(strconv.AppendInt(append(dst, ','), o.Done.Sub(start).Microseconds(), 10), ',')
	dst = append(strconv.AppendInt(dst, int64(o.Status), 10), ',')
	reason := o.Cause().String()
	if class := o.Class(); class == Shed {
		reason = class.String()
	}
	return append(append(dst, reason...), '\n')
}
