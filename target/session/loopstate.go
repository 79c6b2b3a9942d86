package session

import (
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// An Await is the answer that a Session waits for.
type Await uint8

const (
	AwaitNone    Await = iota // none
	AwaitService              // that of the simulated service, by HandleAnswer
	AwaitOwn                  // that of the own endpoints, by HandleReply; Raw is the request
)

// An Endpoint is the part of the program that a request's path belongs to.
type Endpoint uint8

const (
	UnknownEndpoint Endpoint = iota // unknown: 404
	Service                         // the simulated service, /api/test
	Own                             // own endpoints: model, metrics, health
	EchoUnary                       // the simulated service as a gRPC call with one message; only HTTP/2 has it
	EchoStream                      // the same with a stream of messages
)

// String returns the value of the label uri.
func (p Endpoint) String() string {
	return [...]string{"other", "/api/test", "own", pathUnary, pathStream}[p]
}

const (
	pathUnary  = "/weir.Echo/Unary"
	pathStream = "/weir.Echo/Stream"
)

// endpointOf returns the Endpoint of a path. Paths are compared as sent: one with needless escapes is
// another resource.
func endpointOf(path []byte) Endpoint {
	switch string(path) {
	case "/api/test":
		return Service
	case "/model", "/metrics":
		return Own
	case pathUnary:
		return EchoUnary
	case pathStream:
		return EchoStream
	}
	const actuator = "/actuator/"
	if len(path) > len(actuator) && string(path[:len(actuator)]) == actuator {
		return Own
	}
	return UnknownEndpoint
}

// begin returns what a head says about its request, or the status by which it is refused.
func begin(h *http1.Head) (method http1.Method, endpoint Endpoint, own *ownRequest, status int) {
	switch endpoint = endpointOf(h.Path); {
	case h.Expect == http1.ExpectOther:
		status = 417
	case endpoint == Own && h.Length > ownBodyMax:
		status = 413
	case endpoint == Own:
		own = newOwnRequest(h)
	}
	return h.Method, endpoint, own, status
}

// An Exchange is one request and its answer, to be counted.
type Exchange struct {
	// Took is the time from the first byte of the request to its answer. Both times are those of
	// the loop's turn, so a request that is answered in the turn in which it arrived took zero.
	Took     time.Duration
	Status   int
	Method   http1.Method
	Endpoint Endpoint
	HTTP2    bool // not HTTP/1.1
}

// A LoopState is shared by the sessions of one loop: the effects of the Session called last, and
// memory that only one Session needs at a time. Effects accumulate until Reset. The zero value is
// ready to use.
//
// Owned by its loop.
type LoopState struct {
	Out   []byte // must be sent before anything else is done
	Await Await  // the answer that is needed now
	// Raw is, with AwaitOwn, one complete request with a Content-Length. It is valid until the
	// Session is called again.
	Raw      []byte
	Close    cycle.Close // how to close the connection after Out was sent
	Answered []Exchange  // completed by Out

	// Asking are the streams of the HTTP2 that need answers, by HandleAnswer or HandleReply. Those that
	// need none any more have ended.
	Asking []*Stream
	Left   []*Stream // their answers are not needed any more

	head  http2.Head
	body  []byte // of the answer under construction
	extra []byte // fields of the answer under construction
	clock http1.Date
	ok    []byte // the complete answer to nearly all requests, with the Date of clock
}

// outBytesKept bounds the memory for Out that is kept. It is more than the answers to a full read
// of pipelined requests.
const outBytesKept = 512 << 10

// Reset clears the effects and keeps the memory. The rim calls it when it has applied them.
func (sh *LoopState) Reset() {
	sh.Out = sh.Out[:0]
	if cap(sh.Out) > outBytesKept {
		sh.Out = nil
	}
	sh.Await, sh.Raw, sh.Close = AwaitNone, nil, cycle.CloseNone
	sh.Answered = sh.Answered[:0]
	clear(sh.Asking) // release the streams
	clear(sh.Left)
	sh.Asking, sh.Left = sh.Asking[:0], sh.Left[:0]
}

// okBody and okType are the body and the type of a successful answer.
const (
	okBody = "OK"
	okType = "text/plain"
)

// date returns the Date field line, and updates ok if it has changed.
func (sh *LoopState) date(now time.Time) []byte {
	line, renewed := sh.clock.At(now)
	if renewed {
		sh.ok = http1.AppendLocalResponse(sh.ok[:0], http1.LocalResponse{Status: 200, ContentType: okType,
			Body:  []byte(okBody),
			Extra: line})
	}
	return line
}
