package check

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// Bounds of a connection of HTTP/2, which carries many askers.
const (
	// http2IdleTimeout is longer than most clients keep a connection without streams.
	http2IdleTimeout = 15 * time.Minute
	// http2HeldMax bounds the bytes of bodies, and of answers for which the asker makes no room; beyond, the stream that
	// needs more is ended.
	http2HeldMax = 4 << 20
	// queuedMax bounds how long an answer may wait for room in all, also if the asker makes some now and then.
	queuedMax = time.Minute
	// streamsKept bounds the Sessions of streams that are kept for reuse.
	streamsKept = 256
)

// An HTTP2Conn is the state of one connection of HTTP/2, with a Session for each of its streams. The caller applies the
// effects in its Env after every call, before it calls another HTTP2Conn or Session of the loop.
//
//	HandleData ─▶ open ─▶ Session.handleHead … handleEnd ─▶ answer ─▶ settle ─▶ the Session is used again
//	                              └─▶ Env.Ask …  Env.Answered ─▶ HandleAnswered ─┘
//
// A connection is closed gracefully because of its age, because it is idle, or because the program ends (RFC 9113
// section 6.8): GOAWAY for all streams, a PING for one round trip, and GOAWAY with the last stream. So no request is
// lost.
//
// Owned by its loop.
type HTTP2Conn struct {
	Owner any // set by the rim: the Owner of the Sessions
	// Access is set by the rim; nil: that of the Env.
	Access *AccessPolicy

	env      *Env
	http2    *http2.Conn
	remote   netip.Addr
	verified bool
	secure   bool
	streams  []*Session // open, by their identifiers
	held     int        // see http2HeldMax
	working  int        // streams that have ended and still wait for the store

	until     time.Time // when HandleExpired looks for what is due; zero: never
	partial   time.Time // since when a frame is incomplete; zero: none is
	idle      time.Time // since when there are no streams; zero: there are some
	endBy     time.Time // when its maximum age is reached; zero: never
	drainBy   time.Time // when no more streams are accepted; zero: not yet
	cutBy     time.Time // when streams end at the latest; zero: never
	announced bool      // the first GOAWAY was sent
	ending    bool      // no more streams are accepted
	failed    bool      // the connection has ended
	err       error     // that has ended it, or nil
	full      bool      // see Full
}

// NewHTTP2Conn returns the HTTP2Conn of a connection opened at now by the given address. secure says that it uses TLS,
// and verified that a trusted certificate was presented.
func NewHTTP2Conn(now time.Time, env *Env, from netip.Addr, secure, verified bool) *HTTP2Conn {
	m := &HTTP2Conn{env: env, http2: http2.New(http2.Server, &env.HTTP2, now),
		remote: peer(from), secure: secure, verified: verified, partial: now, idle: now,
		endBy: env.EndOf(now)}
	m.wake(now.Add(times.Head))
	m.wake(m.endBy)
	return m
}

// wake makes HandleExpired check at the given time what is due; zero is no time.
func (m *HTTP2Conn) wake(at time.Time) { m.until = cycle.Earlier(m.until, at) }

// Deadline returns when HandleExpired must be called; zero means never.
func (m *HTTP2Conn) Deadline() time.Time { return m.until }

// Full reports whether HandleData has left bytes unread because enough is to be sent. They must be passed again.
func (m *HTTP2Conn) Full() bool { return m.full }

// Control sends acknowledgements and WINDOW_UPDATE frames. It is called only when all output has been written, so that
// an asker that reads nothing cannot make the output grow.
func (m *HTTP2Conn) Control() { m.env.Out = m.http2.AppendControl(m.env.Out) }

// Err returns the error that has ended the connection, or nil.
func (m *HTTP2Conn) Err() error { return m.err }

// Announced reports whether the asker was told by GOAWAY that the connection will end.
func (m *HTTP2Conn) Announced() bool { return m.announced }

// Glitches returns how many glitches of each kind there were.
func (m *HTTP2Conn) Glitches() [http2.GlitchKinds]uint32 { return m.http2.Glitches() }

// Ended reports whether the connection must be closed when all has been sent.
func (m *HTTP2Conn) Ended() bool { return m.failed || m.ending && len(m.streams) == 0 }

