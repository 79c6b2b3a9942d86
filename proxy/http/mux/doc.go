// Package mux carries exchanges on the streams of HTTP/2 connections (RFC 9113), from clients or to targets.
//
// A [Conn] reads the connection. Each request opens a [Stream], which has an exchange. The owner of the Conn
// carries out the effects of the exchange, as it does for a session.
//
// HEADERS are sent at once. A body is sent as far as the client's windows and the connection allow. The
// stream keeps the rest; if that exceeds [Settings].QueueMax, the exchange pauses reading the target's
// answer until the rest has been sent. The owner calls Flush when there may be room again.
//
// A body of unknown length that does not come at once with its head is not collected, since the client may
// wait for a part of the response before it sends the rest.
//
// While the exchange does not read the body of a request, the stream keeps what arrives, and the client is
// not credited, so that it stops at its window.
//
// If a stream is reset, or its response ends before its request does, other streams are not affected.
//
// An [Upstream] is a connection to a target. It lends streams, each an [UpstreamStream] for one exchange. The
// stream keeps what exceeds the target's windows; if that exceeds QueueMax, the exchange pauses reading the
// request. An answer that the client does not read is kept up to the window of its stream. The target is
// credited for it only when it is passed on, so a slow client delays no other answer. An exchange that ends before
// its answer resets its stream.
//
// The package uses no sockets, clocks or goroutines.
package mux
