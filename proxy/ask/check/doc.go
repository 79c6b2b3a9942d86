// Package check is one connection of the decision port as a state machine. Its input is the bytes
// of requests; its output is asks to the store and the bytes of responses. A connection of HTTP/1.1
// is a [Session], one of HTTP/2 an [HTTP2Conn] with a Session for each stream.
//
// A Session handles events and leaves the effects to apply in the Env of its loop:
//
//	   HandleData ─▶ ┌─────────┐ ─▶ Env.Ask   asks the store
//	HandleExpired ─▶ │ Session │ ─▶ Env.Edit  edits a key, off the loop
//	 HandleEdited ─▶ │         │ ─▶ Env.Out   bytes to send
//	  HandleDrain ─▶ └─────────┘ ─▶ Env.Close how to close, if at all
//
// Responses of HTTP/1.1 are in the order of the requests: while one waits, no further byte is read.
//
//	idle ──▶ head ──▶ body ──▶ awaiting response ──▶ idle    or, after the last answer, closing
//	75 s     10 s     10 s      –
//
// If the store does not answer at once, it calls the ask's Done on the loop. Done writes the response and
// then calls Env.Answered. The store bounds how long an ask takes, Env.EditTimeout how long the edit of a
// key takes.
//
// A sidecar (package store/remote) is a proxy that leaves decisions to this one, its master. Its asks come
// in batches. A sidecar also reads [Documents]: the limit and the rules, which it shares with its master.
//
// The same sessions answer /check/…, by which other proxies ask about a request before they forward it
// (ext_authz of Envoy, auth_request of nginx). They make a request head from the description, evaluate it
// by [decide.Evaluation] like a request on the data path, and write the refusal by [decide.Responder].
//
// Calls of gRPC are requests over HTTP/2 whose bodies are messages, and whose errors have codes: those of
// Envoy's rate limit service are decided like the same request as JSON, and those of the health service
// report whether the port accepts requests.
package check
