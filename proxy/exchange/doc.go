// Package exchange is the data path: one request with its answer as a state machine, which
// is given events and their times, and returns what to do. It decides about the request,
// forwards it if it is admitted, and relays the answer. It uses no sockets, clocks,
// goroutines or logs, and does not depend on connections.
//
// A carrier feeds exchanges: an HTTP/1.1 connection (package session) one after another, a
// stored request just one. The carrier reads the request and calls HandleHead, HandleBody
// while Reads returns true, and HandleBodyEnd. For a request that is Refused it calls
// HandleUnread, with whether the body has been received. The answer is written as an
// HTTP/1.1 message. After each call, Effects contains what to do, and End returns how the
// exchange has ended.
//
// A request, its upstream connection and its answer each have their own states:
//
//	request     becomes     when
//	none        asked       the limiter is asked
//	none        collecting  no limit applies to it
//	none        refused     it is answered here, or lacks a part of a rule's key
//	asked       collecting  it is admitted
//	asked       queued      it is admitted for a later slot
//	asked       refused     it is refused
//	asked       deferring   it is refused, and will be delivered later
//	queued      collecting  its slot has come
//	collecting  whole       all of it has been received
//	collecting  streaming   it is too large to be collected
//	streaming   whole       all of it has been received
//	deferring   storing     all of it has been received
//	storing     left        its client disconnects
//	deferring   refused     it is too large to be stored, or its Idempotency-Key is invalid
//
//	upstream    becomes     when
//	none        wanted      the request is forwarded
//	wanted      wanted      the chosen target has none
//	wanted      held        a new one is available, or the private one
//	wanted      reused      an idle one is available
//	held        none        it is released or lost
//	reused      none        it is released or lost
//
//	answer      becomes     when
//	waiting     done        the proxy answers itself
//	waiting     head        its first byte has been received
//	head        collecting  its head has been received
//	head        done        it is invalid, or the protocol is switched
//	collecting  relaying    it is large, of unknown length, or slow
//	collecting  done        it is complete or aborted
//	relaying    done        it is complete or aborted
//
// The decision precedes the body: a refused upload is answered without being read. Small
// bodies are collected in both directions, so that an answer that is cut off can still
// become a 502. A request that streams acquires an upstream connection immediately, and is
// read while it holds one. HandleClientFull and HandleTargetFull report that one side
// accepts no data; the exchange then reads nothing from the other. After a switch of
// protocols it holds the upstream connection of the tunnel until EndTunnel.
package exchange
