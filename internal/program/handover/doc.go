// Package handover passes listening sockets from a running process to its successor, so
// that a restart loses no connection: none is refused, and none that waits to be accepted
// is reset.
//
// The running process offers its sockets. The successor takes them, starts to accept connections
// on them and reports that it is ready. Then the old process stops accepting and finishes its
// requests:
//
//	offered, err := handover.Offer(name, sockets, state, taken)  // the old process, always
//
//	taken, err := handover.Receive(ctx, name)           // the new process
//	… serve taken.Sockets, with taken.State …
//	err = taken.Ready()                                 // calls taken() in the old process
//	offered, err = handover.Offer(name, sockets, …)       // and so on
//
// The sockets themselves are passed because the kernel resets the connections in the accept queue
// of a socket when the last descriptor of it is closed.
// docs/design/002-passing-listening-sockets.md has the measurements of the alternatives.
//
// # Failures
//
// Nothing changes for the old process until a successor is ready. A successor that dies, does not
// answer or belongs to another user is ignored. A user id that the kernel reports for all unknown
// users (65534 in a user namespace) counts as another user's. Any user can hold the name. A
// program that finds it held by another user starts without a take-over ([ErrHeldByOther]). Each wait
// is bounded. The name is in the abstract namespace: a killed process leaves no file behind, and
// the successor finds the name free. Connections that the old process has accepted stay with it.
//
// # State
//
// Before it is ready, a successor may request the state of the old process, at most 16 MiB. A
// process of an older version does not know this request and closes the connection. The successor
// then requests only the sockets.
package handover
