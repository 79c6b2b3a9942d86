package exchange

import (
	"net/netip"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
)

// Effects is what the carrier must do after a Handle call, in this order: count and note; write,
// release and close; acquire; and continue to read. Slices are borrowed until the next Handle
// call on any exchange of the same Env. Pointers are nil if there is nothing to do.
type Effects struct {
	// Claims is the number of request fields that were dropped because they make claims
	// about the origin and no trusted proxy sent them.
	Claims        int
	OriginsDiffer bool // see Differ of [decide.ForwardedInfo]
	// Received is a request whose head was read, unless it is for an own endpoint.
	Received *ReceivedRequest
	// Matched is a request and the rules that apply to it.
	Matched *decide.Evaluation
	// Decided is the store's decision.
	Decided *decide.CounterResults
	// Refund is what the request gives back.
	Refund *Refund
	// Store is a refused request to be stored: HandleDeferred follows.
	Store *DeferredRequest
	// LookUp is an admitted request to be looked up in the queue, without its body: HandleLookUp
	// follows.
	LookUp *DeferredRequest
	// Report is the outcome of a request that was answered, or given up after a decision.
	Report *Outcome
	// Interim are interim responses (RFC 9110 section 15.2). Response is the head of the final one, or
	// that of a switch of protocols, and Body a piece of its body: the last one if it is Complete, which
	// Trailers may follow, a list of field lines.
	Interim  []Response
	Response *Response
	Body     []byte
	Trailers []byte
	Complete bool
	// Forward is the request to be sent on the upstream connection held, with what has been received of
	// its body. Upload is a further piece of that, and Uploaded says that its end is reached, which
	// UploadTrailers may follow.
	Forward        *Request
	Upload         []byte
	UploadTrailers []byte
	Uploaded       bool
	// Release says what to do with the upstream connection held. With ReleaseAbandon, Abandoned
	// is what is left of the exchange; copy it.
	Release   ConnRelease
	Abandoned *AbandonedExchange
	// Acquire requests an upstream connection: HandleAcquired, HandleUnavailable or
	// HandleExhausted follows. Long says that the exchange may hold it for long: as a tunnel,
	// because it is private, or because the client has not sent all of the request. With Partial
	// the target does not work on that yet.
	Acquire Acquire
	Long    bool
	Partial bool
	// Admit requests a place at the target for a request of which all but the last piece was sent:
	// HandleAdmitted or HandleShed follows.
	Admit bool
	// Stream requests permission to stream the answer, since only a share of a target's
	// connections may carry streams, or to wait longer for the messages of a call: HandleStream follows.
	Stream bool
	// Wake requests a precise call of HandleWake at that time, unless it is zero.
	Wake time.Time
	// Own is a request to an own endpoint: HandleOwn follows.
	Own *OwnRequest
	// Duplex says that the body is passed on as it arrives, and that the client must be
	// read regardless of how much of its answer is unsent.
	Duplex bool
}

// A ReceivedRequest is a request before any decision, and the address of its client: behind trusted
// proxies not that of the connection. Both are borrowed.
type ReceivedRequest struct {
	Head   *http1.Head
	Client netip.Addr
}

// A Refund is what a request gives back: its places in the queues of leaky counters, or if At is not
// 0, what the other counters were charged.
type Refund struct {
	Asked []decide.ChargedCounter // those with a Slot have places; borrowed
	Mode  store.Mode              // of the answer
	At    int64                   // store.Answer.At of a request that a gate has shed
}

// A ConnRelease says what to do with an upstream connection.
type ConnRelease uint8

const (
	ReleaseNone    ConnRelease = iota
	ReleaseKeep                // return it to the pool
	ReleasePrivate             // keep it for the client's next request, and close it with the client
	ReleaseDiscard             // close it: it cannot be used again
	ReleaseDrained             // close it when what was written to it is sent
	ReleaseAbandon             // the client has disconnected: read the answer, and drop it
)

// An Acquire says which upstream connection is wanted.
type Acquire uint8

const (
	AcquireNone   Acquire = iota
	AcquireAny            // the private one, otherwise an idle or a new one
	AcquireFresh          // a new one, because an idle one has just failed
	AcquireOther          // one to a target that was not tried yet
	AcquireCancel         // none: the last Acquire is withdrawn
)

// An End says how an exchange has ended.
type End uint8

const (
	EndNone       End = iota // it has not ended
	EndAnswered              // with a complete response
	EndIncomplete            // part of the response was passed on; the client must notice that the rest is missing
	EndTimedOut              // likewise, and the client waits no longer
	EndTunnel                // the protocol was switched: the carrier copies bytes, then calls Exchange.EndTunnel
)

// End returns and clears how the exchange has ended, and when.
func (x *Exchange) End() (how End, at time.Time) {
	how, x.end = x.end, EndNone
	return how, x.endedAt
}

// Ended reports whether the exchange has ended; see End.
func (x *Exchange) Ended() bool { return x.end != EndNone }

// Response returns the response that is about to be passed on, or nil.
func (x *Exchange) Response() *Response { return x.env.fx.Response }

// MoveEffects returns the effects of the last Handle call. The memory of old, which the caller has carried
// out, is for those of the next ones; nil: it has none.
func (x *Exchange) MoveEffects(old *Effects) *Effects {
	if old == nil {
		old = new(Effects)
	} else {
		*old = Effects{}
	}
	fx := x.env.fx
	fx.Duplex = x.uploads()
	x.env.fx, x.env.begun = old, false
	return fx
}
