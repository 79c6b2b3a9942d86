package session

import (
	"time"

	"weir/internal/cycle"
	"weir/internal/http1"
)

// An Ask says whose answer a Session waits for.
type Ask uint8

const (
	AskNone    Ask = iota // nobody's
	AskService            // the simulated service's, by HandleAnswer
	AskOwn                // that of the own endpoints, by HandleReply; Raw is the request
)

// A Place is the part of the program that a request's path belongs to.
type Place uint8

const (
	Elsewhere Place = iota // nothing of ours: 404
	Service                // the simulated service, /api/test
	Own                    // own endpoints: model, metrics, health
)

// String is the value of the label uri.
func (p Place) String() string { return [...]string{"other", "/api/test", "own"}[p] }

// placeOf finds the place of a path. Paths are compared as sent: a client that escapes
// letters that need no escape asks for another resource here.
func placeOf(path []byte) Place {
	switch string(path) {
	case "/api/test":
		return Service
	case "/model", "/metrics":
		return Own
	}
	const actuator = "/actuator/"
	if len(path) > len(actuator) && string(path[:len(actuator)]) == actuator {
		return Own
	}
	return Elsewhere
}

// An Exchange is one request and its answer, to be counted.
type Exchange struct {
	// Took is the time from the first byte of the request to its answer. Both
	// ends are told the time of the loop's turn: what is answered in the turn
	// that brought it took none.
	Took   time.Duration
	Status int
	Method http1.Method
	Place  Place
}

// Shared is what the sessions of one loop have in common: the effects of the
// one that was called last, and memory that only one needs at a time.
// The effects gather until Reset. The zero value is ready.
//
// Owned by its loop.
type Shared struct {
	// Out is to be sent, in front of anything else that happens.
	Out []byte
	// Ask says what is to answer now.
	Ask Ask
	// Raw is with AskOwn one complete request, its body framed by
	// Content-Length. It is valid until the Session is called again.
	Raw []byte
	// Close says how to close the connection when Out is sent.
	Close cycle.Close
	// Answered are the exchanges completed by Out.
	Answered []Exchange

	head  http1.Head
	body  []byte // of the answer under construction
	extra []byte // fields of the answer under construction
	clock http1.Date
	ok    []byte // the whole answer to nearly every request, with the Date of clock
}

// outBytesKept is how much memory for Out stays for the next effects. It is
// more than the answers to a full read of pipelined requests.
const outBytesKept = 512 << 10

// Reset forgets the effects and keeps the memory. The rim calls it when
// it has done what they say.
func (sh *Shared) Reset() {
	sh.Out = sh.Out[:0]
	if cap(sh.Out) > outBytesKept {
		sh.Out = nil
	}
	sh.Ask, sh.Raw, sh.Close = AskNone, nil, cycle.CloseNone
	sh.Answered = sh.Answered[:0]
}

// okBody and okType are what the service answers when all is well.
const (
	okBody = "OK"
	okType = "text/plain"
)

// date returns the Date field line, and brings up to date the answer that has it.
func (sh *Shared) date(now time.Time) []byte {
	line, renewed := sh.clock.At(now)
	if renewed {
		sh.ok = http1.AppendAnswer(sh.ok[:0], http1.Answer{Status: 200, ContentType: okType, Body: []byte(okBody), Extra: line})
	}
	return line
}
