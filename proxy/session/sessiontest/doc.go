// Package sessiontest plays whole worlds around real sessions, pools and a
// limiter: virtual clients, targets and connections, a virtual clock, and one
// goroutine. The same seed plays the same world, so a failure is found again
// and read event by event.
//
//	  caller ──▶ conn ──▶ front ──▶ session.Session
//	(a client)             │  ▲        limiter (simredis, at once or later)
//	                       ▼  │
//	  service ◀─ conn ◀─ upstreamConn ◀── upstream.Group, Pool
//	(at a target)
//
// front and upstreamConn are the rim: they do in a few lines what package wire does
// with sockets. A conn (looptest.Conn) keeps the contract of a loop's connection, with
// its bounds, half closes and lingering. Callers and services misbehave by chance:
// they split, stall, break off, reset, lie about lengths and send garbage.
//
// What must hold is checked while it happens (books.go, judge.go):
//
//   - each request has one final answer or a closed connection, in order, and
//     never another's: ids, fields and bodies are made from the request's id;
//   - a target gets what the client sent, in one framing, once, and nothing that
//     the limiter refused; what is cut off never looks whole;
//   - decisions are asked for once and reported once, as what they were, also when the client has
//     left while its request was stored;
//   - what is stored to be delivered later was refused, is stored once, and answered 202 only then;
//   - what is collected and unsent is bounded;
//   - the pools' books are those of the connections alive; at the end nothing is
//     left: no connection, waiter, deadline, or exchange that hangs.
//
// All bytes lent to a session, and all it lends, are overwritten when the loan
// is over: whoever kept them shows.
package sessiontest
