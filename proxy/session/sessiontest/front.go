package sessiontest

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"weir/proxy/exchange"
	"weir/proxy/session"
	"weir/proxy/upstream"
)

// A front is the rim of one session, as wire's client is, with books on what
// the session may do.
//
// Owned by its world.
type front struct {
	w      *world
	conn   *conn
	s      *session.Session
	caller *caller

	upstream *upstreamConn
	own      *upstreamConn // waits for the client's next request
	at       *upstream.Target[*target]
	mark     upstream.Mark
	tried    upstream.Tried
	wait     upstream.Waiter[*front]
	away     bool      // the connection is gone
	due      time.Time // the deadline as armed

	log      history
	asked    *request      // the limiter was asked for it, no outcome was reported yet
	deciding bool          // its answer has not come
	owning   bool          // an own endpoint works
	ended    bool          // the session has closed the connection
	tunnels  bool          // it has become a tunnel
	replays  int           // of the exchange
	last     *upstreamConn // whose end the exchange has seen
	collects int           // bytes taken in from the client and the target, and not given out
	returns  int
}

var clientAddr = netip.MustParseAddr("192.0.2.7")

// accept opens a connection for a caller.
func (w *world) accept(c *caller) *front {
	f := &front{w: w, caller: c}
	f.conn = w.newConn(true, &f.log)
	f.conn.handler, f.conn.peer = f, c
	f.log.name = "client connection " + itoa(f.conn.id)
	f.s = session.New(w.now, &w.env, clientAddr, false)
	f.s.Owner = f
	f.wait.Value = f
	if w.draining {
		f.s.HandleDrain(w.now)
	}
	f.arm()
	w.fronts = append(w.fronts, f)
	return f
}

func (f *front) data(b []byte) int {
	n := f.s.HandleClient(f.w.now, b)
	f.collects += n
	f.apply()
	return n
}

func (f *front) expired() {
	f.due = time.Time{}
	if d := f.s.Deadline(); d.IsZero() || f.w.now.Before(d) {
		f.arm()
		return
	}
	f.log.note(f.w.now, "deadline", 0, "")
	f.w.tally.Expired++
	if f.w.profile.calm && f.tunnels {
		f.wrong("in a calm world a tunnel ends by its deadline")
	}
	f.s.HandleExpired(f.w.now)
	f.apply()
}

func (f *front) end(unread int) {
	f.s.HandleClientEnd(f.w.now, unread)
	f.apply()
}

func (f *front) writable() {
	f.s.HandleClientFull(f.w.now, false)
	f.apply()
	if f.upstream != nil {
		f.upstream.conn.pump()
	}
}

// closed gives up what is under way.
func (f *front) closed(error) {
	f.away = true
	f.s.HandleClosed(f.w.now)
	f.apply()
	f.disown()
	f.checkClosed()
}

// apply does what the session wants until it wants nothing more.
func (f *front) apply() {
	for again := true; again; {
		fx := f.s.Effects()
		f.checkEffects(&fx)
		if fx.Report != nil {
			f.report(fx.Report)
		}
		if len(fx.Client) > 0 {
			f.write(fx.Client)
			poison(fx.Client)
		}
		if len(fx.Upstream) > 0 && f.upstream != nil {
			f.upstream.write(fx.Upstream)
		}
		f.endHalf(&fx)
		if fx.Release != exchange.ReleaseNone {
			f.release(fx.Release)
		}
		if len(fx.Own) > 0 {
			f.askOwn(fx.Own)
		}
		f.close(fx.Close)
		if fx.Stream {
			f.s.HandleStream(f.w.now, f.upstream.target.pool.Stream(&f.wait))
		}
		f.acquire(fx.Acquire, fx.Long)
		f.read(&fx)
		again = fx.Stream || fx.Acquire != exchange.AcquireNone || len(fx.Own) > 0
	}
	f.arm()
	f.checkWaits()
}

func (f *front) write(b []byte) {
	f.log.note(f.w.now, "to client", int64(len(b)), start(b))
	f.returns = 0
	full := f.conn.full
	f.conn.write(b)
	f.checkUnsent(f.conn, len(b))
	if !full && f.conn.full {
		f.w.tally.Full++
		f.s.HandleClientFull(f.w.now, true)
	}
}

func (f *front) endHalf(fx *session.Effects) {
	if fx.EndUpstream && f.upstream != nil {
		f.upstream.conn.closeWrite()
	}
	if fx.EndClient {
		f.conn.closeWrite()
	}
}

func (f *front) close(how session.Close) {
	if how == session.CloseNone {
		return
	}
	f.log.note(f.w.now, "session closes", int64(how), "")
	f.ended = true
	if !f.s.Deadline().IsZero() {
		f.w.failed(&f.log, "a deadline is left on a closed session")
	}
	if how == session.CloseAbort {
		f.conn.abort()
		return
	}
	f.conn.closeDrained(how == session.CloseLinger)
}

func (f *front) arm() {
	if d := f.s.Deadline(); d != f.due && f.conn.state == connOpen {
		f.due = d
		f.conn.setDeadline(d)
	}
}

// read has the client read as the session wants it.
func (f *front) read(fx *session.Effects) {
	if f.away {
		return
	}
	if fx.Read || fx.Duplex && !f.conn.duplex && f.conn.hungry {
		f.conn.pump()
	}
	f.conn.duplex = fx.Duplex
}

