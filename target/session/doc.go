// Package session is the server side of one connection to the target: requests
// come in as bytes, questions and bytes come out.
//
// A Session is told what happens and puts what it wants done into the Shared
// of its loop:
//
//	   HandleData ─▶ ┌─────────┐ ─▶ Out       bytes to send
//	 HandleAnswer ─▶ │         │ ─▶ Ask       who must answer this request
//	  HandleReply ─▶ │ Session │ ─▶ Raw       the request, for own endpoints
//	HandleExpired ─▶ │         │ ─▶ Close     how to close, if at all
//	  HandleDrain ─▶ └─────────┘ ─▶ Answered  what was answered, to be counted
//	                      │
//	                      └─────▶ Deadline()  when to call HandleExpired
//
// Answers leave in the order of the requests (RFC 9112 section 9.3.2): while one
// waits for its answer no further byte is read. A rim that can answer at once
// does so between two calls of HandleData, so that any number of pipelined
// requests becomes one write.
//
// The states of a Session, and what may end them by itself:
//
//	idle ──▶ head ──▶ body ──▶ asked ──▶ idle    or, after the last answer, closing
//	75 s     10 s     15 s      –
//
// An idle connection that runs out of time is closed without a word; a request
// that comes too slowly is answered 408. The idle time is longer than any sensible
// pool of a client keeps connections, so that it is the client who lets go
// and no request crosses with our closing.
//
// There is no input, output or clock here; the loop's rim does what the effects
// say.
package session
