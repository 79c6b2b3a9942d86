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
// A snapshot that is more than an hour ahead of the newest may be the end of a
// long silence or a broken clock. It is answered with the limit in force, and
// believed when more snapshots follow it without a break (two in all; one more for
// each other proxy that reports). Then the knowledge so far is set aside and a
// copy of it goes on through the gap. Time that goes back by more than an hour is
// refused at first, as any old snapshot is. When three in a row continue what was
// set aside, the false time and the true one change places, so that a clock that
// was wrong for a while costs nothing but that while. When ten in a row continue
// nothing that is known, an empty memory is begun and the old one set aside.
package serve
