// Package serve is the advisor as a program: it takes the proxies' snapshots over
// HTTP, lets forecast and policy think, and answers with a recommendation.
//
//	POST /v1/limit-config
//	   │ snapshot: read and checked, no lock
//	   ▼
//	┌ core, one mutex, about 100 µs a snapshot ──────────────────────┐
//	│ clock    is this the time we are in?                           │
//	│ fleet    adds up the proxies; a round ends when all have spoken│
//	│ forecast ◀── the sum ──▶ policy ──▶ recommendation, track      │
//	└──┬──────────────▲──────────────────────────┬───────────────────┘
//	   │ job          │ model                    │ record, image
//	   ▼              │                          ▼
//	 refit: one goroutine at a time        keeper: journal and state file
//
// The only clock that matters to what is learned is that of the snapshots, so a
// recording can be replayed at any speed. The clock of the machine paces writing
// the state, and bounds how long an answer waits.
//
// # Time that jumps
//
// A snapshot of the only proxy that reports, an hour or more ahead of the newest, is
// the end of a silence: the knowledge so far is set aside and a copy of it goes on
// through the gap. Beyond five weeks it may as well be a broken clock; it is then
// answered with the limit in force, and believed when a second one follows. While
// other proxies report, already five minutes ahead are too many. What is ahead then
// is believed when more proxies are there than are not, when enough of it comes
// without one of the others between (two snapshots, and one more for each of the
// others), or when the second of two large steps is like the first.
//
// Time that goes back by more than an hour is refused at first, as any old snapshot
// is. When three in a row continue what was set aside, the false time and the true
// one change places, so that a clock that was wrong for a while costs nothing but
// that while. When ten in a row continue nothing that is known (three, when it is
// the only proxy and they come evenly), an empty memory is begun and the old one set
// aside.
//
// # Rates that jump
//
// A rate of more than twenty times the largest of the last week is believed when a
// second snapshot confirms it; see doubts.
package serve
