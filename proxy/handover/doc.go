// Package handover passes listening sockets from a running process to its successor, so
// that a restart loses no connection: none is refused, and none that waits to be accepted
// is reset.
//
// The running process offers its sockets. The successor takes them, starts to accept on
// them and says that it is ready. Then the old one stops accepting and finishes its
// requests:
//
//	offered, err := handover.Offer(name, files, state, taken)  // the old one, always
//
//	taken, err := handover.Take(ctx, name)              // the new one
//	… serve taken.Sockets, with taken.State …
//	err = taken.Ready()                                 // the old one's taken() is called
//	offered, err = handover.Offer(name, files, …)       // and so on
//
// # Ways to restart without loss, and why this one
//
// A client is connected as soon as the kernel has shaken hands with it, before
// any process has accepted it. What counts is therefore the accept queue of the
// socket that the kernel chose, and what becomes of it.
//
//   - Stop, then start: between the two, connects are refused, and what waits in
//     the queue is reset.
//   - SO_REUSEPORT, both listening for a while: the kernel deals connections out
//     to both sockets, each with a queue of its own, and resets the queue of the
//     one that is closed. Tried on Linux 6.18: of 400 connections that waited,
//     193 to 211 were reset; in a storm of connects with 200 closes one after
//     the other, 8 to 12 % (806 of 9,902, 915 of 7,437).
//     TestReusePortResetsTheQueueOfTheClosed shows it.
//   - The same, and accepting until the queue is empty before the close: what
//     comes between the last accept and the close is still reset, and so are
//     handshakes half done. In the same storm 8 % (1,655 of 20,978): the queue
//     fills faster than it can be closed.
//   - The same with net.ipv4.tcp_migrate_req=1 (Linux 5.14): the queue of the
//     closed socket moves to the other. None of 400 was reset, and in the storm
//     0 of 5,642, 0 of 64,952 and, another time, 5 of 12,551. It is a setting of
//     the machine or the container that only an administrator can make and that
//     is off by default, and it needs SO_REUSEPORT from the first start on, with
//     which any other process of the user may listen on the port by mistake.
//   - A supervisor that holds the socket (systemd's socket activation): one
//     queue that outlives everybody, no loss. It needs that supervisor, and is
//     no answer where the proxy is process 1 of its container.
//   - Inheriting the socket over fork and exec (nginx): one queue, no loss. The
//     successor must be a child of the old process, so a service manager loses
//     sight of it, and no one else can start it.
//   - Passing the one socket over a Unix socket (SCM_RIGHTS; HAProxy, Envoy):
//     one queue that both processes accept from, so that closing the old one's
//     descriptor does nothing to it: none of 100 that waited is reset, none of
//     thousands in a storm with 20 changes of the process. It needs no
//     privilege, no setting and no parent, and works between any two processes
//     of one user in one network namespace. That is what this package does.
//
// # What can go wrong
//
// Nothing changes for the old process until a successor is ready: one that dies, does not
// answer or belongs to another user is ignored. Each wait is bounded. The name is in the
// abstract namespace, so a killed process leaves no file behind, and the successor finds
// it free. Connections that the old process has accepted stay with it.
package handover
