package wire

import (
	"net/netip"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
	"weir/proxy/store"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/upstream"
)

// A client carries out the effects of one session: a client connection or a delivery.
//
// Owned by its loop.
type client struct {
	server   *loopServer
	conn     *loop.Conn // nil for a delivery
	delivery *carried   // nil for a connection
	s        *session.Session
	x        *exchange.Exchange // of s
	deadline time.Time          // as armed

	upstream *upstreamConn             // the one the exchange holds
	own      *upstreamConn             // reserved for the client's next request; serves no other client
	at       *upstream.Target[*target] // target chosen for the exchange
	mark     upstream.Mark             // health of at when it was chosen
	tried    upstream.Tried            // the targets that the exchange has tried
	wait     upstream.Waiter[occupant] // place in the line of at
	closed   bool                      // the client connection has closed
	duplex   bool                      // the connection is read and written at the same time
	ended    bool                      // the client sends no more
	probed   int                       // bytes of probeText that were written before the answer
	probes   *loop.Alarm               // writes the next one; made when first needed

	route   uint16      // route of the exchange; see route.Loop
	class   uint8       // its priority class; see gates.Classes
	answer  gate.Answer // what is known about the target's answer
	long    bool        // the exchange may hold its connection for long
	partial bool        // part of the request has not been sent
	// the client determines how long the exchange takes, so far: the gate learns nothing from its end
	paced    bool
	from     netip.Addr    // address under which the last request was counted
	fromHash uint64        // hash of from
	sharesAs netip.Addr    // address of the client that wait counts for
	gateBy   bool          // waits for a place, at any target or that of its connection, until the alarm rings
	parked   bool          // has left the line meanwhile, see park
	lineAt   time.Time     // start of that wait
	waited   time.Duration // time spent waiting for a place before lineAt
	notice   notice        // the current request; used with an access log
	alarm    *loop.Alarm   // rings when a queue slot is due; made when first needed
	asked    time.Duration // when the store was asked, since front.began: without a wall clock
	answered store.Done    // receives the store's answer; made once
}

// Data passes bytes on to the session.
func (c *client) Data(now time.Time, b []byte) int {
	n := c.s.HandleClient(now, b)
	c.apply(now)
	return n
}

// Expired passes the deadline on.
func (c *client) Expired(now time.Time) {
	c.deadline = time.Time{}
	if d := c.s.Deadline(); d.IsZero() || now.Before(d) {
		c.arm()
		return
	}
	c.s.HandleExpired(now)
	c.apply(now)
}

// End reports to the session that the client has finished sending.
func (c *client) End(now time.Time, unread int) {
	c.ended = true
	c.s.HandleClientEnd(now, unread)
	c.apply(now)
}

// Writable resumes reading of a streamed answer.
func (c *client) Writable(now time.Time) {
	c.s.HandleClientFull(now, false)
	c.apply(now)
	if c.upstream != nil {
		c.upstream.conn.Pump()
	}
}

// Closed ends what is in progress.
func (c *client) Closed(now time.Time, _ error) {
	c.closed = true
	for _, a := range [...]*loop.Alarm{c.alarm, c.probes} {
		if a != nil {
			a.Stop()
		}
	}
	c.s.HandleClosed(now)
	c.apply(now)
	c.disown()
}

// apply carries out the session's effects until there are none left.
func (c *client) apply(now time.Time) {
	var fx session.Effects
	for again := true; again; {
		c.s.MoveEffects(now, &fx)
		if c.conn != nil {
			c.conn.SetIncomplete(c.s.Incomplete())
		}
		c.note(now, &fx)
		if len(fx.Client) > 0 {
			c.write(now, fx.Client)
		}
		c.send(now, &fx)
		if fx.EndUpstream || fx.EndClient {
			c.end(&fx)
		}
		if fx.Release != exchange.ReleaseNone {
			c.release(now, fx.Release, fx.Abandoned)
		}
		if fx.Own != nil {
			c.askOwn(now, fx.Own)
		}
		if !fx.Wake.IsZero() {
			c.wake(fx.Wake)
		}
		if fx.Close != session.CloseNone {
			c.close(fx.Close)
		}
		if fx.Stream {
			c.x.HandleStream(now, c.stream(now))
		}
		if fx.Acquire != exchange.AcquireNone {
			c.acquire(now, &fx)
		}
		if fx.Admit {
			c.complete(now)
		}
		c.read(&fx)
		again = fx.Stream || fx.Acquire != exchange.AcquireNone || fx.Admit || fx.Own != nil || c.delivery != nil &&
			c.delivery.feed(now)
	}
	if c.delivery != nil && c.delivery.over {
		c.delivered(now)
		return
	}
	c.probe(now)
	c.arm()
}

