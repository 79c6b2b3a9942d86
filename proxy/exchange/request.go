package exchange

// A request is how far the request of an exchange has come.
type request uint8

const (
	requestNone       request = iota // its head has not come
	requestAsked                     // the limiter is asked about it
	requestQueued                    // it may pass when its slot has come
	requestRefused                   // it is answered unread
	requestCollecting                // it may pass, and its body is collected
	requestStreaming                 // its body is passed on as it comes
	requestDeferring                 // it is to be delivered later, and its body is collected
	requestWhole                     // all of it has come
	requestStoring                   // likewise, and it is being stored
)

var requestSteps = []step[request]{
	{requestNone, "the limiter is asked", requestAsked},
	{requestNone, "no limit applies to it", requestCollecting},
	{requestNone, "it goes no further, or lacks a part of a rule's key", requestRefused},
	{requestAsked, "it may pass", requestCollecting},
	{requestAsked, "it may pass later", requestQueued},
	{requestAsked, "it may not pass", requestRefused},
	{requestAsked, "it may not pass, and is to be delivered later", requestDeferring},
	{requestQueued, "its slot has come", requestCollecting},
	{requestCollecting, "all of it has come", requestWhole},
	{requestCollecting, "it is larger than what is collected", requestStreaming},
	{requestStreaming, "all of it has come", requestWhole},
	{requestDeferring, "all of it has come", requestStoring},
	{requestDeferring, "it is larger than what is stored, or its key is not proper", requestRefused},
}

var requestNext = follow(requestSteps)

// become goes on to the next state.
func (r *request) become(to request) {
	if requestNext[*r]>>to&1 == 0 {
		panic("bug: a request goes from " + r.String() + " to " + to.String())
	}
	*r = to
}

// String names the state.
func (r request) String() string {
	return [...]string{"none", "asked", "queued", "refused", "collecting", "streaming", "deferring", "whole", "storing"}[r]
}
