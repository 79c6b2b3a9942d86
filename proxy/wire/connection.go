package wire

import (
	"net/netip"
	"time"

	"weir/internal/net/http2"
	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
)

// A connection is a client's connection.
//
// Owned by its loop.
type connection struct {
	client
	s      *session.Session
	conn   *loop.Conn
	sniffs bool        // it may turn out to be one of HTTP/2
	ended  bool        // the client sends no more
	probed int         // bytes of probeText that were written before the answer
	probes *loop.Alarm // writes the next one; made when first needed
}

// accept handles a new connection.
func (s *loopServer) accept(now time.Time, conn *loop.Conn) loop.Handler {
	if conn.Protocol() == "h2" {
		return s.acceptHTTP2(now, conn)
	}
	c := &connection{conn: conn, s: session.New(now, &s.env, conn.Remote().Addr(), conn.Secure()),
		sniffs: !conn.Secure()}
	c.begin(s, c, c.s, &c.s.Exchange)
	if s.draining {
		c.s.HandleDrain(now)
	}
	c.arm()
	return c
}

// Data passes bytes on to the session.
func (c *connection) Data(now time.Time, b []byte) int {
	if c.sniffs {
		switch begins, whole := http2.Preface(b); {
		case whole && c.server.shared.cfg.HTTP2.PriorKnowledge:
			return c.become(now, b)
		case whole:
			c.server.http2.refused.Inc()
		case begins: // "P" may also begin a request: its head must be complete in time
			n := c.s.HandleClient(now, b[:1])
			c.apply(now)
			return n
		}
		c.sniffs = false
	}
	n := c.s.HandleClient(now, b)
	c.apply(now)
	return n
}

// Expired passes the deadline on.
func (c *connection) Expired(now time.Time) { c.expired(now) }

// End reports to the session that the client has finished sending.
func (c *connection) End(now time.Time, unread int) {
	c.ended = true
	c.s.HandleClientEnd(now, unread)
	c.apply(now)
}

// Writable resumes reading of a streamed answer.
func (c *connection) Writable(now time.Time) {
	c.s.HandleClientFull(now, false)
	c.apply(now)
	if c.upstream != nil {
		c.upstream.pump()
	}
}

// Closed ends what is in progress.
func (c *connection) Closed(now time.Time, _ error) {
	c.close(c.probes)
	c.s.HandleClosed(now)
	c.apply(now)
	c.disown()
}

func (c *connection) addrs() (remote, local netip.AddrPort) { return c.conn.Remote(), c.conn.Local() }
func (c *connection) background() bool                      { return false }
func (c *connection) setDeadline(at time.Time)              { c.conn.SetDeadline(at) }

func (c *connection) note(now time.Time, fx *session.Effects) {
	c.conn.SetIncomplete(c.s.Incomplete())
	c.noteLive(now, fx.Effects)
}

func (c *connection) takes(time.Time, *upstreamConn, bool) bool { return true }

// noteLive counts the decisions and outcomes of requests whose clients wait.
func (c *client) noteLive(now time.Time, fx *exchange.Effects) {
	s := c.server
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
		s.protocols[c.protocol()].Inc()
		c.report(now, fx.Report)
	}
}

// report counts the outcome of a request.
func (c *client) report(now time.Time, o *exchange.Outcome) {
	s := c.server
	if o.Looped {
		s.shared.looped.Add(1)
	}
	c.wrote(now, o)
	c.learn(now, o)
	s.counts.Report(now, o)
	if o.Postponed {
		s.tally.Deferred(o.Rule, o.Decision == exchange.Deferred)
	}
}

// write sends to the client, and pauses reading from the target when the client does not
// keep up.
func (c *connection) write(now time.Time, b []byte) {
	full := c.conn.Full()
	c.conn.Write(b[c.probed:])
	c.probed = 0
	if !full && c.conn.Full() {
		c.s.HandleClientFull(now, true)
	}
}

// end passes on that the other side of a tunnel has finished sending, and closes the connection in the
// way that the session requests.
func (c *connection) end(fx *session.Effects) {
	if fx.EndClient {
		c.conn.CloseWrite()
	}
	switch fx.Close {
	case session.CloseDrained:
		c.conn.CloseDrained()
	case session.CloseLinger:
		c.conn.CloseLinger()
	case session.CloseAbort:
		c.conn.CloseIncomplete()
	}
}

// read pauses or resumes reading from the client.
func (c *connection) read(fx *session.Effects) {
	if c.closed {
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

func (c *connection) settled(now time.Time) bool {
	if c.ended {
		c.probe(now)
	}
	c.arm()
	return false
}
