// Package loop runs event loops: sockets, timers and wake-ups behind a small
// contract. It hides gnet completely; no other package imports it.
//
// A program starts a Group of loops, listens and dials through it, and gives
// every connection a Handler. All calls to one Handler come from one loop, one
// at a time, with the time of the event as the first argument. A Handler never
// blocks; slow work goes to another goroutine and comes back by
// Loop.Post.
//
// What the package promises on top of gnet 2.10 (each has a test named after it):
//
//   - Closed is the last call a Handler gets, exactly one, and never from
//     inside Conn.Write, even when the write finds the connection broken.
//   - Bytes that Data leaves unread come again with the next bytes, or after Pump.
//   - Reading stops when InboundMax bytes wait unread, so that a fast sender
//     meets TCP's flow control; a Handler is not fed while more than
//     OutboundMax of its answers wait unsent.
//   - CloseDrained closes after the last byte was sent; CloseLinger then half
//     closes and discards what still arrives, so that an early answer is not
//     lost to a reset (RFC 9112 section 9.6).
//   - Running out of descriptors or reaching ConnectionsMax refuses new
//     connections; the open ones notice nothing.
//   - PerAddressMax holds exactly; what is no longer connected is forgotten.
//   - A closed Listener whose socket another process has (Listener.File, Serve)
//     takes nobody with it who waits in the accept queue.
//   - TLS connections (Serve, DialSecure) are as the others in all of this. Two
//     goroutines each pump plaintext between crypto/tls and the loop; a
//     close_notify is the end of one direction, a bare end of the TCP
//     connection is none. They count as open until the last byte is sent.
//   - A panic in a Handler closes its connection and is counted; the loop lives.
//   - Deadlines are coarse (one step of the wheel) and cheap; Alarms are precise
//     (tens of microseconds) and come from one locked thread that sleeps on an
//     absolute time of the kernel, because Go's timers round waits below a
//     millisecond up to one.
package loop
