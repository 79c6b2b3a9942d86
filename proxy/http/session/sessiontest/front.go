package sessiontest

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/internal/net/share"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
	"weir/proxy/targets/upstream"
)

// A front is the rim of one session, as wire's client is, and records what the session
// may do.
//
// Owned by its world.
type front struct {
	w      *world
	conn   *looptest.Conn
	s      *session.Session
	caller *caller

	upstream *upstreamConn
	own      *upstreamConn // the client's own connection, kept for its next request
	at       *upstream.Target[*target]
	mark     upstream.Mark
	tried    upstream.Tried
	wait     upstream.Waiter[*front]
	away     bool      // the connection is gone
	due      time.Time // the deadline as armed

	log      looptest.History
	asked    *request      // the limiter was asked about it, and no outcome was reported yet
	deciding bool          // the limiter has not answered
	owning   bool          // an own endpoint has not answered
	storing  bool          // the queue has not answered
	ended    bool          // the session has closed the connection
	tunnels  bool          // it has become a tunnel
	admits   int           // requests whose last piece was withheld
	replays  int           // of the exchange
	last     *upstreamConn // whose end the exchange has seen
	collects int           // bytes read from the client and not passed on; returns: from the target
	returns  int
}

var clientAddr = netip.MustParseAddr("192.0.2.7")

// accept opens a connection for a caller.
func (w *world) accept(c *caller) *front {
	f := &front{w: w, caller: c}
	f.conn = w.NewConn(true, &f.log)
	f.conn.Handler, f.conn.Peer = f, c
	f.log.Name = "client connection " + itoa(f.conn.ID)
	f.s = session.New(w.Now, &w.env, clientAddr, false)
	f.s.Exchange.Owner = f
	f.wait.Value = f
	f.wait.Of(share.Client{}, uint64(len(w.fronts)%3))
	if w.draining {
		f.s.HandleDrain(w.Now)
	}
	f.arm()
	w.fronts = append(w.fronts, f)
	return f
}

func (f *front) Data(b []byte) int {
	n := f.s.HandleClient(f.w.Now, b)
	f.collects += n
	f.apply()
	return n
}

func (f *front) Expired() {
	f.due = time.Time{}
	if d := f.s.Deadline(); d.IsZero() || f.w.Now.Before(d) {
		f.arm()
		return
	}
	f.log.Note(f.w.Now, "deadline", 0, "")
	f.w.saw("deadlines")
	if f.w.profile.calm && f.tunnels {
		f.wrong("in a calm world a tunnel ends by its deadline")
	}
	f.s.HandleExpired(f.w.Now)
	f.apply()
}

func (f *front) End(unread int) {
	f.s.HandleClientEnd(f.w.Now, unread)
	f.apply()
}

func (f *front) Writable() {
	f.s.HandleClientFull(f.w.Now, false)
	f.apply()
	if f.upstream != nil {
		f.upstream.conn.Pump()
	}
}

// Closed ends the session.
func (f *front) Closed(error) {
	f.away = true
	f.s.HandleClosed(f.w.Now)
	f.apply()
	f.disown()
	f.checkClosed()
}

// apply applies the effects of the session until there are none.
func (f *front) apply() {
	var fx session.Effects
	for again := true; again; {
		f.s.MoveEffects(f.w.Now, &fx)
		f.checkEffects(&fx)
		f.noteDecided(fx.Decided)
		f.store(fx.Store)
		if fx.Report != nil {
			f.report(fx.Report)
		}
		if len(fx.Client) > 0 {
			f.write(fx.Client)
		}
		if fx.Response != nil { // otherwise they may be a part of what was received
			looptest.Poison(fx.Client)
		}
		if u := f.upstream; u != nil {
			u.write(append(u.http.Append(nil, &fx.Effects, u.target.name), fx.Upstream...))
		}
		f.endHalf(&fx)
		if fx.Release != exchange.ReleaseNone {
			f.release(fx.Release, fx.Abandoned)
		}
		if fx.Own != nil {
			f.askOwn(session.AppendRequest(nil, fx.Own.Request, ""), fx.Own.Body)
		}
		f.close(fx.Close)
		if fx.Stream {
			f.s.Exchange.HandleStream(f.w.Now, f.upstream.target.pool.Stream(&f.wait))
		}
		f.acquire(fx.Acquire, fx.Long)
		if fx.Admit {
			f.admit()
		}
		f.read(&fx)
		again = fx.Stream || fx.Acquire != exchange.AcquireNone || fx.Own != nil
	}
	f.arm()
	f.checkWaits()
}

func (f *front) write(b []byte) {
	f.log.Note(f.w.Now, "to client", int64(len(b)), start(b))
	f.returns = 0
	full := f.conn.Full()
	f.conn.Write(b)
	f.checkUnsent(f.conn, len(b))
	if !full && f.conn.Full() {
		f.w.saw("sides that took nothing")
		f.s.HandleClientFull(f.w.Now, true)
	}
}

func (f *front) endHalf(fx *session.Effects) {
	if fx.EndUpstream && f.upstream != nil {
		f.upstream.conn.CloseWrite()
	}
	if fx.EndClient {
		f.conn.CloseWrite()
	}
}

