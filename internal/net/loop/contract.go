package loop

import (
	"net/netip"
	"time"
)

// A Handler handles the events of one connection. All methods are called on the connection's
// loop; slices are borrowed for the call.
type Handler interface {
	// Data reads the unread bytes and returns how many it has read. The rest is passed
	// again with the next bytes, or after Conn.Pump.
	Data(now time.Time, b []byte) int
	// Expired is called once when the time set with Conn.SetDeadline has passed, unless bytes that had arrived until
	// then made Data set another.
	Expired(now time.Time)
	// Closed is the last call: the connection is closed. err is nil if this side closed
	// it, io.EOF if the peer did, and otherwise the error: io.ErrUnexpectedEOF if a TLS
	// connection ended without a close_notify, so that an attacker may have cut off the
	// end of the data.
	Closed(now time.Time, err error)
}

// An AcceptFunc returns the Handler of a new connection; nil refuses it. It is called on the
// connection's loop.
type AcceptFunc func(now time.Time, c *Conn) Handler

// A DialFunc receives the result of a dial, on the loop that dialled. If err is nil it returns
// the Handler of c (nil closes it); otherwise c is nil.
type DialFunc func(now time.Time, c *Conn, err error) Handler

// Config configures a Group. The zero value of a field means its default.
type Config struct {
	// Loops is the number of event loops. Default: runtime.GOMAXPROCS, which respects the
	// CPU limit of a container; Start raises GOMAXPROCS.
	Loops int
	// ConnectionsMax bounds the open accepted connections, including those in a handshake;
	// further ones are closed immediately and counted, unless there is one on which nothing
	// was received, which is closed instead. 0: as many as RLIMIT_NOFILE
	// permits after a reserve, if each has a dialled connection; fewer with TLS, which
	// takes three descriptors per connection.
	ConnectionsMax int
	// PerAddressMax bounds the accepted connections of one client address, or of one /64 of
	// IPv6; further ones are closed immediately and counted. 0: no bound, since one load
	// balancer may carry all clients.
	PerAddressMax int
	// Shares reports whether a peer is a client among others. Such a client is refused when it
	// has most of ConnectionsMax and few are left, so that others find room. A peer that
	// carries many clients is not one. Default: no peer is.
	Shares func(peer netip.Addr) bool
	// HandshakeTimeout bounds the TLS handshake of an accepted connection. Default 10 s.
	HandshakeTimeout time.Duration
	// Plain returns the answer to a client that does not send TLS to a Listener with TLS,
	// before the connection closes; first has its first bytes. It is called on a goroutine
	// of the connection. Default: no answer.
	Plain func(first [5]byte) []byte
	// InboundMax is the number of unread bytes of a connection beyond which reading is
	// paused. Reading resumes when at most half of that is left, so a Handler that waits
	// for a complete message needs a message to fit into half. Default 64 KiB.
	InboundMax int
	// OutboundMax is the number of unsent bytes beyond which the Handler of an accepted
	// connection is not fed (but see Conn.SetDuplex), and a connection is Full. Default
	// 64 KiB.
	OutboundMax int
	// WriteStall is how long unsent bytes may wait without progress before the connection
	// is closed. Default 15 s.
	WriteStall time.Duration
	// DialsMax bounds the dials in progress per Group; further ones wait. Default 64.
	DialsMax int
	// DialPace bounds how many dials of a loop to one address begin within a millisecond; further ones wait. While
	// dials wait it doubles every 250 ms. 0 means any number.
	DialPace int
	// Sources are the local addresses of dials, used in turn; one without free ports is
	// skipped. A pair of addresses has about 28,000 ports, which bounds the connections
	// between them. Default: the kernel chooses the address.
	Sources []netip.Addr
	// System replaces gnet and the system in tests; see package looptest. Default: the real ones.
	System System
	// Panicked is called for every panic of a Handler. Default: panics are only counted in
	// Stats.
	Panicked func(value any, stack []byte)
}
