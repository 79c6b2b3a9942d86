package exchange

// A request is the state of the request of an exchange.
type request uint8

const (
	requestNone       request = iota // its head has not been received
	requestAsked                     // the limiter has been asked about it
	requestQueued                    // it is admitted, and waits for its slot
	requestRefused                   // it is answered without reading its body
	requestCollecting                // it is admitted, and its body is collected
	requestStreaming                 // its body is passed on as it arrives
	requestDeferring                 // it will be delivered later, and its body is collected
	requestWhole                     // all of it has been received
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
	{requestQueued, "its slot has come", requestCollecting},
	{requestCollecting, "all of it has been received", requestWhole},
	{requestCollecting, "it is too large to be collected", requestStreaming},
	{requestStreaming, "all of it has been received", requestWhole},
	{requestDeferring, "all of it has been received", requestStoring},
	{requestStoring, "its client disconnects", requestLeft},
	{requestDeferring, "it is too large to be stored, or its Idempotency-Key is invalid", requestRefused},
}

var requestNext = follow(requestSteps)

// become changes the state.
func (r *request) become(to request) {
	if requestNext[*r]>>to&1 == 0 {
		panic("bug: a request goes from " + r.String() + " to " + to.String())
	}
	*r = to
}

// String names the state.
func (r request) String() string {
	return [...]string{"none", "asked", "queued", "refused", "collecting", "streaming", "deferring", "whole", "storing", "left"}[r]
}
