package exchange

import "fmt"

// A step is a row of a table of states: one possible transition.
// docs/design/008-exchanges-and-carriers.md shows the tables.
type step[S ~uint8] struct {
	from S
	when string
	to   S
}

// follow returns for each state the set of states that may follow it, as bits.
func follow[S ~uint8](steps []step[S]) (next [16]uint16) {
	for _, s := range steps {
		next[s.from] |= 1 << s.to
	}
	return next
}

// bug panics: what goes from one state to another that may not follow.
func bug(what string, from, to fmt.Stringer) {
	panic("bug: " + what + " goes from " + from.String() + " to " + to.String())
}

// A request is the state of the request of an exchange.
type request uint8

const (
	requestNone       request = iota // its head has not been received
	requestAsked                     // the limiter has been asked about it
	requestQueued                    // it is admitted, and waits for its slot
	requestLooking                   // it is admitted, and the queue is asked whether it is stored already
	requestRefused                   // it is answered without reading its body
	requestCollecting                // it is admitted, and its body is collected
	requestStreaming                 // its body is passed on as it arrives
	requestDeferring                 // it will be delivered later, and its body is collected
	requestWhole                     // all of it has been received
	requestWithheld                  // likewise, and its last piece is passed on when the target has a place
	requestStoring                   // likewise, and it is being stored
	requestLeft                      // likewise, and its client has disconnected
)

var requestSteps = []step[request]{
	{requestNone, "the limiter is asked", requestAsked},
	{requestNone, "no limit applies to it", requestCollecting},
	{requestNone, "it is answered here, or lacks a part of a rule's key", requestRefused},
	{requestAsked, "it is admitted", requestCollecting},
	{requestAsked, "it is admitted for a later slot", requestQueued},
	{requestAsked, "it is refused", requestRefused},
	{requestAsked, "it is refused, and will be delivered later", requestDeferring},
	{requestAsked, "it is admitted, and may be stored already", requestLooking},
	{requestQueued, "its slot has come", requestCollecting},
	{requestQueued, "its slot has come, and it may be stored already", requestLooking},
	{requestLooking, "it is not stored", requestCollecting},
	{requestLooking, "it is stored already", requestDeferring},
	{requestCollecting, "all of it has been received", requestWhole},
	{requestCollecting, "it is too large to be collected, or pauses", requestStreaming},
	{requestStreaming, "all of it has been received", requestWithheld},
	{requestWithheld, "the target has a place, or answers already", requestWhole},
	{requestDeferring, "all of it has been received", requestStoring},
	{requestStoring, "its client disconnects", requestLeft},
	{requestDeferring, "it is too large to be stored, or its Idempotency-Key is invalid", requestRefused},
}

var requestNext = follow(requestSteps)

// become changes the state.
func (r *request) become(to request) {
	if requestNext[*r]>>to&1 == 0 {
		bug("a request", *r, to)
	}
	*r = to
}

// String names the state.
func (r request) String() string {
	return [...]string{"none", "asked", "queued", "looking", "refused", "collecting", "streaming", "deferring",
		"whole", "withheld", "storing", "left"}[r]
}

// An upstream is the state of the upstream connection of an exchange.
type upstream uint8

const (
	upstreamNone   upstream = iota // there is none
	upstreamWanted                 // the exchange waits for one
	upstreamHeld                   // the exchange holds one
	upstreamReused                 // likewise, and it has served other exchanges
)

var upstreamSteps = []step[upstream]{
	{upstreamNone, "the request is forwarded", upstreamWanted},
	{upstreamWanted, "the chosen target has none", upstreamWanted},
	{upstreamWanted, "a new one is available, or the private one", upstreamHeld},
	{upstreamWanted, "an idle one is available", upstreamReused},
	{upstreamHeld, "it is released or lost", upstreamNone},
	{upstreamReused, "it is released or lost", upstreamNone},
}

var upstreamNext = follow(upstreamSteps)

// become changes the state.
func (u *upstream) become(to upstream) {
	if upstreamNext[*u]>>to&1 == 0 {
		bug("an upstream connection", *u, to)
	}
	*u = to
}

// held reports whether the exchange holds a connection.
func (u upstream) held() bool { return u >= upstreamHeld }

// String names the state.
func (u upstream) String() string { return [...]string{"none", "wanted", "held", "reused"}[u] }

// An answer is the state of the answer of an exchange.
type answer uint8

const (
	answerWaiting    answer = iota // nothing has been received
	answerHead                     // part of its head has been received
	answerCollecting               // its head has been received, its body is collected
	answerRelaying                 // its head has been passed on, its body is passed on as it arrives
	answerDone                     // it is written, or was aborted
)

var answerSteps = []step[answer]{
	{answerWaiting, "the proxy answers itself", answerDone},
	{answerWaiting, "its first byte has been received", answerHead},
	{answerHead, "its head has been received", answerCollecting},
	{answerHead, "it is invalid, or the protocol is switched", answerDone},
	{answerCollecting, "it is large, of unknown length, or slow", answerRelaying},
	{answerCollecting, "it is complete or aborted", answerDone},
	{answerRelaying, "it is complete or aborted", answerDone},
}

var answerNext = follow(answerSteps)

// become changes the state.
func (a *answer) become(to answer) {
	if answerNext[*a]>>to&1 == 0 {
		bug("an answer", *a, to)
	}
	*a = to
}

// String names the state.
func (a answer) String() string {
	return [...]string{"waiting", "head", "collecting", "relaying", "done"}[a]
}
