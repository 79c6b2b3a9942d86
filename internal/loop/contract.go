package loop

import (
	"net/netip"
	"time"
)

// A Handler is told what happens on one connection. All methods are called on
// the connection's loop; slices are borrowed for the call.
type Handler interface {
	// Data reads the unread bytes and returns how many of them it has read.
	// The rest comes again with the next bytes, or after Conn.Pump.
	Data(now time.Time, b []byte) int
	// Expired says that the time set with Conn.SetDeadline has passed. It is
	// told once per deadline set.
	Expired(now time.Time)
	// Closed is the last call: the connection is gone. err is nil when this
	// side closed it, io.EOF when the peer did, else what went wrong:
	// io.ErrUnexpectedEOF when a TLS connection ended without a close_notify,
	// so that what came last may have been cut off by an attacker.
	Closed(now time.Time, err error)
}

// An AcceptFunc gives a new connection its Handler; nil refuses it.
// It is called on the connection's loop.
type AcceptFunc func(now time.Time, c *Conn) Handler

// A DialFunc is told how a dial ended, on the loop that asked. When err is nil
// it returns the Handler of c (nil closes it); otherwise c is nil.
type DialFunc func(now time.Time, c *Conn, err error) Handler

// Config sets up a Group. The zero value of a field means its default.
type Config struct {
	// Loops is the number of event loops. Default: runtime.GOMAXPROCS, which
	// knows the CPU limit of a container; Start raises it.
	Loops int
	// ConnectionsMax bounds the accepted connections open at a time, those
	// that still shake hands included; a further one is closed at once and
	// counted. 0: what RLIMIT_NOFILE suffices for after a reserve, with as
	// many dialled connections; fewer once TLS is used, of which a connection
	// takes three descriptors.
	ConnectionsMax int
	// PerAddressMax bounds the accepted connections of one client address, or
	// of one /64 of IPv6; a further one is closed at once and counted. 0: no
	// bound, as one balancer may be every client.
	PerAddressMax int
	// HandshakeTimeout is how long an accepted connection may take for its TLS
	// handshake. Default 10 s.
	HandshakeTimeout time.Duration
	// Plain is what a client is answered that sends something else than TLS to
	// a Listener with TLS, before the connection closes; first is what it
	// begins with. It is called on a goroutine of the connection. Default:
	// nothing.
	Plain func(first [5]byte) []byte
	// InboundMax is how many unread bytes one connection may have waiting
	// before reading from it is paused; it goes on when no more than half of
	// that is left, so a Handler that waits for something to be whole must be
	// able to hold it in half. Default 64 KiB.
	InboundMax int
	// OutboundMax is how many unsent bytes an accepted connection may have
	// before its Handler is fed no more (but see Conn.SetDuplex), and from
	// which a connection is Full. Default 64 KiB.
	OutboundMax int
	// WriteStall is how long unsent bytes may wait without any progress
	// before the connection is closed. Default 15 s.
	WriteStall time.Duration
	// DialsMax bounds the dials under way per Group; further ones wait.
	// Default 64.
	DialsMax int
	// Sources are local addresses that dials start from, in turn; one whose
	// ports are all taken is passed over. One pair of addresses has some
	// 28,000 ports, which is as many connections as there can be between them.
	// Default: the kernel chooses the address.
	Sources []netip.Addr
	// Panicked is told of every panic that a Handler caused. Default: nothing
	// beyond the count in Stats.
	Panicked func(value any, stack []byte)
}
