package wire

import (
	"slices"

	"weir/internal/net/loop"
)

// Check holds the laws that are always in force: the counts of the pools are those of what there is.
func (p *inWorld) Check() {
	p.watch()
	conns := make(map[*target][]*upstreamConn)
	for _, s := range p.loops {
		for _, at := range s.targets.Targets() {
			if !slices.Contains(p.targets, at.Value) {
				p.targets = append(p.targets, at.Value)
			}
		}
		s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
			if u, ok := h.(*upstreamConn); ok {
				conns[u.target] = append(conns[u.target], u)
				p.checkConn(u)
			}
		})
	}
	waiting, held := make(map[*target]int), make(map[*target]int)
	for _, w := range p.order {
		c := w.c
		p.checkClient(w)
		if c.wait.Waiting() && !c.gateBy {
			waiting[c.at.Value]++
		}
		if c.gateBy {
			held[c.at.Value]++
		}
	}
	for _, t := range p.targets {
		p.checkTarget(t, conns[t], waiting[t], held[t])
	}
	for _, s := range p.loops {
		p.checkPlaces(s)
	}
}

// checkPlaces holds the law of places: those who have one are at a target, or wait for a connection to it.
func (p *inWorld) checkPlaces(s *loopServer) {
	for w := range s.queue.LongHeld(p.w.Now(), 0) {
		switch h := w.Value; {
		case h.abandoned != nil:
			if h.abandoned.abandoned == nil {
				p.w.Fail("a place is kept for an abandoned exchange that has ended")
			}
		case h.upstream == nil && !h.wait.Waiting():
			p.front(h.client).Wrong("a place is kept without a connection to a target, or a wait for one")
		}
	}
}

// checkClient holds the laws of one connection of a client.
func (p *inWorld) checkClient(w *watcher) {
	const unsentMax = 4<<10 + 2*(2<<10+2<<10+4<<10+4<<10) // OutboundMax, and what two calls write
	c := w.c
	w.front.Rests(w.view())
	switch {
	case c.upstream != nil && c.upstream.owner != &c.client || c.own != nil && c.own.owner != &c.client:
		w.front.Wrong("a connection to a target belongs to another client")
	case c.conn.Unsent() > unsentMax || c.upstream != nil && c.upstream.conn.Unsent() > unsentMax:
		w.front.Wrong("%d bytes are unsent to the client, or too many to the target", c.conn.Unsent())
	}
	if w.view().Stalls {
		p.w.Saw("sides that took nothing")
	}
	if c.own != nil {
		p.w.Saw("private connections")
	}
	if c.gateBy {
		p.w.Saw("waits for a place")
		if c.partial {
			p.w.Saw("last pieces that waited")
		}
	}
}

// checkConn holds the laws of one connection to a target.
func (p *inWorld) checkConn(u *upstreamConn) {
	switch {
	case u.abandoned != nil && !p.left[u]:
		p.left[u] = true
		p.w.Saw("requests whose client left the target to work")
	case u.abandoned == nil && p.left[u]:
		delete(p.left, u)
		p.w.Saw("connections used again after their client left")
	}
	if (u.owner == nil || u.owner.own == u) && u.abandoned == nil && p.w.Announced(u.conn.Remote()) {
		p.w.Fail("a connection to a target is kept on which an answer is under way, or that closes, as the target said")
	}
}

// checkTarget compares the counts of one loop's view of a target with what there is.
func (p *inWorld) checkTarget(t *target, conns []*upstreamConn, waiting, held int) {
	idle := 0
	for _, u := range conns {
		if u.owner == nil && u.abandoned == nil {
			idle++
		}
	}
	pool := t.pool
	if pool.Size() != len(conns) || pool.InFlight()-pool.Busy() != waiting || pool.Idle() > idle || t.waiting != held {
		p.w.Fail("%s: the pool says %d open, %d idle, %d waiting, %d waiting for a place; there are %d, %d, %d, %d",
			t.spec.Addr, pool.Size(), pool.Idle(), pool.InFlight()-pool.Busy(), t.waiting, len(conns), idle, waiting, held)
	}
	if slices.ContainsFunc(t.bound, func(c *client) bool { return c.bound() != t }) {
		p.w.Fail("%s: one waits for a place there that is not bound to a connection to it", t.spec.Addr)
	}
	if waiting > 0 && pool.Connecting() == 0 && pool.Size() == 0 {
		p.w.Fail("%s: %d wait, and nothing is under way for them", t.spec.Addr, waiting)
	}
}

// Rest holds the laws of a proxy whose clients have all gone.
func (p *inWorld) Rest() {
	for _, t := range p.targets {
		pool := t.pool
		if pool.Size()+pool.Connecting()+pool.Waiting() > 0 || pool.Streams() > 0 || t.waiting > 0 || len(t.bound) > 0 ||
			t.left.all.Load() > 0 {
			p.w.Fail("%s: %d connections, %d connects, %d in flight, %d streams, %d waiting for a place, %d abandoned are left",
				t.spec.Addr, pool.Size(), pool.Connecting(), pool.InFlight(), pool.Streams(), t.waiting, t.left.all.Load())
		}
		if n, waits := t.gate.InFlight(), t.gate.Waiting.Load(); n != 0 || waits != 0 {
			p.w.Fail("%s: the gate counts %d in flight, %d waiting when there are none", t.spec.Addr, n, waits)
		}
	}
	for _, s := range p.loops {
		if s.queue.Len() > 0 || s.parked > 0 {
			p.w.Fail("%d wait in the queue of a loop without clients, %d beside it", s.queue.Len(), s.parked)
		}
	}
}
