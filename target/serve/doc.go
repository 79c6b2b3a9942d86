// Package serve connects the parts of the target: it gives every connection a session, asks the
// model for the outcome of each request, and answers the target's own endpoints.
//
//	loop ─▶ conn ─▶ session ─▶ ask the service ─▶ plain? ──────────────▶ 200 at once
//	         ▲                       │              no │
//	         │                       │                 ▼
//	         │                       │        station (model, one lock)
//	         └──── posted answer ◀──────────────────── alarm of some loop
//	         └──── posted reply ◀── handlers ◀── ask the own endpoints
//
// A connection that begins with the preface of HTTP/2 becomes an http2Conn, whose streams ask the same
// way.
//
// A shard is the state of one loop. The station is the simulated service that all shards share.
// While the service has no limits, only an atomic flag is read, and no loop waits for another.
// Otherwise each arrival takes the lock for a few hundred nanoseconds. Requests that the model has
// finished are collected by the loop whose alarm fires first, and posted to the loops whose
// connections wait for the answers.
package serve
