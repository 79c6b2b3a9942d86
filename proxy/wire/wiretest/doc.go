// Package wiretest simulates worlds around a whole proxy: virtual clients, targets, store and queue
// around package wire, on a kernel of package looptest, in virtual time. The same seed gives the same
// world, so that a failure can be reproduced. A [Profile] says which faults a world has.
//
//	  caller ──▶ Socket ──▶ Kernel ──▶ loop ──▶ wire ──▶ Store (simredis, at once or later)
//	(a client)                                   │          Defer: a queue
//	  service ◀─ Socket ◀─ Kernel ◀── loop ◀─────┘
//	(at a target)
//
// Everything in between is the code that runs in production: listener, event loops, dialer, clients,
// pools, gates and queues. Package wire's TestWorlds starts it as a Proxy. Callers and services
// misbehave by chance: they split, stall, close or reset early, send wrong lengths or what is not HTTP.
// System calls write a part, or fail.
//
// These rules are checked after each event, here and by the Proxy:
//
//   - each request has one final answer or a closed connection, in order, and never the
//     answer to another request: fields and bodies are made from the request's id;
//   - a target gets what the client sent, in one framing, once, and nothing that the
//     limiter refused; an incomplete message never looks complete;
//   - the limiter is asked about a request once, and its decision is reported once and
//     unchanged, also if the client leaves while its request is stored;
//   - a stored request was refused, is stored once, and only then answered 202;
//   - unsent bytes are bounded;
//   - the counts of the pools are those of the open connections; at the end no descriptor,
//     connection, waiter, place, deadline or exchange is left.
//
// All bytes lent to a session, and all that it lends, are overwritten afterwards, so that
// their use is noticed.
package wiretest
