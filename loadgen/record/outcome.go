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
package record

import (
	"strconv"
	"time"
)

// A Class is the coarse kind of an outcome, as in the metrics' label status.
type Class uint8

const (
	// Success is an answer with a status below 400.
	Success Class = iota
	// RateLimited is the answer 429.
	RateLimited
	// Failed is everything else: other statuses from 400 up, or no answer.
	Failed

	// Classes is the number of classes.
	Classes = 3
)

func (c Class) String() string {
	return [...]string{"success", "rate_limited", "error"}[c]
}

// A Reason says why an outcome is an error, as in the metrics' label reason.
type Reason uint8

const (
	// NoError is the reason of an outcome that is none.
	NoError Reason = iota
	// HTTP4xx and HTTP5xx are answers with an error status (429 is none).
	HTTP4xx
	HTTP5xx
	// ConnectRefused: the target's host refused the connection.
	ConnectRefused
	// ConnectTimeout: no connection within the timeout of a request.
	ConnectTimeout
	// ConnectFailed: no connection for another reason, which the log names;
	// ports or descriptors of this machine that are used up, for example.
	ConnectFailed
	// TLSFailed: connected, but the TLS handshake failed; the log says why.
	TLSFailed
	// Reset: the connection was reset before the answer was complete.
	Reset
	// Timeout: no complete answer within the timeout.
	Timeout
	// BadResponse: the answer is not HTTP/1.1.
	BadResponse
	// Closed: the target closed the connection before the answer was complete.
	Closed
	// QueueFull: the request waited too long for a free connection and was
	// never sent.
	QueueFull

	// Reasons is the number of reasons.
	Reasons = iota
)

// String returns the reason as spelled in metrics and results.
func (r Reason) String() string {
	return [Reasons]string{
		"", "http_4xx", "http_5xx", "connect_refused", "connect_timeout", "connect_failed", "tls_failed",
		"reset", "timeout", "bad_response", "closed", "queue_full",
	}[r]
}

// Words returns the reason as spelled in the log.
func (r Reason) Words() string {
	return [Reasons]string{
		"", "HTTP status 4xx", "HTTP status 5xx", "connection refused", "connect timeout", "connect failed", "TLS handshake failed",
		"connection reset", "timeout", "bad response", "connection closed", "queue full",
	}[r]
}

// StatusMax is the greatest status that an answer can have.
const StatusMax = 599

// An Outcome is the outcome of one request.
type Outcome struct {
	Status int    // of the answer; 0 without one
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

// LineHead is the first line of a file of outcomes: the names of its fields. Instants are
// in microseconds after the start of the schedule. The start is empty for a request that
// was never sent, the status is 0 for one without an answer.
const LineHead = "due_us,start_us,done_us,status,reason\n"

// AppendLine appends the outcome as a line of such a file; start is that of the
// schedule.
func (o *Outcome) AppendLine(dst []byte, start time.Time) []byte {
	dst = append(strconv.AppendInt(dst, o.Due.Sub(start).Microseconds(), 10), ',')
	if !o.Start.IsZero() {
		dst = strconv.AppendInt(dst, o.Start.Sub(start).Microseconds(), 10)
	}
	dst = append(strconv.AppendInt(append(dst, ','), o.Done.Sub(start).Microseconds(), 10), ',')
	dst = append(strconv.AppendInt(dst, int64(o.Status), 10), ',')
	return append(append(dst, o.Cause().String()...), '\n')
}
