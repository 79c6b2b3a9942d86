package check

import (
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// A stream is the further state of a Session of HTTP/2.
type stream struct {
	conn     *HTTP2Conn // nil: it is one of HTTP/1.1
	id       uint32
	received bool      // the whole request
	answered bool      // the answer has begun
	queue    []byte    // the part of the answer for which there was no room
	sent     int       // bytes of queue that were sent meanwhile
	queueBy  time.Time // when all of queue must be sent
	complete bool      // no more follows queue, except trailers
	trailers string    // field lines at the end of the answer
	working  bool      // see HTTP2Conn.working
	closed   bool      // the end of the answer was sent, or the stream was reset
}

// left returns what of the answer waits for room.
func (st *stream) left() []byte { return st.queue[st.sent:] }

// protocol returns what the asker uses.
func (s *Session) protocol() Protocol {
	switch m := s.stream.conn; {
	case m == nil:
		return HTTP1
	case m.secure:
		return H2
	}
	return H2C
}

// answer sends an answer on the stream of s, unless it has one. Its fields may be in the Env's extra.
func (m *HTTP2Conn) answer(now time.Time, s *Session, a http1.LocalResponse) {
	e, st := m.env, &s.stream
	if st.answered {
		return
	}
	s.releaseBody()
	st.answered = true
	s.cycle.State, s.cycle.Until = cycle.Closing, time.Time{}
	f := e.fields[:0]
	if a.ContentType != "" {
		f = http1.AppendField(f, "Content-Type", a.ContentType)
	}
	if !a.Bodiless() && !s.call.is {
		f = http1.AppendFieldInt(f, "Content-Length", int64(len(a.Body)))
	}
	e.fields = append(f, a.Extra...)
	ends := a.Bodiless() || a.Head || len(a.Body) == 0
	var err error
	if e.Out, err = m.http2.AppendResponse(e.Out, st.id, a.Status, e.fields, ends); err != nil {
		m.reset(s, http2.InternalError) // more fields than the asker accepts
		return
	}
	st.closed = ends
	if !ends {
		m.write(now, s, a.Body, true)
	}
}

// write sends a piece of an answer as far as there is room, and keeps the rest. complete says that it is the last one.
func (m *HTTP2Conn) write(now time.Time, s *Session, p []byte, complete bool) {
	st := &s.stream
	st.complete = complete
	n := 0
	if len(st.left()) == 0 {
		n, st.queueBy = m.push(s, p), now.Add(queuedMax)
	}
	if n == len(p) {
		return
	}
	if m.held+len(p)-n > http2HeldMax {
		m.cut(now, s)
		return
	}
	m.held += len(p) - n
	st.queue = append(st.queue, p[n:]...)
	s.cycle.Until = cycle.Earlier(now.Add(times.Body), st.queueBy)
}

// push sends as much of p as there is room for, and the end of the answer if that is complete with p.
func (m *HTTP2Conn) push(s *Session, p []byte) (n int) {
	e, st := m.env, &s.stream
	e.Out, n = m.http2.AppendData(e.Out, st.id, p, st.complete && st.trailers == "")
	if !st.complete || n < len(p) {
		return n
	}
	st.closed = true
	if st.trailers != "" {
		e.fields = append(e.fields[:0], st.trailers...)
		e.Out, _ = m.http2.AppendTrailers(e.Out, st.id, e.fields) // a few bytes, which every asker accepts
	}
	return n
}

// flush sends what was kept, as far as there is room.
func (m *HTTP2Conn) flush(now time.Time) {
	for i := len(m.streams) - 1; i >= 0; i-- {
		s := m.streams[i]
		st := &s.stream
		if len(st.left()) == 0 {
			continue
		}
		if n := m.push(s, st.left()); n > 0 {
			m.held -= n
			if st.sent += n; st.sent > len(st.queue)/2 { // rarely, since an asker may make room for single bytes
				st.queue, st.sent = append(st.queue[:0], st.left()...), 0
			}
			s.cycle.Until = time.Time{}
			switch {
			case len(st.left()) > 0:
				s.cycle.Until = cycle.Earlier(now.Add(times.Body), st.queueBy)
			case s.call.watches:
				s.cycle.Until = now
			}
			m.settle(now, s)
		}
	}
}

// cut resets a stream that needs more memory than there is, or whose asker makes no room for too long.
func (m *HTTP2Conn) cut(now time.Time, s *Session) {
	m.env.Cut()
	m.reset(s, http2.EnhanceYourCalm)
	m.settle(now, s)
}

// reset ends a stream without an answer, or before its end.
func (m *HTTP2Conn) reset(s *Session, code http2.Code) {
	m.env.Out = m.http2.AppendReset(m.env.Out, s.stream.id, code)
	s.stream.answered, s.stream.closed, s.stream.received = true, true, true
}
