// Package model says how the simulated service behaves: how many requests it
// can serve at a time, how long each takes, how many may wait, how long they
// are willing to, and what share of them fails.
//
// It is a queue of the kind that Kendall's notation calls G/G/c/(c+K) with
// impatient customers:
//
//	           ┌──────────── queue, K places ────────────┐   ┌ worker 1 ┐
//	arrival ──▶│ last … third, second, first come        │──▶│    …     │──▶ served or failed
//	   │       └──────────────────────────────────────┬──┘   └ worker c ┘
//	   └─▶ refused: all places taken                  └─▶ timed out: waited too long
//
// A worker that becomes free takes the first in the queue, so that no worker
// is ever idle while somebody waits, and the capacity is
//
//	workers / mean service time      requests per second.
//
// The Model is driven by events: it knows when the next thing happens (Next),
// and Expire lets everything happen that was due by then, each thing at its own
// time. A late caller sees results late, but the results are the same:
// the service time of a request that waited begins when the worker became free,
// not when it was called. That makes the capacity exact whatever the timers do.
//
// Nothing here reads a clock, sleeps or chooses its own chance: the time is an
// argument, the random numbers come from a source given at creation, and the same
// calls give the same results.
package model