func (f *front) acquire(how exchange.Acquire, long bool) {
	f.log.note(f.w.now, "acquire", int64(how), "")
	switch how {
	case exchange.AcquireNone:
		return
	case exchange.AcquireCancel:
		if f.at != nil {
			f.at.Value.pool.Cancel(&f.wait)
			f.leave()
		}
		return
	case exchange.AcquireAny:
		f.tried = upstream.Tried{}
		f.replays, f.last = 0, nil
		if f.serveOwn() {
			return
		}
	case exchange.AcquireFresh:
		f.checkReplay()
	}
	if how != exchange.AcquireFresh && !f.choose() {
		return
	}
	t := f.at.Value
	if long && !t.pool.Stream(&f.wait) {
		f.unavailable(exchange.FaultStreams)
		return
	}
	u, grant := t.pool.Acquire(&f.wait, how == exchange.AcquireFresh)
	switch grant {
	case upstream.Ready:
		f.serve(u, true)
	case upstream.Wait:
		f.s.HandleWaits(f.w.now)
	case upstream.WaitAndDial:
		t.dial()
	case upstream.Full:
		f.unavailable(exchange.FaultBusy)
	}
}

func (f *front) unavailable(why exchange.Fault) {
	f.leave()
	f.s.HandleUnavailable(f.w.now, why)
}

func (f *front) choose() bool {
	g := f.w.targets
	if f.at = g.Choose(f.w.now, &f.tried); f.at == nil {
		f.s.HandleExhausted(f.w.now, len(g.Targets()) > 1, g.RetryAfter(f.w.now))
		return false
	}
	f.mark = f.at.Mark()
	return true
}

func (f *front) leave() {
	if f.at != nil {
		if f.upstream == nil {
			f.at.Value.pool.EndStream(&f.wait)
		}
		f.at.Abandoned(f.mark)
		f.at.Value.forget()
		f.at = nil
	}
}

// learn notes what an exchange that is over says about its target.
func (f *front) learn(o *exchange.Outcome) {
	if f.at == nil {
		return
	}
	if f.wait.Waiting() {
		f.at.Value.pool.Cancel(&f.wait)
		f.leave()
		return
	}
	switch {
	case o.Sent.IsZero() || o.Fault == exchange.FaultStreams:
		f.leave()
		return
	case o.Fault == exchange.FaultTimeout:
		f.at.Answered(f.w.now, f.mark, http.StatusGatewayTimeout)
	case o.Fault != exchange.FaultNone:
		f.at.Answered(f.w.now, f.mark, http.StatusBadGateway)
	case o.Relayed && o.Status > 0:
		f.at.Answered(f.w.now, f.mark, o.Status)
	default:
		f.leave()
		return
	}
	f.at = nil
}

func (f *front) serve(u *upstreamConn, reused bool) {
	f.upstream, u.owner = u, f
	u.shown, u.fresh = 0, true
	u.conn.log = &f.log
	f.log.note(f.w.now, "served by connection", int64(u.conn.id), "of "+u.target.name)
	if !f.s.HandleAcquired(f.w.now, u.target.name, reused) {
		f.w.failed(&f.log, "a connection was granted to a session that does not wait for one")
	}
	u.reused = reused
}

func (f *front) release(how exchange.Release) {
	f.log.note(f.w.now, "release", int64(how), "")
	u := f.upstream
	if u == nil {
		return
	}
	f.upstream = nil
	if how == exchange.ReleasePrivate && len(u.conn.out) == 0 && u.target.pool.Stream(&f.wait) {
		f.checkKept(u)
		f.own = u
		u.rest()
		return
	}
	u.owner = nil
	u.target.pool.EndStream(&f.wait)
	switch {
	case how == exchange.ReleaseEnd:
		f.w.tally.Tunnels++
		u.conn.closeDrained(false)
	case how == exchange.ReleaseDiscard || how == exchange.ReleasePrivate || len(u.conn.out) > 0:
		f.w.tally.Discarded++
		u.conn.close()
	default:
		f.checkKept(u)
		u.free()
	}
}

// serveOwn has the next exchange go over the client's own connection, if its
// target is still there.
func (f *front) serveOwn() bool {
	u := f.own
	if u == nil || u.target.at.Status(f.w.now) == upstream.Draining {
		f.disown()
		return false
	}
	f.w.tally.Private++
	f.own = nil
	f.at, f.mark = u.target.at, u.target.at.Mark()
	f.serve(u, false)
	return true
}

func (f *front) disown() {
	if u := f.own; u != nil {
		f.own, u.owner = nil, nil
		u.target.pool.EndStream(&f.wait)
		u.conn.close()
	}
}

// askOwn has an own endpoint answer, later.
func (f *front) askOwn(raw []byte) {
	f.owning = true
	r := f.checkOwn(raw)
	f.w.after(f.w.within(50*time.Millisecond), func() {
		if f.away {
			return
		}
		f.owning = false
		f.s.HandleOwn(f.w.now, r)
		f.apply()
	})
}

// start is what b begins with, for histories.
func start(b []byte) string {
	line, _, _ := strings.Cut(string(b[:min(len(b), 60)]), "\r\n")
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
		line = line[:i]
	}
	return line
}
