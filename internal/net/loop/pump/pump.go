// Package pump copies the plaintext of TLS connections between crypto/tls and one socket of
// a pair of Unix sockets, so that the owner of the other socket treats a TLS connection
// like any other.
//
// The cost is two more copies and wake-ups per message, on TLS connections only.
package pump

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pumpBytes is how much is copied at a time: two full records.
	pumpBytes = 32 << 10
	// idleBytes is the size of the buffer that a connection reads into while it receives
	// little. With tens of thousands of idle connections pumpBytes each would be too much.
	idleBytes = 1 << 10
	// pairBytes is the requested buffer of the pair in each direction. The kernel doubles
	// it for its own bookkeeping.
	pairBytes = 64 << 10
)

// A Pump copies the plaintext of one TLS connection with two goroutines that block: inward
// from TLS to the pair, outward from the pair to TLS. Neither side reads more than the
// other accepts.
//
// The end of one side becomes that of the other: a close_notify half closes the pair, and a
// half close of the pair sends a close_notify. When the owner of the other socket closes
// it, what it has written is sent before everything is closed. The cause of an improper
// end is available from Reason before the pair is half closed.
//
// Safe for concurrent use: fields are fixed before the goroutines start, atomic, or used
// as noted. Progressed belongs to the owner until OwnerClosed.
type Pump struct {
	set      *Group
	ended    func()   // called when everything is closed
	writable func()   // called when the pair is writable, after NotifyWritable
	wire     net.Conn // the TCP connection
	tls      *tls.Conn
	pair     *net.UnixConn // the pump's end

	// Used by the outward goroutine only:
	pairRead syscall.RawConn
	fill     func(fd uintptr) bool // reads from the pair into buf
	buf      *[pumpBytes]byte
	n        int

	cause   atomic.Pointer[error] // of an improper end of the peer's data
	cut     atomic.Bool           // see MarkIncomplete
	wanting atomic.Bool           // the owner waits until the pair is writable
	unsent  int                   // at the last call of Progressed

	mu    sync.Mutex // guards the rest
	let   bool       // the owner has closed its socket
	over  bool
	stall *time.Timer // checks that the peer still accepts the rest
}

// New returns the pump of a TCP connection, or nil after Refuse. session makes its TLS
// session. The pump calls writable when the pair is writable again after NotifyWritable, and
// ended when its last socket is closed. The caller then calls Handshake, Join and Run, or End.
func (s *Group) New(wire net.Conn, session func(net.Conn) *tls.Conn, writable, ended func()) *Pump {
	p := &Pump{set: s, wire: wire, tls: session(CloseNotifyConn{wire}), writable: writable, ended: ended}
	if !s.add(p) {
		return nil
	}
	return p
}

// Handshake performs the TLS handshake, with a deadline unless by is zero. An error is that of
// crypto/tls or of the connection.
func (p *Pump) Handshake(by time.Time) error {
	_ = p.wire.SetDeadline(by)
	if err := p.tls.Handshake(); err != nil {
		return err
	}
	return p.wire.SetDeadline(time.Time{})
}

// Protocol returns the protocol that was negotiated by ALPN. It may be called after Handshake.
func (p *Pump) Protocol() string { return p.tls.ConnectionState().NegotiatedProtocol }

// Verified reports whether the peer has presented a certificate that the session trusts. It
// is called after Handshake.
func (p *Pump) Verified() bool { return len(p.tls.ConnectionState().VerifiedChains) > 0 }