// HandleData processes b, the bytes received and not yet read, and returns how many it has read.
func (m *HTTP2Conn) HandleData(now time.Time, b []byte) (n int) {
	for m.full = false; !m.failed && !m.full; m.full = len(m.env.Out) > outMax {
		ev, err := m.http2.Next(now, b[n:], &m.env.heads)
		if n += ev.N; ev.N > 0 {
			m.partial = time.Time{}
		}
		switch {
		case err != nil:
			m.fail(now, err)
		case ev.Kind == http2.NeedMore:
			m.await(now, n < len(b))
			return n
		default:
			m.handle(now, &ev)
		}
	}
	return n
}

// await notes whether a part of a frame has been received.
func (m *HTTP2Conn) await(now time.Time, partial bool) {
	switch {
	case !partial:
		m.partial = time.Time{}
	case m.partial.IsZero():
		m.partial = now
		m.wake(now.Add(times.Head))
	}
}

func (m *HTTP2Conn) handle(now time.Time, ev *http2.Event) {
	s := m.find(ev.Stream)
	switch ev.Kind {
	case http2.HeadDone, http2.BadHead:
		s = m.open(now, ev)
		if ev.Kind == http2.BadHead {
			s.handleMalformed(now, m.env.heads.Target, ev.Err)
		} else {
			m.handleHead(now, s)
		}
	case http2.Data:
		m.http2.Consumed(ev.Stream, len(ev.Data))    // Sessions bound bodies
		if s != nil && s.cycle.State == cycle.Body { // in other states nothing of a body is needed
			m.take(now, s, ev.Data)
		}
	case http2.Reset:
		if s != nil {
			m.remove(now, s)
		}
		return
	case http2.WindowGrew, http2.Settings:
		m.flush(now)
		return
	case http2.Pong:
		if m.announced {
			m.end(now)
		}
		return
	}
	if s == nil {
		return
	}
	if ev.EndStream {
		s.stream.received = true
		if !s.stream.answered && s.cycle.State == cycle.Body {
			s.handleEnd(now)
		}
	}
	m.settle(now, s)
}

func (m *HTTP2Conn) find(id uint32) *Session {
	for i := len(m.streams) - 1; i >= 0; i-- {
		if s := m.streams[i]; s.stream.id == id {
			return s
		}
	}
	return nil
}

// open opens the stream of a request.
func (m *HTTP2Conn) open(now time.Time, ev *http2.Event) *Session {
	e := m.env
	var s *Session
	if n := len(e.streams); n > 0 {
		s, e.streams = e.streams[n-1], e.streams[:n-1]
		*s = Session{body: s.body[:0], checked: s.checked, turn: s.turn, parts: s.parts,
			stream: stream{queue: s.stream.queue[:0]}}
	} else {
		s = new(Session)
	}
	s.Owner, s.Access, s.env, s.remote, s.verified = m.Owner, cmp.Or(m.Access, e.Access), e, m.remote, m.verified
	s.cycle = cycle.New(now, &times, nil)
	s.stream.conn, s.stream.id = m, ev.Stream
	m.streams = append(m.streams, s)
	m.idle = time.Time{}
	return s
}

// handleHead handles the head of the request of s.
func (m *HTTP2Conn) handleHead(now time.Time, s *Session) {
	h := &m.env.heads.Head
	s.cycle.Begin(now, h)
	s.noticeCall(now, h)
	s.cycle.Until = cycle.Earlier(s.cycle.Until, s.call.by)
	s.handleHead(now, h)
	if h.Expect == http1.ExpectContinue && !s.stream.answered && s.cycle.State == cycle.Body {
		m.env.Out, _ = m.http2.AppendResponse(m.env.Out, s.stream.id, 100, nil, false)
	}
}

// take takes a piece of the body of s.
func (m *HTTP2Conn) take(now time.Time, s *Session, piece []byte) {
	if m.held+len(piece) > http2HeldMax {
		m.cut(now, s)
		return
	}
	s.handleBody(now, piece)
}

// HandleAnswered handles that the exchange of s has ended after it had waited.
func (m *HTTP2Conn) HandleAnswered(now time.Time, s *Session) { m.settle(now, s) }

// settle ends the stream of s if its answer has been sent, and otherwise notes its deadline.
func (m *HTTP2Conn) settle(now time.Time, s *Session) {
	switch {
	case !s.stream.closed:
		m.wake(s.cycle.Until)
		return
	case !s.stream.received: // RFC 9113 section 8.1
		m.env.Out = m.http2.AppendReset(m.env.Out, s.stream.id, http2.NoError)
	}
	m.remove(now, s)
}

