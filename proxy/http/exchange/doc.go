// Package exchange is the data path. An [Exchange] is one request with its answer as a state
// machine: it is given events and their times, and returns what to do. It decides about the
// request, forwards it if it is admitted, and relays the answer. It uses no sockets, clocks,
// goroutines or logs, and does not depend on connections.
//
// A carrier feeds exchanges. An HTTP/1.1 connection (package session) feeds one after another, a
// stored request feeds just one. The carrier reads the request and calls HandleHead, HandleBody
// while Reads returns true, and HandleBodyEnd. For a request that is Refused it calls
// HandleUnread, and passes whether the body was received. After each call, Effects contains what
// to do, and End returns how the exchange has ended.
//
// An exchange is independent of the protocol. It exchanges values with its carriers: a [Request]
// for the target, pieces of its body and their end; and a [Response] for the client, pieces of
// its body and their end. The carrier of each side writes them in the form of its protocol. Only
// the carrier decides what depends on the protocol: the coding of a body, and whether a
// connection is kept. The carrier of the target reads the answer, and calls HandleResponseHead,
// HandleResponseBody and HandleResponseEnd, or HandlePause when no more has arrived.
//
// A request, its upstream connection and its answer each have their own states, which change only
// along the tables in docs/design/008-exchanges-and-carriers.md. A change that is not in them is
// a bug and panics.
//
// The decision precedes the body: a refused upload is answered without being read. Small bodies
// are collected in both directions, so that an answer that is cut off can still become a 502. A
// request that streams acquires an upstream connection immediately, and is read while it holds
// one. HandleClientFull and HandleTargetFull report backpressure: one side accepts no more data,
// so the exchange reads nothing from the other. After a switch of protocols it holds the upstream
// connection of the tunnel until [Exchange.EndTunnel], which closes the connection if it is called
// with [ReleaseDrained], once everything written to it is sent.
//
// The number of requests in flight to a target may be limited. A request that gets no place among
// them in time is shed ([FaultShed]).
//
// An upstream connection is private if it serves the exchanges of one client only, because NTLM
// or Negotiate has authenticated the connection. An exchange whose client disconnects is
// abandoned: the answer is read and dropped ([AbandonedExchange]), because the target continues
// to work on it. An [OwnRequest] is one that the proxy itself answers, such as for its metrics.
//
// # When a request is answered
//
// A refused request is answered immediately. If its body has not arrived by then, the connection
// is closed with a lingering close; otherwise it is kept.
//
// TargetTimeout bounds the time from sending the request to the head of the answer, and the time
// between two pieces of an answer that is collected. An answer that takes longer in total is
// streamed from then on. The request is kept until the answer begins. If it was sent on an idle
// connection that turns out to be closed, it is sent once more, without asking the limiter again.
// That is done only if the request is idempotent and not streamed, and before any byte of the
// answer (RFC 9112 section 9.3.1).
//
// # Fields
//
// A field is forwarded as it came, except in these cases:
//
//	field                                                       forwarded   seen by rules
//	of the client's connection, or named in Connection          no          yes
//	about the origin of the request ([keys.ForwardingFields])   if trusted  if trusted
//	with a name that some targets take for another              no          no
//
// Rules see what Connection names because a client can name any field there, and so could avoid a
// rule. The proxy's own fields are written last, so a client cannot remove one by naming it in
// Connection. Separate bounds apply to what proxies add to a head, so that the next proxy in a
// chain accepts what the first one has accepted.
//
// # Streams
//
// When one side accepts no more data, reading from the other pauses. A stream takes at most half
// a megabyte per direction, and no goroutine. Only a share of a target's connections may carry
// streams. When that share is used up, an upgrade or a large upload is refused immediately, and
// an answer of unknown or great length is collected like a small one. If it becomes too large or
// too slow, the client gets 502, because the target has executed the request. A 503 of the
// proxy's own always means that nothing was sent.
//
// # Memory
//
// The head of a loop's current message, its output and its scratch buffers belong to [Env], one per
// loop, so an idle connection holds a few hundred bytes.
package exchange
