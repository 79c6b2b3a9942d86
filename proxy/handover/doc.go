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
// # Ways to restart without loss
//
// A client is connected as soon as the kernel has completed the handshake, before any
// process accepts the connection. So what matters is the accept queue of the socket:
//
//   - Stop, then start: in between, connects are refused, and connections in the queue are
//     reset.
//   - SO_REUSEPORT, both processes listening for a while: each socket has its own queue, and
//     closing one resets its queue. On Linux 6.18, of 400 waiting connections 193 to 211
//     were reset; under continuous connects with 200 closes, 8 to 12 % (806 of 9,902, 915
//     of 7,437). TestReusePortResetsTheQueueOfTheClosed demonstrates it.
//   - Likewise, accepting until the queue is empty before the close: connections that
//     arrive between the last accept and the close are still reset, and so are incomplete
//     handshakes: under the same load 8 % (1,655 of 20,978).
//   - Likewise, with net.ipv4.tcp_migrate_req=1 (Linux 5.14): the queue of the closed socket
//     moves to the other. None of 400 was reset, and under load 0 of 5,642, 0 of 64,952
//     and 5 of 12,551. Only an administrator can change this setting, which is off by
//     default, and SO_REUSEPORT lets any process of the user listen on the port by mistake.
//   - A supervisor that holds the socket (systemd's socket activation): one queue, no loss.
//     It requires that supervisor, which containers usually do not have.
//   - Inheriting the socket through fork and exec (nginx): one queue, no loss. The successor
//     must be a child of the old process, so a service manager loses track of it.
//   - Passing the socket over a Unix socket (SCM_RIGHTS; HAProxy, Envoy): both processes
//     accept from one queue, which closing the old descriptor does not affect. None of 100
//     waiting connections is reset, and none of thousands under load with 20 changes of the
//     process. It needs no privilege, setting or parent, and works between any two processes
//     of one user in one network namespace. This package does that.
//
// # Failures
//
// Nothing changes for the old process until a successor is ready: one that dies, does not
// answer or belongs to another user is ignored. Each wait is bounded. The name is in the
// abstract namespace, so a killed process leaves no file behind, and the successor finds
// it free. Connections that the old process has accepted stay with it.
package handover
