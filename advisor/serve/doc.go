// Package serve is the advisor as a program: HTTP, a lock, files and pages around package
// core, which has the logic.
//
//	POST /v1/limit-config
//	   │ snapshot: parsed and validated, without the lock
//	   ▼
//	 lockedCore: the core behind a mutex, about 100 µs per snapshot
//	   │ record, checkpoint
//	   ▼
//	 saver: journal and state file
//
// The system clock determines when the state is written, and bounds how long an answer
// waits. What is learned depends only on the snapshots' times.
//
// With a full disk the advisor starts, too: it keeps trying to write, and until it succeeds the
// health component state is DOWN.
package serve
