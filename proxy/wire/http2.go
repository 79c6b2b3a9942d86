package wire

import (
	"net/netip"
	"time"

	"weir/internal/net/loop"
	"weir/internal/net/share"
	"weir/proxy/http/mux"
	"weir/proxy/http/session"
	"weir/proxy/wire/report"
)

// HTTP2Config configures HTTP/2 from clients. Over TLS it is chosen by ALPN, see Config.Secure.
type HTTP2Config struct {
	mux.Settings
	PriorKnowledge bool // also without TLS (RFC 9113 3.3)
}

// A protocol is what a client uses.
type protocol uint8

const (
	protocolHTTP1 protocol = iota
	protocolH2             // over TLS
	protocolH2C            // without TLS
	protocols
)

func (p protocol) String() string { return [...]string{"http1", "h2", "h2c"}[p] }

// protocol returns what the client uses.
func (c *client) protocol() protocol {
	switch {
	case !c.x.HTTP2:
		return protocolHTTP1
	case c.x.Secure:
		return protocolH2
	}
	return protocolH2C
}

// An http2Conn is a client's connection of HTTP/2.
//
// Owned by its loop.
type http2Conn struct {
	server   *loopServer
	conn     *loop.Conn
	m        *mux.Conn
	accepted time.Time
	deadline time.Time // as armed
	reading  bool      // within Data, which calls flush at its end

	postpones bool           // connections to targets are sought when all that has arrived was read
	postponed []*http2Stream // those that need one, or did before they ended, in order
	waits     bool           // in loopServer.behind, see begin
	turn      time.Time      // when the loop's turn began that begun counts for
	begun     int            // streams that got connections in it

	counted report.HTTP2ConnCounts
}

// unsentMax is how much may be unsent for the client while more of its frames are read. Responses without
// bodies are sent regardless of what is unsent.
const unsentMax = 512 << 10

// acceptHTTP2 handles a new connection of HTTP/2.
func (s *loopServer) acceptHTTP2(now time.Time, conn *loop.Conn) loop.Handler {
	h := &http2Conn{server: s, conn: conn, accepted: now, counted: report.HTTP2ConnCounts{Counts: &s.http2.HTTP2Counts}}
	h.m = mux.New(now, &s.muxes, conn.Remote().Addr(), conn.Secure(), h.opened)
	conn.SetDuplex(true) // windows must be credited also while the client does not read
	s.http2.connections.Add(1)
	if s.draining {
		h.drain(now, 0)
	}
	h.flush(now)
	return h
}

// become turns a connection on which nothing but the preface of HTTP/2 was received into one of HTTP/2.
func (c *connection) become(now time.Time, b []byte) int {
	c.closed = true
	h := c.server.acceptHTTP2(now, c.conn)
	c.conn.SetHandler(h)
	return h.Data(now, b)
}

// opened makes the client of a new stream, or reuses that of a recycled one with its alarms and functions.
func (h *http2Conn) opened(m *mux.Stream) {
	var s *http2Stream
	if c, ok := m.Exchange.Owner.(*client); ok {
		s = c.peer.(*http2Stream)
		alarm, answered := c.alarm, c.answered
		*c = client{} // in place: a value with fields would be copied
		c.alarm, c.answered = alarm, answered
	} else {
		s = new(http2Stream)
	}
	s.of, s.m, s.ended = h, m, false
	s.begin(h.server, s, m, &m.Exchange)
	h.server.http2.streams.Add(1)
}

// Data passes bytes on, stream by stream.
func (h *http2Conn) Data(now time.Time, b []byte) (n int) {
	h.reading, h.postpones = true, true
	for h.conn.Unsent() <= unsentMax { // the rest is read when Writable is called
		read, m := h.m.HandleClient(now, b[n:])
		n += read
		if m == nil {
			break
		}
		m.Exchange.Owner.(*client).apply(now)
	}
	h.begin(now)
	h.reading = false
	h.flush(now)
	return n
}

// flush sends what streams have kept, and updates the connection. It must not be called while effects of a
// stream are carried out, because it carries out those of others.
func (h *http2Conn) flush(now time.Time) {
	if h.m.Failed() {
		h.end(now)
	}
	for more := true; more && !h.conn.Full(); {
		frames, resumed := h.m.Flush(now)
		more = len(frames) > 0
		h.write(frames)
		for _, m := range resumed {
			c := m.Exchange.Owner.(*client)
			c.apply(now)
			if c.upstream != nil {
				c.upstream.pump()
			}
		}
	}
	h.update(now)
}

// update sends the frames that answer and credit what was read, closes the connection when it has ended,
// and sets its deadline.
func (h *http2Conn) update(now time.Time) {
	h.counted.CountGlitches(h.m.Glitches())
	if h.m.Spent() {
		h.write(h.m.HandleDrain(now, 0))
	}
	if !h.conn.Full() || h.m.Ended() { // otherwise Writable is called
		h.write(h.m.Control())
	}
	if h.m.Ended() {
		h.countClosed()
		h.conn.CloseLinger()
		return
	}
	if d := h.m.Deadline(); d != h.deadline {
		h.deadline = d
		h.conn.SetDeadline(d)
	}
}

