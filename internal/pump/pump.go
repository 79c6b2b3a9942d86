// Package pump carries the plaintext of TLS connections between crypto/tls and one of a
// pair of Unix sockets, so that the owner of the other socket treats a TLS connection like
// any other.
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
	// pumpBytes is how much is carried at a time: two full records.
	pumpBytes = 32 << 10
	// idleBytes is what a connection reads into while little comes: tens of
	// thousands of idle connections hold this much each, not pumpBytes.
	idleBytes = 1 << 10
	// pairBytes is asked for as the pair's buffer in each direction; the
	// kernel doubles it for its own needs.
	pairBytes = 64 << 10
)

// A Pump carries the plaintext of one TLS connection, by two goroutines that
// block: inward from TLS to the pair, outward from the pair to TLS. What the
// one side does not take, the other is not asked for.
//
// The ends of either side become those of the other: a close_notify half closes
// the pair, a half close of the pair sends a close_notify. When the owner of the
// other socket lets go, what it had written is sent, then all is closed. An end
// that was no proper one leaves its cause (Reason) before the pair is half closed.
//
// Safe for concurrent use: fields are fixed before the goroutines start, atomic
// or of those named. Moved is the owner's until LetGo.
type Pump struct {
	set   *Set
	ended func()   // everything is closed
	room  func()   // there is room in the pair, after Want
	wire  net.Conn // the TCP connection
	tls   *tls.Conn
	pair  *net.UnixConn // the end that is not the owner's

	pairRead syscall.RawConn
	fill     func(fd uintptr) bool // reads from the pair into buf: the outward goroutine's
	buf      *[pumpBytes]byte
	n        int

	cause   atomic.Pointer[error] // why nothing more comes, if that is no proper end
	wanting atomic.Bool           // the owner waits for room in the pair
	halves  atomic.Int32          // goroutines still carrying
	unsent  int                   // of Moved: the owner's, then the timer's

	mu    sync.Mutex // guards the rest
	let   bool       // the owner is gone
	over  bool
	stall *time.Timer // looks whether the peer still takes what is left
}

// New returns the pump of a TCP connection, or nil after Refuse. session makes its TLS
// session; room is called, by the pump, when there is room again after Want; ended when
// the last of its sockets is closed. The caller has it Shake hands, Join and Run, or End.
func (s *Set) New(wire net.Conn, session func(net.Conn) *tls.Conn, room, ended func()) *Pump {
	p := &Pump{set: s, wire: wire, tls: session(Whole{wire}), room: room, ended: ended}
	p.halves.Store(2)
	if !s.add(p) {
		return nil
	}
	return p
}

// Shake has to have shaken hands by the given time; the zero time is never. An error is
// of crypto/tls or of the connection.
func (p *Pump) Shake(by time.Time) error {
	_ = p.wire.SetDeadline(by)
	if err := p.tls.Handshake(); err != nil {
		return err
	}
	return p.wire.SetDeadline(time.Time{})
}

// Verified reports whether the peer has shown a certificate that the session trusts. It is
// called after Shake.
func (p *Pump) Verified() bool { return len(p.tls.ConnectionState().VerifiedChains) > 0 }

// AnswerPlain answers a client whose Shake failed with err because it does not speak
// TLS, with what plain says to the first bytes that it sent. What it still sends is
// discarded, bytes at most and for no longer than the time given.
func (p *Pump) AnswerPlain(err error, plain func(first [5]byte) []byte, bytes int64, most time.Duration) {
	var not tls.RecordHeaderError
	if !errors.As(err, &not) || not.Conn == nil { // nil: TLS has been spoken
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

// Join makes the pair and returns the owner's end of it. When the owner has it, or has
// let go, the caller says so by Settle.
func (p *Pump) Join() (net.Conn, error) {
	ours, theirs, err := Pair()
	if err != nil {
		return nil, fmt.Errorf("open socket pair: %w", err)
	}
	if err := p.attach(theirs.(*net.UnixConn)); err != nil {
		_ = ours.Close()
		return nil, err
	}
	_ = ours.(*net.UnixConn).SetWriteBuffer(pairBytes)
	return ours, nil
}

// attach gives the pump its end of the pair.
func (p *Pump) attach(pair *net.UnixConn) error {
	raw, err := pair.SyscallConn()
	if err != nil {
		_ = pair.Close()
		return err
	}
	_ = pair.SetWriteBuffer(pairBytes)
	p.pair, p.pairRead, p.fill = pair, raw, p.readPair
	return nil
}

// Run carries both ways until both directions have ended. It takes a goroutine beside
// the caller's.
func (p *Pump) Run() {
	go p.outward()
	p.inward()
}

// inward carries what the peer sends.
func (p *Pump) inward() {
	defer p.half()
	err := p.carryIn()
	if err == nil {
		return // the owner is gone
	}
	if err != io.EOF {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.ErrUnexpectedEOF
		}
		p.cause.Store(&err)
	}
	_ = p.pair.CloseWrite()
}

// carryIn returns how the peer's bytes ended; nil when nobody takes them.
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
		case big == nil: // filled the small one: there is probably more
			big = p.set.take()
			b = big[:]
		}
	}
}

