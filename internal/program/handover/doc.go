// Package handover passes listening sockets from a running process to its successor, so
// that a restart loses no connection: none is refused, and none that waits to be accepted
// is reset.
//
// The running process offers its sockets. The successor takes them, starts to accept on them and
// reports that it is ready. Then the old process stops accepting and finishes its requests:
//
//	offered, err := handover.Offer(name, sockets, state, taken)  // the old process, always
//
//	taken, err := handover.Take(ctx, name)              // the new process
//	… serve taken.Sockets, with taken.State …
//	err = taken.Ready()                                 // calls taken() in the old process
//	offered, err = handover.Offer(name, sockets, …)       // and so on
//
// # Why the sockets are passed
//
// A client is connected as soon as the kernel has completed the handshake, before any
// process accepts the connection. So what matters is the accept queue of the socket:
//
//   - Stop, then start: in between, connects are refused, and connections in the queue are
//     reset.
//   - SO_REUSEPORT: each socket has its own queue, and closing one resets its queue
//     (TestReusePortResetsTheQueueOfTheClosed). On Linux 6.18 about half of 400 waiting
//     connections were reset, and 8 to 12 % of those under continuous connects; emptying the
//     queue before the close saves little, because connections arrive in between.
//     net.ipv4.tcp_migrate_req=1 (Linux 5.14) moves the queue to the other socket; then 5 of
//     12,551 were reset. Only an administrator can set it, and SO_REUSEPORT lets any process
//     of the user listen on the port by mistake.
//   - A supervisor that holds the socket (systemd), or inheriting it through fork and exec
//     (nginx): one queue, no loss. Containers usually have no such supervisor, and a service
//     manager loses track of a child that outlives its parent.
//   - Passing the socket over a Unix socket (SCM_RIGHTS; HAProxy, Envoy): both processes
//     accept from one queue, which closing the old descriptor does not affect. Nothing is
//     lost, also under load. It needs no privilege, setting or parent, and works between any
//     two processes of one user in one network namespace. This package does that.
//
// # Failures
//
// Nothing changes for the old process until a successor is ready: one that dies, does not
// answer or belongs to another user is ignored. A user id that the kernel reports for all
// unknown users (65534 in a user namespace) counts as another user's. Any user can hold the name;
// a proxy that finds it held by another one starts without a take-over (ErrForeign). Each wait
// is bounded. The name is in the
// abstract namespace, so a killed process leaves no file behind, and the successor finds
// it free. Connections that the old process has accepted stay with it.
package handover