// AnswerPlain answers a client whose Handshake failed with err because it does not speak TLS.
// plain returns the answer to the client's first bytes. Further bytes are discarded, up to
// the given number and for at most the given time.
func (p *Pump) AnswerPlain(err error, plain func(first [5]byte) []byte, bytes int64, most time.Duration) {
	var not tls.RecordHeaderError
	if !errors.As(err, &not) || not.Conn == nil { // nil: the client spoke TLS before
		return
	}
	answer := plain(not.RecordHeader)
	tcp, ok := p.wire.(*net.TCPConn)
	if len(answer) == 0 || !ok {
		return
	}
	_ = tcp.SetDeadline(time.Now().Add(most))
	_, _ = tcp.Write(answer)
	_ = tcp.CloseWrite()
	_, _ = io.CopyN(io.Discard, tcp, bytes)
}

// Join makes the pair and returns the owner's end. The caller calls Settle when the owner
// has it or has closed it.
func (p *Pump) Join() (net.Conn, error) {
	ours, theirs, err := Pair()
	if err != nil {
		return nil, fmt.Errorf("open socket pair: %w", err)
	}
	p.pair, p.fill = theirs.(*net.UnixConn), p.readPair
	if p.pairRead, err = p.pair.SyscallConn(); err != nil {
		_, _ = p.pair.Close(), ours.Close()
		return nil, err
	}
	_ = p.pair.SetWriteBuffer(pairBytes)
	_ = ours.(*net.UnixConn).SetWriteBuffer(pairBytes)
	return ours, nil
}

// Run copies in both directions until both have ended, and then closes everything. It starts a
// second goroutine.
func (p *Pump) Run() {
	var halves sync.WaitGroup
	halves.Go(p.outward)
	p.inward()
	halves.Wait()
	p.End()
}

// inward copies what the peer sends.
func (p *Pump) inward() {
	err := p.carryIn()
	if err == nil {
		return // the owner has closed its socket
	}
	if err != io.EOF {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF
		}
		p.cause.Store(&err)
	}
	_ = p.pair.CloseWrite()
}

// carryIn returns why the peer's data ended, or nil if the owner has closed its socket.
func (p *Pump) carryIn() error {
	idle := make([]byte, idleBytes)
	var big *[pumpBytes]byte
	defer func() { p.set.put(big) }()
	for b := idle; ; {
		n, err := p.tls.Read(b)
		if n > 0 {
			if _, gone := p.pair.Write(b[:n]); gone != nil {
				return nil
			}
		}
		switch {
		case err != nil:
			return err
		case n < idleBytes:
			p.set.put(big)
			b, big = idle, nil
		case big == nil: // the small buffer was filled: there is probably more
			big = p.set.take()
			b = big[:]
		}
	}
}

// outward copies what the owner writes.
func (p *Pump) outward() {
	for {
		if err := p.pairRead.Read(p.fill); err != nil || p.n <= 0 {
			p.set.put(p.buf)
			// The owner has half closed or closed its socket. CloseWrite waits 5 s at most.
			if p.cut.Load() {
				p.awaitTaken()
				p.resetOnClose()
			} else {
				_ = p.tls.CloseWrite()
			}
			return
		}
		_, err := p.tls.Write(p.buf[:p.n])
		p.set.put(p.buf)
		p.buf = nil
		if err != nil {
			// The owner's next write fails. What the peer sent before is still copied.
			_ = p.pair.CloseRead()
			return
		}
	}
}

// readPair reads from the pair. It returns false if there is nothing to read yet. An idle
// connection has no buffer.
func (p *Pump) readPair(fd uintptr) bool {
	if p.buf == nil {
		p.buf = p.set.take()
	}
	var err error
	for again := true; again; again = err == unix.EINTR {
		p.n, err = unix.Read(int(fd), p.buf[:])
	}
	if err == unix.EAGAIN {
		p.set.put(p.buf)
		p.buf = nil
		return false
	}
	if p.wanting.Load() && p.wanting.Swap(false) {
		p.writable()
	}
	return true
}

// End closes everything and removes the pump from its set.
func (p *Pump) End() {
	p.mu.Lock()
	p.over = true
	if p.stall != nil {
		p.stall.Stop()
	}
	p.mu.Unlock()
	p.Abort()
	p.ended()
	p.set.remove(p)
}