// write sends frames.
func (h *http2Conn) write(frames []byte) {
	if len(frames) == 0 {
		return
	}
	switch open := h.m.Open(); {
	case open == 0: // nothing more comes soon
		h.conn.SetBatch(loop.BatchTurn)
	case open >= batchFrom:
		h.conn.SetBatch(loop.BatchRound)
	}
	h.conn.Write(frames)
	h.m.HandleFull(h.conn.Full())
}

// Expired passes the deadline on.
func (h *http2Conn) Expired(now time.Time) {
	h.deadline = time.Time{}
	h.write(h.m.HandleExpired(now))
	h.flush(now)
}

// Writable continues to send.
func (h *http2Conn) Writable(now time.Time) {
	h.m.HandleFull(false)
	h.flush(now)
	h.conn.Pump()
}

// End handles that the client sends no more: it can neither open streams nor make room.
func (h *http2Conn) End(now time.Time, unread int) {
	if unread > 0 && h.conn.Unsent() > unsentMax {
		return // they are read first
	}
	h.reading = true
	frames := h.m.HandleClientEnd(func(m *mux.Stream) { m.Exchange.Owner.(*client).apply(now) })
	h.reading = false
	h.write(frames)
	h.flush(now)
}

// Closed ends all streams.
func (h *http2Conn) Closed(now time.Time, _ error) {
	h.end(now)
	if h.conn.Stalled() {
		h.counted.CountAs(report.CloseStalled)
	}
	h.server.http2.connections.Add(-1)
}

// end ends all streams.
func (h *http2Conn) end(now time.Time) {
	h.reading = true // there is nothing to update
	h.m.HandleClosed(func(m *mux.Stream) { m.Exchange.Owner.(*client).apply(now) })
	h.reading = false
}

// drain accepts no more streams after a while, and tells the client in that time.
func (h *http2Conn) drain(now time.Time, after time.Duration) {
	h.write(h.m.HandleDrain(now, after))
	h.flush(now)
}

// An http2Stream is the client of a stream.
//
// Owned by its loop.
type http2Stream struct {
	client
	of     *http2Conn
	m      *mux.Stream
	expiry *loop.Alarm // rings at the stream's deadline; made when first needed
	ended  bool        // there are no further effects
}

func (s *http2Stream) addrs() (remote, local netip.AddrPort) {
	return s.of.conn.Remote(), s.of.conn.Local()
}
func (s *http2Stream) background() bool                          { return false }
func (s *http2Stream) note(now time.Time, fx *session.Effects)   { s.noteLive(now, fx.Effects) }
func (s *http2Stream) write(_ time.Time, frames []byte)          { s.of.write(frames) }
func (s *http2Stream) end(fx *session.Effects)                   { s.ended = s.ended || fx.Close != session.CloseNone }
func (s *http2Stream) read(*session.Effects)                     {}
func (s *http2Stream) takes(time.Time, *upstreamConn, bool) bool { return true }

func (s *http2Stream) setDeadline(at time.Time) {
	switch {
	case at.IsZero() && s.expiry == nil:
		return
	case at.IsZero():
		s.expiry.Stop()
		return
	case s.expiry == nil:
		s.expiry = s.server.loop.NewAlarm(func(now time.Time) {
			if !s.closed {
				s.expired(now)
				s.of.flush(now)
			}
		})
	}
	s.expiry.Set(at)
}

// settled ends a stream that has ended.
func (s *http2Stream) settled(now time.Time) (more bool) {
	if !s.of.reading {
		defer s.of.update(now)
	}
	switch {
	case s.m.Leaves():
		return true
	case !s.ended:
		s.arm()
	case !s.closed:
		s.close(s.expiry)
		s.disown()
		s.server.http2.streams.Add(-1)
		s.m.Recycle()
	}
	return false
}

func (h *http2Conn) shares() share.Client { return share.ClientOf(h.conn.Remote().Addr()) }
func (h *http2Conn) bytes() int64         { return h.conn.Buffered() }
func (h *http2Conn) heldSince() time.Time { return h.accepted }
func (h *http2Conn) shedHeld(time.Time)   { h.conn.Abort() }

func (h *http2Conn) baseBytes() int64 {
	return baseBytes(h.conn, h.server.shared.cfg.Session.Trusts(h.conn.Remote().Addr()))
}

// streamBaseBytes is about the size of the values of a stream, in bytes.
const streamBaseBytes = 2 << 10

func (s *http2Stream) bytes() int64         { return s.client.bytes() + s.m.Memory() }
func (s *http2Stream) baseBytes() int64     { return streamBaseBytes }
func (s *http2Stream) heldSince() time.Time { return s.m.Began() }

// shedHeld ends the stream, unless that has happened with its connection.
func (s *http2Stream) shedHeld(now time.Time) {
	if !s.closed {
		s.m.HandleShortage(now)
		s.apply(now)
		s.of.flush(now)
	}
}