// note counts the decisions and outcomes that the session reports.
func (c *client) note(now time.Time, fx *session.Effects) {
	s := c.server
	if fx.Seen != nil && s.access != nil {
		c.notice.keep(fx.Seen.Head, fx.Seen.Client)
	}
	if fx.Refund != nil {
		s.leave(now, fx.Refund)
	}
	if c.delivery != nil {
		c.delivery.note(now, fx)
		return
	}
	if fx.Claims > 0 {
		s.counts.Disbelieved.Add(uint64(fx.Claims))
		s.shared.claims.note(c.x.Remote)
	}
	if fx.OriginsDiffer {
		s.shared.differing.note(c.x.Remote)
	}
	if fx.Matched != nil {
		s.matched(now, c, fx.Matched)
	}
	if fx.Decided != nil {
		s.counts.Traffic.Decided(fx.Decided.Answer.Granted > 0)
		s.tally.Judged(now, fx.Decided)
	}
	if fx.Store != nil {
		c.store(now, fx.Store)
	}
	if fx.LookUp != nil {
		c.lookUp(now, fx.LookUp)
	}
	if fx.Report != nil {
		if fx.Report.Looped {
			s.shared.looped.Add(1)
		}
		c.wrote(now, fx.Report)
		c.learn(now, fx.Report)
		s.counts.Report(now, fx.Report)
		if fx.Report.Postponed {
			s.tally.Postponed(fx.Report.Rule, fx.Report.Decision == exchange.Deferred)
		}
	}
}

// read pauses or resumes reading from the client as the session asks.
func (c *client) read(fx *session.Effects) {
	if c.closed {
		return
	}
	if c.delivery != nil {
		c.delivery.unread = c.delivery.unread || fx.Read
		return
	}
	if fx.Duplex != c.duplex {
		c.duplex = fx.Duplex
		c.conn.SetDuplex(fx.Duplex)
	}
	if fx.Read {
		c.conn.Pump()
	}
}

// wake sets the alarm for the time at which the session's queue slot is due.
func (c *client) wake(at time.Time) {
	if c.alarm == nil {
		c.alarm = c.server.loop.NewAlarm(func(now time.Time) {
			if c.closed || c.gateLate(now) {
				return
			}
			c.x.HandleWake(now)
			c.apply(now)
		})
	}
	c.alarm.Set(at)
}

// write sends to the client, and pauses reading from the target when the client does not
// keep up.
func (c *client) write(now time.Time, b []byte) {
	if c.delivery != nil {
		c.delivery.answer.Write(now, b)
		return
	}
	full := c.conn.Full()
	c.conn.Write(b[c.probed:])
	c.probed = 0
	if !full && c.conn.Full() {
		c.s.HandleClientFull(now, true)
	}
}

// send sends to the target.
func (c *client) send(now time.Time, fx *session.Effects) {
	switch {
	case fx.Forward != nil || len(fx.Upload) > 0 || fx.Uploaded:
		s := c.server
		s.up = c.upstream.http.Append(s.up[:0], &fx.Effects, c.upstream.target.spec.Host)
		c.upstream.write(now, s.up)
	case len(fx.Upstream) > 0:
		c.upstream.write(now, fx.Upstream)
	}
}

// arm sets the connection's deadline to the session's.
func (c *client) arm() {
	if d := c.s.Deadline(); d != c.deadline && !c.closed {
		c.deadline = d
		if c.delivery != nil {
			c.delivery.alarm.Set(d)
			return
		}
		c.conn.SetDeadline(d)
	}
}

// choose selects the next target for the exchange. If there is none, it reports that to the
// session and returns false.
func (c *client) choose(now time.Time) bool {
	g := c.server.targets
	if c.at = g.Choose(now, &c.tried); c.at == nil {
		c.x.HandleExhausted(now, len(g.Targets()) > 1, g.RetryAfter(now))
		return false
	}
	c.mark = c.at.Mark()
	return true
}

// serve passes a connection to the target to the session.
func (c *client) serve(now time.Time, u *upstreamConn, reused bool) {
	if reused && c.delivery != nil && c.delivery.Once {
		c.enter(now, true) // in the place of u, which may still be open when the new one is
		u.conn.Abort()     // nothing is on it, and a reset leaves no port in TIME_WAIT
		return
	}
	c.upstream, u.owner = u, c
	u.target.note(now)
	u.target.admitted(c)
	if k := c.delivery; k != nil && !k.Fate.GoesOn() {
		k.over = true
		c.release(now, exchange.ReleaseDiscard, nil)
		c.leave()
		return
	}
	if !c.x.HandleAcquired(now, reused) {
		panic("bug: a connection was granted to a session that does not wait for one")
	}
}
