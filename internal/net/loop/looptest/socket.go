package looptest

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Buffer is the size of the buffer of a socket for each direction, in bytes.
const Buffer = 8 << 10

// A Peer is the other end of a Socket. Wake is called when it can send or receive more, or the
// connection has ended.
type Peer interface{ Wake() }

// A Socket is a TCP connection of a Group, with both its buffers. Its methods are for the peer.
//
// Owned by its Kernel; the exported fields that its comments do not mention may only be read.
type Socket struct {
	ID   int
	side string         // begins the notes of what happens
	Addr netip.AddrPort // of the peer
	Peer Peer           // must be set before the first event
	Log  *History       // may be set

	Written int // bytes taken from the Group, altogether

	Ended  bool      // the peer sends no more
	Gone   bool      // it receives no more either: the Group's bytes are answered by a reset
	Lost   time.Time // when the peer reset the connection; zero: it has not
	Broken time.Time // when a write of the Group failed because of that
	Shut   bool      // the Group has half closed it
	Closed bool      // the Group has closed it,
	Cut    bool      // and the peer was reset
	Faulty bool      // a system call about it has failed

	k     *Kernel
	given int    // bytes that the peer has received
	in    []byte // sent to the Group and not read
	out   []byte // written by the Group and not received by the peer
	abort bool   // its close is to be a reset
	files int    // its descriptors
	conn  *conn  // while it is in a loop
}

// NewSocket returns a socket for Connect, or for the result of Reach. side begins what is noted of it.
func (k *Kernel) NewSocket(side string, addr netip.AddrPort, log *History) *Socket {
	return &Socket{k: k, ID: k.Serial(), side: side, Addr: addr, Log: log}
}

func (s *Socket) note(what string, n int, text string) {
	s.Log.Note(s.k.Now(), s.side+what, int64(n), text)
}

func (s *Socket) wake() {
	if s.Peer != nil {
		s.Peer.Wake()
	}
}

// Unread returns how many bytes of the peer the Group has not read, as far as the system knows.
func (s *Socket) Unread() int { return len(s.in) }

// Sent returns how many bytes the peer may receive.
func (s *Socket) Sent() int { return len(s.out) }

// Room returns how many bytes the peer may send.
func (s *Socket) Room() int {
	if s.Closed {
		return Buffer // they are answered by a reset
	}
	return Buffer - len(s.in)
}

// Send sends b, for which there must be room.
func (s *Socket) Send(b []byte) {
	if s.Closed {
		s.cut()
		return
	}
	if s.Ended || !s.Lost.IsZero() {
		return
	}
	s.note("sends", len(b), "")
	s.in = append(s.in, b...)
	s.changed()
}

// Receive returns at most n bytes that the Group has written.
func (s *Socket) Receive(n int) []byte {
	n = min(n, len(s.out))
	b := s.out[:n:n]
	s.out = s.out[n:]
	s.given += n
	return b
}

// End half closes: the peer sends no more.
func (s *Socket) End() {
	if s.Ended || !s.Lost.IsZero() {
		return
	}
	s.note("ends", 0, "")
	s.Ended = true
	s.changed()
}

// Close closes the peer's socket: it receives no more either.
func (s *Socket) Close() {
	s.Gone = true
	s.End()
	if len(s.out) > 0 {
		s.Reset()
	}
}

// Reset resets the connection.
func (s *Socket) Reset() {
	if s.Lost.IsZero() && !s.Closed {
		s.Lost, s.out = s.k.Now(), nil
		s.note("resets", 0, "")
	}
	s.changed()
}

// Over reports whether the peer has received everything, and whether the end was a reset.
func (s *Socket) Over() (ended, reset bool) {
	if s.Cut || !s.Lost.IsZero() {
		return true, true
	}
	return len(s.out) == 0 && (s.Closed || s.Shut), false
}

// cut resets the peer: what it has not received is lost.
func (s *Socket) cut() {
	if !s.Cut {
		s.Cut, s.out = true, nil
		s.wake()
	}
}

// over: both sides have ended, and have what the other has sent.
func (s *Socket) over() bool { return s.Ended && s.Shut && s.given == s.Written }

// changed has the loop look at the socket.
func (s *Socket) changed() {
	if gc := s.conn; gc != nil {
		s.k.After(s.k.Within(200*time.Microsecond), func() { s.k.poll(gc) })
	}
}

// Write implements loop.System, as do the following.
func (k *Kernel) Write(fd int, b []byte) (int, error) {
	s := k.socket(fd)
	switch {
	case k.Odds(0.02):
		return 0, unix.EINTR
	case !s.Lost.IsZero():
		s.Broken = k.Now()
		return 0, unix.EPIPE
	case s.Shut:
		k.Failed(s.Log, "writes after the half close")
		return 0, unix.EPIPE
	}
	n := min(len(b), Buffer-(s.Written-s.given))
	if n > 1 && k.Odds(0.2) {
		n = 1 + k.IntN(n)
	}
	if n == 0 {
		return 0, unix.EAGAIN
	}
	s.out = append(s.out, b[:n]...)
	s.Written += n
	if s.Gone {
		k.After(k.Within(time.Millisecond), s.Reset)
	}
	s.wake()
	return n, nil
}

// Read is described at loop.System.
func (k *Kernel) Read(fd int, b []byte) (int, error) {
	s := k.socket(fd)
	switch {
	case len(s.in) > 0:
		n := copy(b, s.in)
		s.in = s.in[n:]
		s.wake()
		return n, nil
	case s.Ended:
		return 0, nil
	case !s.Lost.IsZero():
		return 0, unix.ECONNRESET
	}
	return 0, unix.EAGAIN
}

// SocketError is described at loop.System.
func (k *Kernel) SocketError(fd int) error {
	if s := k.socket(fd); !s.Lost.IsZero() {
		return unix.ECONNRESET
	}
	return nil
}

// Unacked is described at loop.System.
func (k *Kernel) Unacked(fd int) int {
	s := k.socket(fd)
	return s.Written - s.given
}

// Shutdown is described at loop.System.
func (k *Kernel) Shutdown(fd int) {
	s := k.socket(fd)
	s.Shut = true
	s.wake()
}

// Reset is described at loop.System.
func (k *Kernel) Reset(fd int) { k.socket(fd).abort = true }

// Close is described at loop.System.
func (k *Kernel) Close(fd int) {
	s := k.socket(fd)
	delete(k.files, fd)
	if s.files--; s.files > 0 {
		return
	}
	s.Closed = true
	s.note("is closed, unread", len(s.in), "")
	if !s.over() && (s.abort || len(s.in) > 0) {
		s.cut()
	}
	s.wake()
}
