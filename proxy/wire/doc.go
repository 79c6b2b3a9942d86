// Package wire connects the proxy's machines to event loops. It gives each client
// connection a session, carries out the session's effects, and keeps the connections to
// the targets for the pools. It makes no decision that a session, a pool or the limiter
// could make.
//
// After each call of a machine, its effects are carried out until none are left.
//
// # A connection to a target
//
// A request that may go to a target first needs a place of its gate. Without one it waits in the
// line of its loop (see [upstream.Line]), for at most GateWait, or longer if the line permits it,
// and is then shed. A place that becomes free goes to a request of the same loop, or is offered
// to another loop if it is that loop's turn. TargetTimeout bounds the whole wait for a
// connection, including the gate; then the answer is 504. A gate whose limit is not below the
// number of connections has no effect: requests then wait for a connection.
//
// Requests that may hold their connection for long (upgrades, private connections) reserve a
// place for streams in addition to their place. They become streams at 101, or when their answer
// is streamed. A large request is a stream while its client sends it. Its last piece is withheld
// until the request has a place; from then on it is like others, and the gate learns from it.
// Private and withheld requests are bound to a connection. They wait for a place of that target's
// gate, and need no free connection. If it is their turn while only another target has a place,
// they get the next place of their own target.
//
// # HTTP/2 to targets
//
// To a pool, an HTTP/2 stream is a connection that a dial opens, and that closes after one exchange. So pools,
// gates and lines count exchanges with either version. A dial needs no connect if an HTTP/2 connection (a
// lender) has a free stream. The stream of a client that disconnects is cancelled; with a gate its place stays
// taken for an estimated time, see upstreamConn.cancel.
//
// # Clients that disconnect
//
// A target usually continues to work on a request whose client has disconnected. So once the
// whole request was sent, the exchange is abandoned: its connection stays busy and keeps its
// place, and the answer is read and dropped. The client, its session and its exchange are freed.
// The connection is closed if the answer would be streamed, since the target notices that when it
// writes, and if there is no complete answer within TargetTimeout. Abandoned connections should
// be at most half of a loop's connections to a target, and those of one client at most half of
// these. Above that, new requests of the client are refused. A request that was not sent
// completely is abandoned together with its connection. A drain does not wait for abandoned
// requests.
//
// # Memory
//
// The loops count what each client holds only when the memory in use is near the budget, so the
// requests of normal operation cost nothing. They count the buffers of the client's connections,
// its requests and their connections to targets, and the size of the connections. See
// [MemoryGuard].
package wire
