// Package relay is a TCP relay for tests and experiments. It delays, drops or redirects
// what two programs send each other.
package relay

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Relay copies bytes between the connections that it accepts and those that it dials.
//
// Safe for concurrent use: mu guards pairs and closed, the rest is atomic.
type Relay struct {
	ln    net.Listener
	to    atomic.Pointer[func() string]
	delay atomic.Int64
	mute  atomic.Bool
	pass  atomic.Pointer[Filter]

	mu      sync.Mutex
	pairs   map[*pair]bool
	joined  int // connections so far
	closed  bool
	running sync.WaitGroup
}

// A pair is an accepted connection and the one dialled for it.
type pair struct {
	in, out net.Conn
	number  int
	lost    atomic.Bool // everything received is discarded
}

// New returns a relay. For each accepted connection it dials the address that to returns.
func New(to func() string) (*Relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{ln: ln, pairs: make(map[*pair]bool)}
	r.Redirect(to)
	r.SetFilter(func(_ int, _ bool, piece []byte, write func([]byte) error) error { return write(piece) })
	r.running.Go(r.accept)
	return r, nil
}

// Addr returns the address that the relay listens on.
func (r *Relay) Addr() string { return r.ln.Addr().String() }

// Redirect replaces the function that returns the address to dial.
func (r *Relay) Redirect(to func() string) { r.to.Store(&to) }

// A Filter passes on a piece of what one side has sent. number is that of the connection, from 0;
// answer says that the dialled side has sent it. An error closes the connection.
type Filter func(number int, answer bool, piece []byte, write func([]byte) error) error

// SetFilter has c carry what is received from now on.
func (r *Relay) SetFilter(c Filter) { r.pass.Store(&c) }

// Delay delays the answers from now on.
func (r *Relay) Delay(by time.Duration) { r.delay.Store(int64(by)) }

// Drop discards, if on, everything sent over connections that are open now or opened before
// Drop(false), for as long as they exist. Neither end sees them close.
func (r *Relay) Drop(on bool) {
	r.mute.Store(on)
	if !on {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pairs {
		p.lost.Store(true)
	}
}

// Cut closes all connections.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pairs {
		p.close()
	}
}

// Close stops the relay.
func (r *Relay) Close() {
	_ = r.ln.Close()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.Cut()
	r.running.Wait()
}

func (r *Relay) accept() {
	for {
		in, err := r.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", (*r.to.Load())())
		if err != nil {
			_ = in.Close()
			continue
		}
		r.join(&pair{in: in, out: out})
	}
}

// join starts copying in both directions.
func (r *Relay) join(p *pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		p.close()
		return
	}
	p.lost.Store(r.mute.Load())
	p.number = r.joined
	r.joined++
	r.pairs[p] = true
	var halves sync.WaitGroup
	halves.Go(func() { r.carry(p, false) })
	halves.Go(func() { r.carry(p, true) })
	r.running.Go(func() {
		halves.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.pairs, p)
	})
}

func (p *pair) close() {
	_ = p.in.Close()
	_ = p.out.Close()
}

// carry copies from one connection of a pair to the other until either ends.
func (r *Relay) carry(p *pair, answer bool) {
	defer p.close()
	to, from := p.out, p.in
	if answer {
		to, from = p.in, p.out
	}
	write := func(piece []byte) error { _, err := to.Write(piece); return err }
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !p.lost.Load() {
			if answer {
				time.Sleep(time.Duration(r.delay.Load()))
			}
			if (*r.pass.Load())(p.number, answer, b[:n], write) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
