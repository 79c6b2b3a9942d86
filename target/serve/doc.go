// Package serve joins the parts of the target: it gives every connection of the
// event loops a session, asks the model what becomes of each request, and
// answers the target's own endpoints.
//
//	loop ─▶ conn ─▶ session ─▶ ask the service ─▶ plain? ──────────────▶ 200 on the spot
//	         ▲                       │              no │
//	         │                       │                 ▼
//	         │                       │        station (model, one lock)
//	         └──── inbox of the room ◀──────────────── alarm of some loop
//	         └──── posted reply ◀──── desk ◀── ask the own endpoints
//
// A room is what belongs to one loop. A station is the one simulated service
// that all rooms share. As long as the service has no limits, it is only an
// atomic flag, and no loop waits for another. Otherwise each arrival takes the
// lock for a few hundred nanoseconds of arithmetic. What the model finishes is
// found by whichever loop's alarm rings first and put into the inbox of the room
// whose connection waits for it.
package serve
