// Package model is the simulated service: how many requests it serves at the same time, how long
// each takes, how many may wait and for how long, and what share of them fails.
//
// It is a queue of the kind G/G/c/(c+K) in Kendall's notation, with impatient customers:
//
//	           ┌──────────── queue, K places ────────────┐   ┌ worker 1 ┐
//	arrival ──▶│ last … third, second, first come        │──▶│    …     │──▶ served or failed
//	   │       └──────────────────────────────────────┬──┘   └ worker c ┘
//	   └─▶ refused: all places taken                  └─▶ timed out: waited too long
//
// A worker that becomes free takes the first request of the queue, so no worker is idle while
// requests wait, and the capacity is
//
//	workers / mean service time      requests per second.
//
// The Model is event-driven: Next returns the time of the next event, and Expire processes all
// events that are due, each at its own time. A late caller gets the same results later: the
// service of a waiting request starts when its worker becomes free, not when Expire is called. So
// the capacity is exact, independent of timers.
//
// The package reads no clock. Time is an argument, random numbers come from a given source, and
// the same calls have the same results.
package model
