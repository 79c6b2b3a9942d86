// Package wire connects the proxy's machines to event loops. It gives each client
// connection a session, carries out the session's effects, and keeps the connections to
// the targets for the pools. It makes no decision that a session, a pool or the limiter
// could make.
//
// After each call of a machine, a client carries out the effects until none are left
// (client.apply).
//
// # A connection to a target
//
// A request that may go to a target (client.seek) first needs a place of its gate. Without one it
// waits in the line of its loop (client.await) for at most GateWait, or longer if the line lets it,
// and is then shed. A place that becomes free calls serveNext, which serves a request of this loop,
// or posts to another one if it is its turn. TargetTimeout bounds the whole wait for a connection,
// including the gate; then the answer is 504. A gate whose limit is not below the number of
// connections has no effect: requests then wait for a connection.
//
// Requests that may hold their connection for long (upgrades, private connections) reserve a place
// for streams in addition to their place, and become streams at 101, or when their answer is
// streamed. A large request is a stream while its client sends it. Its last piece is withheld until
// it has a place (client.complete); then it is like others, and the gate learns from it. Private
// and withheld requests are bound to a connection (client.bound). They wait for a place of that
// target's gate, and need no free connection. If their turn comes while only another target has a
// place, they get the next one of their own (client.park).
//
// # Clients that disconnect
//
// A target usually goes on working on a request whose client has disconnected. So once the whole
// request was sent, the exchange is abandoned: its connection stays busy and keeps its place, and
// the answer is read and dropped. The client, its session and its exchange are freed. The
// connection is closed if the answer would be streamed, since the target notices that when it
// writes, and if there is no complete answer within TargetTimeout. Abandoned connections should be
// at most half of a loop's connections to a target, of which one client gets at most half; beyond,
// its new requests are refused (target.refuses). A request that was not sent completely is given up
// with its connection. A drain does not wait for abandoned requests.
//
// # Memory
//
// Only near the budget do the loops count what each client holds, so requests cost nothing in
// normal operation: the buffers of its connections, its requests and their connections to targets,
// and the size of the connections. See [MemoryGuard].
package wire
