package wire

import (
	"cmp"
	"slices"
	"time"

	"weir/internal/net/loop"
	"weir/internal/net/share"
)

// What a connection of a client takes besides its buffers, in bytes: about the size of its
// values, and with TLS the buffers and goroutines of the encryption.
const (
	plainBytes  = 4 << 10
	secureBytes = 64 << 10
)

// newMemory returns the memory budget. Only near it do loops count what each client holds.
func (f *Server) newMemory() *MemoryGuard {
	return &MemoryGuard{Budget: f.cfg.MemoryBudget, Held: f.held, Shed: f.shedClients, Log: f.cfg.Log}
}

// held returns how many bytes each client holds on all loops.
func (f *Server) held() *share.Usage {
	sum := new(share.Usage)
	for _, held := range gather(f.loops, func(s *loopServer, _ time.Time) *share.Usage { return s.held() }) {
		for c, n := range held.All() {
			sum.Add(c, n)
		}
	}
	return sum
}

// held returns how many bytes each client holds on the loop.
func (s *loopServer) held() *share.Usage {
	held := new(share.Usage)
	s.holders(func(h memoryHolder) { held.Add(h.shares(), h.bytes()+h.baseBytes()) })
	return held
}

// A memoryHolder holds memory for a client: a connection, or a stream of HTTP/2.
type memoryHolder interface {
	shares() share.Client
	bytes() int64     // of buffers
	baseBytes() int64 // without buffers
	heldSince() time.Time
	shedHeld(now time.Time) // ends it
}

// holders calls f for every memoryHolder of the loop.
func (s *loopServer) holders(f func(h memoryHolder)) {
	s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
		switch h := h.(type) {
		case *connection:
			f(h)
		case *http2Conn:
			f(h)
			for m := range h.m.Streams {
				f(m.Exchange.Owner.(*client).peer.(*http2Stream))
			}
		}
	})
}

// shares returns the client that what the exchange holds is counted for: the client of its
// request, or the peer until the head of that is complete.
func (c *client) shares() share.Client { return share.ClientOf(c.x.ClientAddr()) }

// bytes returns the size of the buffers of the connection, and of those of the connection to
// the target that it uses.
func (c *connection) bytes() int64 { return c.client.bytes() + c.conn.Buffered() }

// bytes returns the size of the buffers of the exchange, and of those of the connection to the target
// that it uses.
func (c *client) bytes() int64 {
	n := c.x.Memory()
	for _, u := range [...]*upstreamConn{c.upstream, c.own} {
		if u != nil {
			n += u.bytes()
		}
	}
	return n
}

// baseBytes returns the size of the connection without buffers. The connections of a trusted
// proxy belong to no client between requests.
func (c *connection) baseBytes() int64 { return baseBytes(c.conn, c.x.Trusted) }

func baseBytes(conn *loop.Conn, trusted bool) int64 {
	switch {
	case trusted:
		return 0
	case conn.Secure():
		return secureBytes
	}
	return plainBytes
}

func (c *connection) heldSince() time.Time { return c.s.Began() }

// A heldConn is what holds memory for a client to be shed, with its weight: buffered bytes times
// seconds.
type heldConn struct {
	c      memoryHolder
	bytes  int64
	weight float64
	began  time.Time
}

// shedClients ends requests and connections of the clients in keep until each holds at most that
// part of what it holds now. It returns how many it has ended.
func (f *Server) shedClients(keep map[share.Client]float64) (ended int) {
	for _, n := range gather(f.loops, func(s *loopServer, now time.Time) int { return s.shedClients(now, keep) }) {
		ended += n
	}
	return ended
}

// shedClients does so on one loop.
func (s *loopServer) shedClients(now time.Time, keep map[share.Client]float64) (ended int) {
	of := make(map[share.Client][]heldConn, len(keep))
	s.holders(func(c memoryHolder) {
		by := c.shares()
		if _, ok := keep[by]; !ok {
			return
		}
		buffered, began := c.bytes(), c.heldSince()
		of[by] = append(of[by], heldConn{c, buffered + c.baseBytes(), float64(buffered) * now.Sub(began).Seconds(), began})
	})
	for by, list := range of {
		ended += shedHoldings(now, list, keep[by])
	}
	return ended
}

// shedHoldings ends what holds most for longest, until at most a part of all is left.
func shedHoldings(now time.Time, list []heldConn, part float64) (ended int) {
	slices.SortFunc(list, func(a, b heldConn) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), a.began.Compare(b.began))
	})
	held := int64(0)
	for i := range list {
		held += list[i].bytes
	}
	for most := int64(part * float64(held)); held > most && ended < len(list); ended++ {
		h := &list[ended]
		held -= h.bytes
		h.c.shedHeld(now)
	}
	return ended
}

// shedHeld ends the connection. A client that does not read what it was sent gets no answer.
func (c *connection) shedHeld(now time.Time) {
	if c.conn.Unsent() > 0 {
		c.conn.Abort()
		return
	}
	c.s.HandleShortage(now)
	c.apply(now)
}
