// Package wire is the proxy's server: it connects the state machines (sessions, exchanges, pools, gates)
// to the event loops. After each call of a machine it carries out the effects until none are left. It
// makes no decision that a session, a pool or the limiter could make.
//
// # From admission to a connection
//
// A request that the limits admit needs two things, in this order:
//
//  1. A place, which is a permit of the gate of a target (package gate). Without one the request waits
//     in the queue of its loop ([upstream.Queue]), for GateWait or for as long as the queue permits, and
//     is then shed. A place that becomes free goes to a request of the same loop, or is offered to
//     another loop if it is that loop's turn.
//  2. A connection to that target, from the pool of the loop.
//
// TargetTimeout bounds both waits together; after it the response is 504. If the limit of a gate is at
// least the number of connections, requests wait only for connections.
//
// # Streams
//
// A stream is an exchange that may hold its connection for long: a large upload while its client sends
// it, a streamed response, or a tunnel after 101. Only a share of the connections may carry streams. An
// upgrade, and a request of a client with a private connection, which serves no other client (see
// [exchange.ClientInfo]), reserve a stream of this share in addition to their place. They become streams at
// 101, or when their response is streamed.
//
// A large upload is a stream until its last piece. That piece is sent when the request has a place; from
// then on the exchange is like others, and the gate measures it.
//
// Such uploads and private requests are bound to their connection: they need no free one, and wait for a
// place of its target only. If their turn comes while only another target has a place, they get the next
// place of their own target.
//
// # HTTP/2 to targets
//
// Pools and gates count exchanges, not connections. To a pool, each HTTP/2 stream is a connection that
// serves one exchange and then closes. Dialling it opens a stream on an HTTP/2 connection (a lender) that
// has a free one, and connects only if there is none.
//
// # Deferred requests
//
// A refused request may be stored ([DeferFunc]) and delivered later. A [Delivery] is such a request on a
// loop: it has a session, and no client's connection.
//
// # Clients that disconnect
//
// A target usually continues to work on a request whose client has disconnected. So an exchange whose
// request was sent completely is abandoned: its connection and its place stay taken, and the response is
// read and dropped. The memory of the client is freed at once. The connection is closed instead if
//
//   - the request was not sent completely;
//   - the response would be streamed, since the target notices the close when it writes;
//   - there is no complete response within TargetTimeout.
//
// The stream of HTTP/2 is cancelled, and if there is a gate its place stays taken for an estimated time:
// see upstreamConn.cancel. Abandoned exchanges should hold at most half of a loop's connections to a
// target, and those of one client at most half of these. Beyond that, new requests of the client are
// refused. A drain does not wait for abandoned exchanges.
//
// # Memory
//
// The loops count what each client holds only when the memory in use is near the budget, so normal
// operation pays nothing for it. [MemoryGuard] describes what is counted.
package wire
