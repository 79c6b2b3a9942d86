// Package relay is a TCP relay for tests and experiments. Between two programs it delays,
// drops or redirects what they send.
package relay

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Relay carries bytes between the connections that it accepts and those that it dials.
//
// Safe for concurrent use: mu guards pairs and ended, the rest is atomic.
type Relay struct {
	ln    net.Listener
	to    atomic.Pointer[func() string]
	delay atomic.Int64
	mute  atomic.Bool

	mu      sync.Mutex
	pairs   map[*pair]bool
	ended   bool
	running sync.WaitGroup
}

// A pair is two connections that belong together.
type pair struct {
	in, out net.Conn
	lost    atomic.Bool // what comes is discarded
}

// New returns a relay, which dials the address that to returns for each connection.
func New(to func() string) (*Relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{ln: ln, pairs: make(map[*pair]bool)}
	r.To(to)
	r.running.Go(r.accept)
	return r, nil
}

// Addr is the address listened on.
func (r *Relay) Addr() string { return r.ln.Addr().String() }

// To has connections from now on dial what to returns.
func (r *Relay) To(to func() string) { r.to.Store(&to) }

// Slow has what is answered from now on arrive so much later.
func (r *Relay) Slow(by time.Duration) { r.delay.Store(int64(by)) }

// Lose has whatever is sent over connections that are open, or opened until Lose(false),
// be lost for good, while both ends take them for open.
func (r *Relay) Lose(on bool) {
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

// Cut ends all connections.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pairs {
		p.close()
	}
}

// Close ends the relay.
func (r *Relay) Close() {
	_ = r.ln.Close()
	r.mu.Lock()
	r.ended = true
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

// join carries both ways.
func (r *Relay) join(p *pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		p.close()
		return
	}
	p.lost.Store(r.mute.Load())
	r.pairs[p] = true
	var halves sync.WaitGroup
	halves.Go(func() { p.carry(p.out, p.in, func() time.Duration { return 0 }) })
	halves.Go(func() { p.carry(p.in, p.out, func() time.Duration { return time.Duration(r.delay.Load()) }) })
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

// carry carries from one connection to the other until either ends.
func (p *pair) carry(to, from net.Conn, delay func() time.Duration) {
	defer p.close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !p.lost.Load() {
			time.Sleep(delay())
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
