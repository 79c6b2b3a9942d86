// Package serve is the advisor as a program: HTTP, a lock, files and pages around
// package core, which thinks.
//
//	POST /v1/limit-config
//	   │ snapshot: read and checked, no lock
//	   ▼
//	 mind: the core behind a mutex, about 100 µs a snapshot
//	   │ record, image
//	   ▼
//	 keeper: journal and state file
//
// The clock of the machine paces writing the state, and bounds how long an answer
// waits; what is learned depends on the snapshots' times alone.
package serve