// Abort closes both sides immediately, which ends the goroutines.
func (p *Pump) Abort() {
	_ = p.wire.Close()
	if p.pair != nil {
		_ = p.pair.Close()
	}
}

// Reset closes both sides, and resets the TCP connection.
func (p *Pump) Reset() {
	p.resetOnClose()
	p.Abort()
}

func (p *Pump) resetOnClose() {
	if tc, ok := p.wire.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
}

// MarkIncomplete says that what the owner has written is incomplete: when the peer has it, the connection is
// reset. The caller then calls OwnerClosed.
func (p *Pump) MarkIncomplete() { p.cut.Store(true) }

// takenStep is the interval between two looks at what the peer has acknowledged.
const takenStep = 5 * time.Millisecond

// awaitTaken waits until the peer has acknowledged everything. If it stops doing so, look closes
// the connection, which ends the wait.
func (p *Pump) awaitTaken() {
	for n, ok := p.unacknowledged(); ok && n > 0; n, ok = p.unacknowledged() {
		time.Sleep(takenStep)
	}
}

// OwnerClosed handles the close of the owner's socket: what it has written is still sent, as the
// kernel does for a closed socket, for as long as the peer accepts it.
func (p *Pump) OwnerClosed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.let || p.over {
		return
	}
	p.let = true
	_ = p.wire.SetReadDeadline(time.Unix(1, 0)) // ends inward
	p.stall = time.AfterFunc(p.set.WriteStall, p.look)
}

// look ends a pump whose peer has accepted nothing since the last call.
func (p *Pump) look() {
	if !p.Progressed() {
		p.Abort()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.stall.Reset(p.set.WriteStall)
	}
}

// Progressed reports whether the peer has acknowledged bytes since the last call, or has acknowledged
// all bytes (tcp(7), SIOCOUTQ). Progress of the pair or of a blocked write would be less precise,
// because both wait until a good part of a buffer is free.
func (p *Pump) Progressed() bool {
	unsent, ok := p.unacknowledged()
	if !ok || unsent > 0 && unsent == p.unsent {
		return false
	}
	p.unsent = unsent
	return true
}

// unacknowledged returns how many bytes the peer has not acknowledged, unless the connection is
// closed.
func (p *Pump) unacknowledged() (n int, ok bool) {
	ok = p.control(func(fd int) { n, _ = unix.IoctlGetInt(fd, unix.TIOCOUTQ) })
	return n, ok
}

// Quiet reports whether there is nothing to read from the TCP connection: bytes, an end, or an error.
func (p *Pump) Quiet() (quiet bool) {
	return p.control(func(fd int) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		quiet = n == 0 && err == nil
	}) && quiet
}

// control calls do with the TCP socket, and reports whether it could.
func (p *Pump) control(do func(fd int)) bool {
	sc, ok := p.wire.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { do(int(fd)) }) == nil
}

// NotifyWritable requests a call of writable when the pair is writable. The pair is small, so polling
// would be slow.
func (p *Pump) NotifyWritable() { p.wanting.Store(true) }

// Reason returns why the peer sends no more, or nil for a proper end.
func (p *Pump) Reason() error {
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// truncated is the error of a connection that ended without a close_notify: an attacker may
// have cut off the end of the data.
type truncated struct{}

func (truncated) Error() string { return "the connection ended without a close_notify" }

// Unwrap makes it an unexpected end.
func (truncated) Unwrap() error { return io.ErrUnexpectedEOF }

// A CloseNotifyConn is the TCP connection below a tls.Conn. crypto/tls accepts an end between two
// records as proper; here it is an error (RFC 8446 section 6.1: the truncation attack).
type CloseNotifyConn struct{ net.Conn }

// Read is that of net.Conn, with an error for a truncated connection.
func (w CloseNotifyConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err == io.EOF {
		err = truncated{}
	}
	return n, err
}