func (f *front) close(how session.Close) {
	if how == session.CloseNone {
		return
	}
	f.log.Note(f.w.Now, "session closes", int64(how), "")
	f.ended = true
	if !f.s.Deadline().IsZero() {
		f.w.failed(&f.log, "a deadline is left on a closed session")
	}
	if how == session.CloseAbort {
		f.conn.Abort()
		return
	}
	f.conn.CloseDrained(how == session.CloseLinger)
}

func (f *front) arm() {
	if d := f.s.Deadline(); d != f.due && f.conn.Open() {
		f.due = d
		f.conn.SetDeadline(d)
	}
}

// read reads on from the client if the session asks for it.
func (f *front) read(fx *session.Effects) {
	if f.away {
		return
	}
	if fx.Read || fx.Duplex && !f.conn.Duplex && f.conn.Blocked() {
		f.conn.Pump()
	}
	f.conn.Duplex = fx.Duplex
}

func (f *front) acquire(how exchange.Acquire, long bool) {
	f.log.Note(f.w.Now, "acquire", int64(how), "")
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
		f.s.Exchange.HandleWaits(f.w.Now)
	case upstream.WaitAndDial:
		t.dial()
	case upstream.Full:
		f.unavailable(exchange.FaultBusy)
	}
}

func (f *front) unavailable(why exchange.Fault) {
	f.leave()
	f.s.Exchange.HandleUnavailable(f.w.Now, why)
}

func (f *front) choose() bool {
	g := f.w.targets
	if f.at = g.Choose(f.w.Now, &f.tried); f.at == nil {
		f.s.Exchange.HandleExhausted(f.w.Now, len(g.Targets()) > 1, g.RetryAfter(f.w.Now))
		return false
	}
	f.mark = f.at.Mark()
	return true
}

func (f *front) leave() {
	if f.at != nil {
		if f.upstream == nil {
			f.at.Value.pool.End(&f.wait)
		}
		f.at.Abandoned(f.mark)
		f.at = nil
	}
}

// learn passes the outcome of an exchange to the health of its target.
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
	case o.Sent.IsZero() || o.Fault == exchange.FaultUnstreamed:
		f.leave()
		return
	case o.Fault == exchange.FaultTimeout:
		f.at.Answered(f.w.Now, f.mark, http.StatusGatewayTimeout)
	case o.Fault != exchange.FaultNone:
		f.at.Answered(f.w.Now, f.mark, http.StatusBadGateway)
	case o.Relayed && o.Status > 0:
		f.at.Answered(f.w.Now, f.mark, o.Status)
	default:
		f.leave()
		return
	}
	f.at = nil
}

func (f *front) serve(u *upstreamConn, reused bool) {
	f.upstream, u.owner = u, f
	u.shown = 0
	u.conn.Log = &f.log
	f.log.Note(f.w.Now, "served by connection", int64(u.conn.ID), "of "+u.target.name)
	if !f.s.Exchange.HandleAcquired(f.w.Now, reused) {
		f.w.failed(&f.log, "a connection was granted to a session that does not wait for one")
	}
	u.reused = reused
}

func (f *front) release(how exchange.Release, left *exchange.Abandoned) {
	f.log.Note(f.w.Now, "release", int64(how), "")
	u := f.upstream
	if u == nil {
		return
	}
	f.upstream = nil
	if how == exchange.ReleasePrivate && u.conn.Unsent() == 0 && u.target.pool.Stream(&f.wait) {
		f.checkKept(u)
		f.own = u
		u.rest()
		return
	}
	u.owner = nil
	if how == exchange.ReleaseAbandon && u.conn.Unsent() == 0 {
		f.w.saw("requests whose client left the target to work")
		u.abandon(f, left)
		return
	}
	u.target.pool.End(&f.wait)
	switch {
	case how == exchange.ReleaseEnd:
		f.w.saw("tunnels")
		u.conn.CloseDrained(false)
	case how != exchange.ReleaseKeep || u.conn.Unsent() > 0:
		f.w.saw("connections closed for good")
		u.conn.Close()
	default:
		f.checkKept(u)
		u.free()
	}
}

// serveOwn uses the client's own connection for the next exchange, if its target is still
// in use.
func (f *front) serveOwn() bool {
	u := f.own
	if u == nil || u.target.at.Status(f.w.Now) == upstream.Draining {
		f.disown()
		return false
	}
	f.w.saw("requests on private connections")
	f.own = nil
	f.at, f.mark = u.target.at, u.target.at.Mark()
	f.serve(u, false)
	return true
}

func (f *front) disown() {
	if u := f.own; u != nil {
		f.own, u.owner = nil, nil
		u.target.pool.End(&f.wait)
		u.conn.Close()
	}
}

// askOwn answers for an own endpoint, later.
func (f *front) askOwn(head, body []byte) {
	f.owning = true
	r := f.checkOwn(append(head, body...))
	f.w.After(f.w.Within(50*time.Millisecond), func() {
		if f.away {
			return
		}
		f.owning = false
		f.s.Exchange.HandleOwn(f.w.Now, r)
		f.apply()
	})
}

// start returns the first line of b, for histories.
func start(b []byte) string {
	line, _, _ := strings.Cut(string(b[:min(len(b), 60)]), "\r\n")
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
		line = line[:i]
	}
	return line
}
