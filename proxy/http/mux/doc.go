// Package mux is HTTP/2 on a client's connection (RFC 9113): its streams carry exchanges.
//
// A [Conn] reads the connection. Each request opens a [Stream], which has an exchange and is drained by
// MoveEffects, as a session is. What several streams send at the same time shares the connection:
// HEADERS are sent at once; a body is sent as far as the windows of the client allow, and what is left
// is kept in the stream, up to [Settings].QueueMax, from which on the exchange reads no more of the
// target's answer.
//
// A body is read while the exchange reads it. Otherwise it is kept in the stream and the client is not
// credited, so that it stops at its window. A stream that is reset, or whose response ends before its
// request, tells only its own exchange.
//
// It uses no sockets, clocks or goroutines.
package mux
