package loop

import (
	"crypto/tls"
	"errors"
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
	// stopGrace is how long Stop lets pumps send what was written before.
	stopGrace = time.Second
)

// A pump carries the plaintext of one TLS connection, by two goroutines that
// block: inward from TLS to the pair, outward from the pair to TLS. What the
// one side does not take, the other is not asked for.
//
// The ends of either side become those of the other: a close_notify half closes
// the pair, a half close of the pair sends a close_notify. When the Conn is
// gone what it had written is sent, then all is closed. An end that was no
// proper one leaves its cause before the pair is half closed; the Conn takes it
// from there.
//
// Safe for concurrent use: fields are fixed before the goroutines start, atomic
// or of those named.
type pump struct {
	set  *pumps
	c    *Conn
	wire net.Conn // the TCP connection
	tls  *tls.Conn
	pair *net.UnixConn // the end that is not the loop's

	pairRead syscall.RawConn
	fill     func(fd uintptr) bool // reads from the pair into buf: the outward goroutine's
	buf      *[pumpBytes]byte
	n        int

	cause   atomic.Pointer[error] // why nothing more comes, if that is no proper end
	wanting atomic.Bool           // the Conn waits for room in the pair
	retry   func(now time.Time)   // Conn.retry, made once
	halves  atomic.Int32          // goroutines still carrying
	unsent  int                   // of moved: the loop's, then the timer's

	mu    sync.Mutex // guards the rest
	let   bool       // the Conn is gone
	ended bool
	stall *time.Timer // looks whether the peer still takes what is left
}

// newPump returns the pump of c, or nil after Stop. The caller has it welcome
// or greet the peer.
func (g *Group) newPump(c *Conn, nc net.Conn, session func(net.Conn) *tls.Conn) *pump {
	p := &pump{set: &g.pumps, c: c, wire: nc, tls: session(wire{nc}), retry: c.retry}
	p.halves.Store(2)
	if !g.pumps.add(p) {
		return nil
	}
	return p
}

// attach gives the pump its end of the pair.
func (p *pump) attach(pair *net.UnixConn) error {
	raw, err := pair.SyscallConn()
	if err != nil {
		_ = pair.Close()
		return err
	}
	_ = pair.SetWriteBuffer(pairBytes)
	p.pair, p.pairRead, p.fill = pair, raw, p.readPair
	return nil
}

// inward carries what the peer sends.
func (p *pump) inward() {
	defer p.half()
	err := p.carryIn()
	if err == nil {
		return // the Conn is gone
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
func (p *pump) carryIn() error {
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

// outward carries what the Conn writes.
func (p *pump) outward() {
	defer p.half()
	for {
		if err := p.pairRead.Read(p.fill); err != nil || p.n <= 0 {
			p.set.put(p.buf)
			// The Conn half closed or is gone. This waits 5 s at most.
			_ = p.tls.CloseWrite()
			return
		}
		_, err := p.tls.Write(p.buf[:p.n])
		p.set.put(p.buf)
		p.buf = nil
		if err != nil {
			// The Conn finds it out by its next write; what the peer sent
			// before is still carried.
			_ = p.pair.CloseRead()
			return
		}
	}
}

// readPair reads from the pair and reports whether that is to be taken as it
// is; it is not when there is nothing yet. An idle connection has no buffer.
func (p *pump) readPair(fd uintptr) bool {
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
		p.c.loop.Post(p.retry)
	}
	return true
}

// half notes the end of one goroutine; the last one closes.
func (p *pump) half() {
	if p.halves.Add(-1) == 0 {
		p.end()
	}
}

// end closes what is left and gives back what was counted.
func (p *pump) end() {
	p.mu.Lock()
	p.ended = true
	if p.stall != nil {
		p.stall.Stop()
	}
	p.mu.Unlock()
	p.abort()
	if p.c.accepted {
		p.c.loop.g.leave(p.c)
	}
	p.set.remove(p)
}

// abort closes both sides at once, which ends the goroutines.
func (p *pump) abort() {
	_ = p.wire.Close()
	if p.pair != nil {
		_ = p.pair.Close()
	}
}

// reset closes both sides by a reset of the TCP connection.
func (p *pump) reset() {
	if tc, ok := p.wire.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	p.abort()
}

// letGo is told by the loop that the Conn is gone: what it has written is still
// sent, as the kernel does for a closed socket, as long as the peer takes it.
func (p *pump) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.let || p.ended {
		return
	}
	p.let = true
	_ = p.wire.SetReadDeadline(time.Unix(1, 0)) // ends inward
	p.stall = time.AfterFunc(p.set.writeStall, p.look)
}

// look ends a pump whose peer has taken nothing since the last look.
func (p *pump) look() {
	if !p.moved() {
		p.abort()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.stall.Reset(p.set.writeStall)
	}
}

// moved reports whether the peer has taken anything since the last call: the
// kernel knows what it has not acknowledged (tcp(7), SIOCOUTQ). That the pair
// or a blocked write moves says less, as both wait until a good part of a
// buffer is free. A peer that has taken everything does not hold us up.
func (p *pump) moved() bool {
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

// reason is why the peer sends no more; nil for a proper end.
func (p *pump) reason() error {
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// pumps are those of a Group.
//
// Safe for concurrent use: mu guards all, stopped and what the groups wait for.
type pumps struct {
	writeStall time.Duration
	stats      *counters
	buffers    sync.Pool

	mu       sync.Mutex
	all      map[*pump]bool // false until its Conn is in the loop
	stopped  bool
	settling sync.WaitGroup // those that shake hands or join
	running  sync.WaitGroup // all
}

func (s *pumps) add(p *pump) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if s.all == nil {
		s.all = make(map[*pump]bool)
	}
	s.all[p] = false
	s.settling.Add(1)
	s.running.Add(1)
	return true
}

// settle notes that the pump's Conn is in the loop.
func (s *pumps) settle(p *pump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[p] = true
	s.settling.Done()
}

func (s *pumps) remove(p *pump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all[p] {
		s.settling.Done()
	}
	delete(s.all, p)
	s.running.Done()
}

// refuse ends the handshakes and begins no more. It is called while the loops
// still run, as those that are on their way into one wait for it.
func (s *pumps) refuse() {
	s.mu.Lock()
	s.stopped = true
	for p, settled := range s.all {
		if !settled {
			_ = p.wire.Close()
		}
	}
	s.mu.Unlock()
	await(&s.settling, stopMax)
}

// stop ends all pumps, after a grace for what their Conns had written.
func (s *pumps) stop() {
	await(&s.running, stopGrace)
	s.mu.Lock()
	for p := range s.all {
		p.abort()
	}
	s.mu.Unlock()
	await(&s.running, stopMax)
}

func (s *pumps) take() *[pumpBytes]byte {
	if b, ok := s.buffers.Get().(*[pumpBytes]byte); ok {
		return b
	}
	return new([pumpBytes]byte)
}

// put gives a buffer back; nil is nothing.
func (s *pumps) put(b *[pumpBytes]byte) {
	if b != nil {
		s.buffers.Put(b)
	}
}
