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

// A peer is the other end of a client: a connection, a stream of HTTP/2, or a delivery.
type peer interface {
	// addrs returns the addresses of both ends.
	addrs() (remote, local netip.AddrPort)
	// background reports whether nobody waits for the answers.
	background() bool
	// note counts and keeps what the session reports.
	note(now time.Time, fx *session.Effects)
	// write sends what the session has written.
	write(now time.Time, b []byte)
	// end ends the connection, or its sending side, as the session requests.
	end(fx *session.Effects)
	// read reads on as the session requests.
	read(fx *session.Effects)
	// setDeadline sets the deadline at which expired is called.
	setDeadline(at time.Time)
	// takes reports whether the exchange takes u, an upstream connection that it waited for. If not,
	// takes has disposed of it.
	takes(now time.Time, u *upstreamConn, reused bool) bool
	// settled is called when all effects were carried out. It reports whether there are more.
	settled(now time.Time) (more bool)
}

// A carrier feeds an exchange and moves its effects: a session, or a stream of HTTP/2.
type carrier interface {
	Deadline() time.Time
	HandleExpired(now time.Time)
	HandleUpstream(now time.Time, u *session.Upstream, b []byte) int
	HandleUpstreamEnd(now time.Time, unread int) (open bool)
	HandleUpstreamClosed(now time.Time, u *session.Upstream, err error)
	HandleTargetFull(now time.Time, full bool)
	MoveEffects(now time.Time, fx *session.Effects)
}

// A client carries out the effects of one carrier.
//
// Owned by its loop.
type client struct {
	peer     peer
	server   *loopServer
	carrier  carrier
	x        *exchange.Exchange // of the carrier
	deadline time.Time          // as armed

	upstream *upstreamConn             // the one the exchange holds
	own      *upstreamConn             // reserved for the client's next request; serves no other client
	at       *upstream.Target[*target] // target chosen for the exchange
	mark     upstream.HealthEpoch      // health of at when it was chosen
	tried    upstream.TriedTargets     // the targets that the exchange has tried
	wait     upstream.Waiter[occupant] // in the queue for a place, or in that of the pool of at
	closed   bool                      // the client connection has closed, or the delivery has ended
	duplex   bool                      // the connection is read and written at the same time

	route   uint16        // route of the exchange; see route.LoopClassifier
	class   uint8         // its priority class; see gates.MetricClasses
	answer  gate.Response // what is known about the target's answer
	long    bool          // the exchange may hold its connection for long
	partial bool          // part of the request has not been sent
	// the client determines how long the exchange takes, so far: the gate learns nothing from its end
	paced     bool
	from      netip.Addr    // address under which the last request was counted
	fromHash  uint64        // hash of from
	sharesAs  netip.Addr    // address of the client that wait counts for
	gateBy    bool          // waits for a place, at any target or that of its connection, until the alarm rings
	parked    bool          // has left the queue meanwhile, see park
	postponed bool          // gets a connection later, see http2Conn.postpone
	queuedAt  time.Time     // start of that wait
	waited    time.Duration // time spent waiting for a place before queuedAt
	notice    notice        // the current request; used with an access log
	alarm     *loop.Alarm   // rings when a queue slot is due; made when first needed
	asked     time.Duration // when the store was asked, since shared.began: without a wall clock
	answered  store.Done    // receives the store's answer; made once
}

// begin makes c the client of a new carrier with its exchange, and of its peer.
func (c *client) begin(server *loopServer, p peer, by carrier, x *exchange.Exchange) {
	c.peer, c.server, c.carrier, c.x = p, server, by, x
	c.x.Owner, c.wait.Value.client = c, c
}

// expired passes the deadline on.
func (c *client) expired(now time.Time) {
	c.deadline = time.Time{}
	if d := c.carrier.Deadline(); d.IsZero() || now.Before(d) {
		c.arm()
		return
	}
	c.carrier.HandleExpired(now)
	c.apply(now)
}

// apply carries out the session's effects until there are none left.
func (c *client) apply(now time.Time) {
	fx := c.server.takeEffects()
	for more := true; more; {
		c.carrier.MoveEffects(now, fx)
		of := fx.Effects
		if of.Received != nil && c.server.access != nil {
			c.notice.keep(of.Received.Head, of.Received.Client)
		}
		if of.Refund != nil {
			c.server.leave(now, of.Refund)
		}
		c.peer.note(now, fx)
		if len(fx.Client) > 0 {
			c.peer.write(now, fx.Client)
		}
		failed := false
		switch {
		case of.Forward != nil || of.Uploaded || len(of.Upload) > 0:
			failed = c.upstream.send(now, of)
		case len(fx.Upstream) > 0:
			c.upstream.write(now, fx.Upstream)
		}
		if fx.EndUpstream && c.upstream != nil {
			c.upstream.conn.CloseWrite()
		}
		if of.Release != exchange.ReleaseNone {
			c.release(now, of.Release, of.Abandoned)
		}
		if of.Own != nil {
			c.askOwn(now, of.Own)
		}
		if !of.Wake.IsZero() {
			c.wake(of.Wake)
		}
		if fx.EndClient || fx.Close != session.CloseNone {
			c.peer.end(fx)
		}
		asks := of.Stream || of.Acquire != exchange.AcquireNone || of.Admit
		if asks && !failed { // otherwise the exchange has ended, or asks for another connection
			c.request(now, of)
		}
		if fx.Read || of.Duplex != c.duplex {
			c.peer.read(fx)
		}
		more = failed || asks || of.Own != nil || c.peer.settled(now)
	}
	c.server.effects = append(c.server.effects, fx)
}

// request carries out what the session requests of the target or its places.
func (c *client) request(now time.Time, fx *exchange.Effects) {
	if fx.Stream {
		c.x.HandleStream(now, c.stream(now))
	}
	if fx.Acquire != exchange.AcquireNone {
		c.acquire(now, fx)
	}
	if fx.Admit {
		c.complete(now)
	}
}

// takeEffects returns memory for effects. As they are passed to interfaces, each call would otherwise
// allocate it. While effects of one client are carried out those of others are too, so one is not enough.
func (s *loopServer) takeEffects() *session.Effects {
	last := len(s.effects) - 1
	if last < 0 {
		return new(session.Effects)
	}
	fx := s.effects[last]
	s.effects = s.effects[:last]
	return fx
}

// close ends the client, and stops its alarm and that of its peer.
func (c *client) close(alarm *loop.Alarm) {
	c.closed = true
	for _, a := range [...]*loop.Alarm{alarm, c.alarm} {
		if a != nil {
			a.Stop()
		}
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

// arm sets the peer's deadline to the session's.
func (c *client) arm() {
	if d := c.carrier.Deadline(); d != c.deadline && !c.closed {
		c.deadline = d
		c.peer.setDeadline(d)
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
	c.mark = c.at.Epoch()
	return true
}

// serve passes a connection to the target to the session.
func (c *client) serve(now time.Time, u *upstreamConn, reused bool) {
	if c.peer.takes(now, u, reused) {
		c.use(now, u)
		if !c.x.HandleAcquired(now, reused) {
			panic("bug: a connection was granted to a session that does not wait for one")
		}
	}
}

// use makes u the connection of the exchange.
func (c *client) use(now time.Time, u *upstreamConn) {
	c.upstream, u.owner = u, c
	u.target.note(now)
	u.target.admitted(c)
}
