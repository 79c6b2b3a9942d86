package wire

import (
	"slices"
	"time"

	"weir/internal/net/loop"
	"weir/internal/net/loop/looptest"
	"weir/proxy/http/session"
	"weir/proxy/wire/wiretest"
)

// A watcher is the peer of a client in a world: it checks what the session wants, and has the
// connection do it.
//
// Owned by its world.
type watcher struct {
	peer
	c     *connection
	front *wiretest.ClientView
	own   bool // what was written last is the session's own memory
}

func (w *watcher) view() *wiretest.ProxyView {
	c := w.c
	return &wiretest.ProxyView{Closed: c.closed, Upstream: c.upstream != nil, Own: c.own != nil,
		Waits: c.wait.Waiting() || c.gateBy, Chosen: c.at != nil, Deadline: c.s.Deadline(),
		Stalls: c.conn.Full() || c.upstream != nil && c.upstream.conn.Full()}
}

func (w *watcher) note(now time.Time, fx *session.Effects) {
	w.front.Effects(fx, w.view())
	w.own = fx.Response != nil // otherwise it may be a part of what was received
	w.peer.note(now, fx)
}

func (w *watcher) write(now time.Time, b []byte) {
	w.peer.write(now, b)
	if w.own {
		looptest.Poison(b)
	}
}

// watch watches the connections that are new, and takes leave of those that are closed.
func (p *inWorld) watch() {
	for _, s := range p.loops {
		s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
			c, ok := h.(*connection)
			if !ok || p.watched[c] != nil {
				return
			}
			w := &watcher{peer: c.peer, c: c, front: p.w.Accepted(c.conn.Remote())}
			c.peer, p.watched[c] = w, w
			p.order = append(p.order, w)
		})
	}
	p.order = slices.DeleteFunc(p.order, func(w *watcher) bool {
		if w.c.closed {
			w.front.Closed(w.view())
			delete(p.watched, w.c)
		}
		return w.c.closed
	})
}
