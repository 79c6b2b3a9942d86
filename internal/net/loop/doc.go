// Package loop runs event loops: sockets, timers and wake-ups behind a small
// contract. It hides gnet completely; no other package imports it, except for looptest.
//
// A program starts a [Group] of loops, accepts and dials through it, and gives every connection a
// [Handler]. All calls to one Handler come from one loop, one at a time, with the time of the
// event as the first argument. A Handler never blocks; slow work is done by another goroutine,
// which returns the result with [Loop.Post].
//
// The package guarantees more than gnet 2.10 (each point has a test named after it):
//
//   - Closed is the last call of a Handler, happens exactly once, and never during
//     Conn.Write, even if the write finds the connection broken.
//   - Bytes that Data leaves unread are passed again with the next bytes, or when the Handler
//     calls [Conn.Pump].
//   - Reading stops when InboundMax bytes are unread, so that TCP's flow control slows the
//     sender; a Handler is not fed while more than OutboundMax bytes are unsent.
//   - CloseDrained closes after the last byte was sent; CloseLinger then half closes and
//     discards what still arrives, so that a reset does not destroy an early answer (RFC
//     9112 section 9.6).
//   - Without free descriptors, or at ConnectionsMax, new connections are refused; open ones
//     are not affected. At ConnectionsMax, an open connection on which nothing was received is
//     closed instead, if there is one.
//   - PerAddressMax holds exactly; addresses without connections take no memory.
//   - Closing a Listener whose socket another process has (Listener.SyscallConn, Serve) does not
//     affect clients in the accept queue.
//   - All of this holds for TLS connections too (Serve, Dial). Two goroutines each copy
//     plaintext between crypto/tls and the loop; a close_notify is the end of one
//     direction, a bare end of the TCP connection is an error. They count as open until the
//     last byte is sent.
//   - Conn.SetBatch collects what is written, for a turn or until the other ready connections had
//     theirs; the order with closes and half closes is that of the calls.
//   - A panic in a Handler closes its connection and is counted; the loop continues.
//   - Deadlines are coarse (one step of the wheel) and cheap. Alarms are precise (tens of
//     microseconds): one locked thread sleeps until an absolute time of the kernel, because
//     Go's timers round waits below a millisecond up to one.
//
// # How it is done
//
// The listener is a goroutine of this package, because EMFILE would end gnet's engine, which runs
// without listeners. Every callback is one turn with one clock reading.
//
// gnet cannot pause a connection. It drops unsent bytes on close, and does not report when bytes
// have been sent. To pause, the descriptor is duplicated, and gnet closes its own; the socket is
// registered again when the Handler has caught up. What a socket does not accept immediately is
// kept in [Conn], not in gnet, because a socket can be taken out of gnet at any time. It is tried
// again every 5 ms, and less often while nothing is accepted. Write errors are not reported: the
// next read returns what the peer sent, for example an early answer.
//
// One function decides how a connection ends. It is called whenever the socket changes hands: when
// the connection is opened, paused, resumed, half closed or lost. A complete stream of bytes ends
// with FIN. If bytes are lost or more should follow, the connection ends with a reset, and with
// TLS without close_notify, so that the peer never takes a part for the whole. A simulation runs a
// [Group] on a [System] of package looptest in virtual time, with resets, short writes and failing
// calls by seed. It checks that every connection that is to end is closed once, within its bound,
// and that every descriptor is closed once.
//
// docs/design/001-own-event-loops.md says why the proxy does not use net/http or gnet's listener
// here.
package loop
