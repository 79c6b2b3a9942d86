// Package session is the server side of one connection to the target. A Session handles events
// and puts its effects into the LoopState of its loop:
//
//	   HandleData ─▶ ┌─────────┐ ─▶ Out       bytes to send
//	 HandleAnswer ─▶ │         │ ─▶ Await     which part must answer the request
//	  HandleReply ─▶ │ Session │ ─▶ Raw       the request, for own endpoints
//	HandleExpired ─▶ │         │ ─▶ Close     how to close, if at all
//	  HandleDrain ─▶ └─────────┘ ─▶ Answered  what was answered, to be counted
//	                      │
//	                      └─────▶ Deadline()  when to call HandleExpired
//
// Answers are sent in the order of the requests (RFC 9112 section 9.3.2): while a request waits
// for its answer, no further byte is read. If the rim can answer at once it does so between two
// calls of HandleData, so that the answers to pipelined requests become one write.
//
// The states of a Session and their timeouts:
//
//	idle ──▶ head ──▶ body ──▶ awaiting response ──▶ idle    or, after the last answer, closing
//	75 s     10 s     15 s      –
//
// An idle connection is closed without an answer; a request that arrives too slowly is answered
// with 408. The idle timeout is longer than that of usual client pools, so that clients close
// first and no request is lost to a concurrent close.
//
// An HTTP2 is the same for a connection of HTTP/2, whose streams ask and are answered independently of
// each other. It has no timeout for the body of one request. A stream may be a gRPC call, which asks for
// each message of an echo.
//
// The package does no input or output and reads no clock.
package session
