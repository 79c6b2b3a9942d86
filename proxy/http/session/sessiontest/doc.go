// Package sessiontest simulates worlds around real sessions, pools and a limiter:
// virtual clients, targets and connections, a virtual clock, and one goroutine. The
// same seed gives the same world, so that a failure can be reproduced.
//
//	  caller ──▶ conn ──▶ front ──▶ session.Session
//	(a client)             │  ▲        limiter (simredis, at once or later)
//	                       ▼  │
//	  service ◀─ conn ◀─ upstreamConn ◀── upstream.Group, Pool
//	(at a target)
//
// front and upstreamConn carry out effects, as package wire does, in a short form. A conn
// (looptest.Conn) has the contract of a loop's connection, with its bounds, half closes and
// lingering. Callers and services misbehave at random: they split, stall, close or reset early,
// send wrong lengths or what is not HTTP.
//
// These rules are checked after each event:
//
//   - each request has one final answer or a closed connection, in order, and never the
//     answer to another request: fields and bodies are made from the request's id;
//   - a target gets what the client sent, in one framing, once, and nothing that the
//     limiter refused; an incomplete message never looks complete;
//   - the limiter is asked about a request once, and its decision is reported once and
//     unchanged, also if the client leaves while its request is stored;
//   - a stored request was refused, is stored once, and only then answered 202;
//   - collected and unsent bytes are bounded;
//   - the counts of the pools are those of the open connections; at the end no
//     connection, waiter, deadline or exchange is left.
//
// All bytes that are passed to a session, and all that it returns, are overwritten after their
// time of validity, so that a later use is detected.
package sessiontest