// remove forgets a stream that has ended.
func (m *HTTP2Conn) remove(now time.Time, s *Session) {
	i := slices.Index(m.streams, s)
	if i < 0 {
		return // of a stream that was cut
	}
	m.streams = slices.Delete(m.streams, i, i+1)
	m.held -= len(s.stream.left())
	s.releaseBody()
	s.HandleClosed(now)
	if len(m.streams) == 0 {
		m.idle = now
		m.wake(now.Add(http2IdleTimeout))
	}
	e := m.env
	switch {
	case s.stale > 0: // it counts as open, so that an asker gains nothing by resetting streams
		s.stream.working = true
		m.work(1)
	case len(e.streams) < streamsKept && cap(s.stream.queue) <= bodyBytesKept:
		e.streams = append(e.streams, s)
	}
}

func (m *HTTP2Conn) work(n int) {
	m.working += n
	m.http2.SetWorking(m.working)
}

// answeredStale handles the answer to an ask or an edit that was forgotten. Its stream may still be sending its answer.
func (s *Session) answeredStale() {
	if s.stale--; s.stale == 0 && s.stream.working {
		s.stream.conn.work(-1)
	}
}

// HandleExpired handles a Deadline that has passed at now.
func (m *HTTP2Conn) HandleExpired(now time.Time) {
	if m.until.IsZero() || now.Before(m.until) {
		return
	}
	m.until = time.Time{}
	due := func(at time.Time) bool {
		if at.IsZero() || now.Before(at) {
			m.wake(at)
			return false
		}
		return true
	}
	for i := len(m.streams) - 1; i >= 0; i-- {
		if s := m.streams[i]; due(s.cycle.Until) {
			m.expire(now, s)
		}
	}
	switch {
	case !m.partial.IsZero() && due(m.partial.Add(times.Head)):
		m.env.Out = m.http2.AppendGoAway(m.env.Out, true, http2.EnhanceYourCalm)
		m.fail(now, http2.ErrSlow)
		return
	case due(m.cutBy):
		m.fail(now, nil)
		return
	}
	if due(m.drainBy) {
		m.end(now)
	}
	if !m.idle.IsZero() && due(m.idle.Add(http2IdleTimeout)) || due(m.endBy) {
		m.announce(now, m.env.AgeGrace)
	}
}

// expire handles the deadline of a stream.
func (m *HTTP2Conn) expire(now time.Time, s *Session) {
	if len(s.stream.left()) > 0 {
		m.cut(now, s)
		return
	}
	s.HandleExpired(now)
	m.settle(now, s)
}

// HandleDrain starts closing the connection because the program is about to end.
func (m *HTTP2Conn) HandleDrain(now time.Time) {
	m.announce(now, 0)
	for i := len(m.streams) - 1; i >= 0; i-- {
		if s := m.streams[i]; s.call.watches {
			s.watch(now)
			m.settle(now, s)
		}
	}
}

// announce starts closing the connection; its streams end at the latest after grace, unless that is 0.
func (m *HTTP2Conn) announce(now time.Time, grace time.Duration) {
	if m.announced || m.failed {
		return
	}
	m.announced, m.endBy, m.drainBy = true, time.Time{}, now.Add(max(m.env.DrainGrace, time.Second))
	if grace > 0 {
		m.cutBy = now.Add(grace)
	}
	m.wake(m.drainBy)
	m.wake(m.cutBy)
	m.env.Out = m.http2.AppendPing(m.http2.AppendGoAway(m.env.Out, false, http2.NoError))
}

// end accepts no more streams, and ends those that watch, which would not end by themselves.
func (m *HTTP2Conn) end(now time.Time) {
	if m.ending || m.failed {
		return
	}
	m.ending, m.drainBy = true, time.Time{}
	m.env.Out = m.http2.AppendGoAway(m.env.Out, true, http2.NoError)
	for i := len(m.streams) - 1; i >= 0; i-- {
		if s := m.streams[i]; s.call.watches {
			s.endWatch(now, codeUnavailable)
			m.settle(now, s)
		}
	}
}

// fail ends the connection because of an error, or without one because of its age, after what is to be sent.
func (m *HTTP2Conn) fail(now time.Time, err error) {
	m.err = err
	m.env.Out = m.http2.AppendControl(m.env.Out)
	m.HandleClosed(now)
}

// HandleClosed ends all streams after the connection has closed.
func (m *HTTP2Conn) HandleClosed(now time.Time) {
	m.failed = true
	for len(m.streams) > 0 {
		m.remove(now, m.streams[len(m.streams)-1])
	}
	m.until = time.Time{}
}
