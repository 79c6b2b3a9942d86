package sessiontest

import (
	"slices"

	"weir/internal/net/http1"
	"weir/internal/net/loop/looptest"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
)

// pieceMax bounds the bytes that one call can write: what was collected, what was
// received, and added fields.
const pieceMax = headMax + bufferMax + looptest.InboundMax + 4<<10

// checkEffects checks that the effects of a session are allowed in its state.
func (f *front) checkEffects(fx *session.Effects) {
	const nothing = exchange.ReleaseNone
	sends := len(fx.Upstream)+len(fx.Upload) > 0 || fx.Forward != nil || fx.Uploaded
	speaks := len(fx.Client) > 0 || fx.Own != nil || sends || fx.EndClient || fx.EndUpstream
	switch {
	case f.ended && (speaks || fx.Acquire != exchange.AcquireNone || fx.Release != nothing ||
		fx.Close != session.CloseNone):
		f.wrong("something is wanted after the session has closed the connection: %+v", *fx)
	case f.away && (speaks || fx.Close != session.CloseNone || fx.Acquire != exchange.AcquireNone &&
		fx.Acquire != exchange.AcquireCancel):
		f.wrong("something is wanted for a client that is gone: %+v", *fx)
	case sends && f.upstream == nil:
		f.wrong("something is sent to a target without a connection to one")
	case fx.Release != nothing && f.upstream == nil:
		f.wrong("a release without a connection to a target")
	case fx.EndUpstream && f.upstream == nil:
		f.wrong("an end for a target without a connection to one")
	case fx.Acquire == exchange.AcquireCancel && f.at != nil && !f.wait.Waiting():
		f.wrong("a wait is given up that there is not")
	case fx.Acquire != exchange.AcquireNone && fx.Acquire != exchange.AcquireCancel && f.upstream != nil &&
		fx.Release == nothing:
		f.wrong("a second connection is wanted")
	}
}

func (f *front) wrong(format string, args ...any) { f.w.failed(&f.log, format, args...) }

// checkWaits checks that the session waits for something that will happen: bytes, an
// answer of limiter, queue or own endpoint, or a deadline.
func (f *front) checkWaits() {
	if f.away || f.ended || f.w.err != nil || !f.conn.Open() {
		return
	}
	if f.collects > 2*pieceMax || f.returns > 2*pieceMax {
		f.wrong("%d bytes of the client and %d of the target are kept and not passed on", f.collects, f.returns)
	}
	stalls := f.conn.Stalls() || f.conn.Pumping() || f.upstream != nil && f.upstream.conn.Stalls()
	if f.s.Deadline().IsZero() && !f.deciding && !f.owning && !f.storing && !stalls {
		f.wrong("nothing would ever wake the session")
	}
	if f.upstream == nil && f.tunnels {
		f.wrong("a tunnel without a target")
	}
}

// checkUnsent checks that unsent bytes are bounded: a full connection is given only what
// was already on its way.
func (f *front) checkUnsent(c *looptest.Conn, last int) {
	if n := c.Unsent(); n > looptest.OutboundMax+2*pieceMax {
		f.wrong("%d bytes are unsent after %d more", n, last)
	}
}

// checkReplay checks that the request may be sent again.
func (f *front) checkReplay() {
	r, u := f.asked, f.last
	f.replays++
	f.w.saw("requests sent again")
	switch {
	case r == nil || u == nil:
		f.wrong("sent again without having been sent")
	case f.replays > 1:
		f.wrong("request %d is sent again a second time", r.id)
	case !u.reused || u.shown > 0:
		f.wrong("request %d is sent again: connection reused %t, %d bytes of answer", r.id, u.reused, u.shown)
	case r.body > bufferMax || !http1.MethodOf([]byte(r.method)).Idempotent():
		f.wrong("request %d is sent again: %s with %d bytes of body", r.id, r.method, r.body)
	}
	if r != nil {
		r.replayed = true
	}
}

// checkKept checks that a connection is not kept after its target has announced that it
// closes.
func (f *front) checkKept(u *upstreamConn) {
	if p, ok := u.conn.Peer.(*service); ok && p.announced {
		f.wrong("a connection to a target is kept that closes, as the target said")
	}
}

// checkClosed checks that nothing is left of a session whose client is gone.
func (f *front) checkClosed() {
	f.w.fronts = slices.DeleteFunc(f.w.fronts, func(other *front) bool { return other == f })
	switch {
	case f.upstream != nil:
		f.wrong("the client is gone, and the connection to a target is still held")
	case f.own != nil:
		f.wrong("the client is gone, and its own connection to a target is still there")
	case f.wait.Waiting():
		f.wrong("the client is gone, and the session still waits for a target")
	case !f.s.Deadline().IsZero():
		f.wrong("the client is gone, and a deadline is left")
	case f.asked != nil && !f.deciding && !f.storing:
		f.wrong("the client is gone, and what became of request %d was not reported", f.asked.id)
	}
}

// checkBooks compares the counts of the pools with the open connections.
func (w *world) checkBooks() {
	for _, at := range slices.Concat(w.targets.Targets(), w.retired) {
		w.checkPool(at.Value)
	}
	for _, f := range w.fronts {
		if f.upstream != nil && f.upstream.owner != f {
			f.wrong("two sessions share a connection to a target")
		}
	}
}

func (w *world) checkPool(t *target) {
	waiting, idle := 0, 0
	for _, f := range w.fronts {
		if f.wait.Waiting() && f.at == t.at {
			waiting++
		}
	}
	for _, u := range t.conns {
		if u.owner == nil && u.left == nil && u.conn.Open() {
			idle++
		}
	}
	p := t.pool
	if p.Open() != len(t.conns) || p.Connecting() != t.dialing || p.InFlight()-p.Busy() != waiting ||
		p.Idle() != idle || p.Streams() > w.profile.streams {
		w.failed(nil, "%s: the pool says %d open, %d idle, %d connecting, %d waiting; there are %d, %d, %d, %d; %d streams",
			t.name, p.Open(), p.Idle(), p.Connecting(), p.InFlight()-p.Busy(), len(t.conns), idle, t.dialing, waiting,
			p.Streams())
	}
	if waiting > 0 && p.Connecting() == 0 && p.Open() == 0 {
		w.failed(nil, "%s: %d wait, and nothing is under way for them", t.name, waiting)
	}
}

// checkRest checks that nothing is left when no events are left.
func (w *world) checkRest() {
	if len(w.fronts) > 0 {
		w.fronts[0].wrong("the session does not end")
		return
	}
	if n := w.Events(); n > 0 {
		w.failed(nil, "%d events are left", n)
	}
	for _, at := range slices.Concat(w.targets.Targets(), w.retired) {
		if p := at.Value.pool; p.Open()+p.Connecting()+p.Waiting() > 0 || p.Streams() > 0 {
			w.failed(nil, "%s: %d connections, %d connects, %d in flight, %d streams are left", at.Value.name, p.Open(),
				p.Connecting(), p.InFlight(), p.Streams())
		}
	}
	for _, r := range w.requests {
		if r.decisions != r.outcomes {
			w.failed(nil, "request %d: %d decisions, %d outcomes", r.id, r.decisions, r.outcomes)
			return
		}
	}
}