// outward carries what the owner writes.
func (p *Pump) outward() {
	defer p.half()
	for {
		if err := p.pairRead.Read(p.fill); err != nil || p.n <= 0 {
			p.set.put(p.buf)
			// The owner half closed or is gone. This waits 5 s at most.
			_ = p.tls.CloseWrite()
			return
		}
		_, err := p.tls.Write(p.buf[:p.n])
		p.set.put(p.buf)
		p.buf = nil
		if err != nil {
			// The owner finds it out by its next write; what the peer sent
			// before is still carried.
			_ = p.pair.CloseRead()
			return
		}
	}
}

// readPair reads from the pair and reports whether that is to be taken as it
// is; it is not when there is nothing yet. An idle connection has no buffer.
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
		p.room()
	}
	return true
}

// half notes the end of one goroutine; the last one closes.
func (p *Pump) half() {
	if p.halves.Add(-1) == 0 {
		p.End()
	}
}

// End closes what is left and gives back what was counted.
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

// Abort closes both sides at once, which ends the goroutines.
func (p *Pump) Abort() {
	_ = p.wire.Close()
	if p.pair != nil {
		_ = p.pair.Close()
	}
}

// Reset closes both sides by a reset of the TCP connection.
func (p *Pump) Reset() {
	if tc, ok := p.wire.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	p.Abort()
}

// LetGo handles the end of the owner: what it has written is still
// sent, as the kernel does for a closed socket, as long as the peer takes it.
func (p *Pump) LetGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.let || p.over {
		return
	}
	p.let = true
	_ = p.wire.SetReadDeadline(time.Unix(1, 0)) // ends inward
	p.stall = time.AfterFunc(p.set.WriteStall, p.look)
}

// look ends a pump whose peer has taken nothing since the last look.
func (p *Pump) look() {
	if !p.Moved() {
		p.Abort()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.stall.Reset(p.set.WriteStall)
	}
}

// Moved reports whether the peer has taken anything since the last call: the
// kernel knows what it has not acknowledged (tcp(7), SIOCOUTQ). That the pair
// or a blocked write moves says less, as both wait until a good part of a
// buffer is free. A peer that has taken everything does not hold us up.
func (p *Pump) Moved() bool {
	sc, ok := p.wire.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	unsent := 0
	err = raw.Control(func(fd uintptr) { unsent, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	if err != nil || unsent > 0 && unsent == p.unsent {
		return false
	}
	p.unsent = unsent
	return true
}

// Want has room called when there is room in the pair: it is small, so that trying again
// by the clock would be slow.
func (p *Pump) Want() { p.wanting.Store(true) }

// Reason is why the peer sends no more; nil for a proper end.
func (p *Pump) Reason() error {
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// A truncated connection ended without a close_notify: what it sent last may
// have been cut off by an attacker.
type truncated struct{}

func (truncated) Error() string { return "the connection ended without a close_notify" }

// Unwrap makes it an unexpected end.
func (truncated) Unwrap() error { return io.ErrUnexpectedEOF }

// A Whole is the TCP connection below a tls.Conn. crypto/tls takes an end at the
// border of a record for a proper one; here it is an error (RFC 8446 section
// 6.1: the truncation attack).
type Whole struct{ net.Conn }

// Read is net.Conn's, with a truncated end as an error.
func (w Whole) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err == io.EOF {
		err = truncated{}
	}
	return n, err
}
