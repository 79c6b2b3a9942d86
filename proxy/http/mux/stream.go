package mux

import (
	"slices"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
)

// A Stream carries one exchange.
//
// Owned by its loop.
type Stream struct {
	// Exchange is that of the stream's request. The owner calls its methods, except those that the stream
	// has too, and then MoveEffects.
	Exchange exchange.Exchange
	state
}

// A state is what is known about a stream besides its exchange.
type state struct {
	conn     *Conn
	id       uint32
	began    time.Time // when the head of the request was read
	body     []byte    // received, and not yet read by the exchange
	received bool      // all of the request has been received
	paused   bool      // the client has sent nothing more of it for a moment
	trailers []byte    // field lines after the body; nil: none
	read     bool      // the exchange has got the end of the request

	queue    []byte     // of the response's body, that there was no room for
	complete bool       // the response ends with it,
	trailing []byte     // or with these trailers after it
	stallBy  time.Time  // when the client must have made room; zero: it need not
	cut      http2.Code // of the reset that cuts the response short; NoError: it is not cut
	reset    bool       // the client has reset the stream, or has disconnected
	closed   bool       // the end of the response was sent
	over     bool       // the exchange has ended
	ended    bool       // the owner has the effect that the stream has ended
	answered bool       // the exchange has ended with a complete response
	short    bool       // it was ended for lack of memory, and what it waits for may still come
}

// Recycle makes a stream whose end the owner has handled available for a later request, with its Owner.
// As on a connection of HTTP/1.1 that goes on, nothing comes late for a request that was received and answered.
func (s *Stream) Recycle() {
	e := s.conn.env
	if !s.answered || !s.received || s.reset || s.cut != http2.NoError || s.short || len(e.spares) >= sparesMax ||
		cap(s.body) > spareBytesMax || cap(s.queue) > spareBytesMax {
		return
	}
	if i := slices.Index(s.conn.begun, s); i >= 0 {
		s.conn.begun[i] = nil
	}
	e.spares = append(e.spares, s)
}

// receive takes a piece of the body, or its end.
func (s *Stream) receive(p []byte, end bool) {
	s.conn.env.Exchange.Begin()
	s.body = append(s.body, p...)
	s.received = s.received || end
}

// resume gives the exchange what it reads.
func (s *Stream) resume(now time.Time) {
	x := &s.Exchange
	if x.Refused() {
		x.HandleUnread(now, s.received)
	}
	if len(s.body) > 0 && x.Reads() {
		x.HandleBody(now, s.body)
		s.conn.http2.Consumed(s.id, len(s.body))
		s.body = s.body[:0]
	}
	if s.paused && !s.received && len(s.body) == 0 {
		x.HandleBodyPause(now)
	}
	if s.received && !s.read && len(s.body) == 0 && x.Reads() {
		s.read = true
		if s.trailers != nil {
			x.HandleTrailers(s.trailers)
		}
		x.HandleBodyEnd(now)
	}
}

// Deadline returns when HandleExpired must be called; zero means never.
func (s *Stream) Deadline() time.Time {
	return cycle.Earlier(s.Exchange.Deadline(), s.stallBy)
}

// HandleExpired is called when the Deadline has passed. A client that makes no room for too long loses
// the stream.
func (s *Stream) HandleExpired(now time.Time) {
	switch stalls := !s.stallBy.IsZero() && !now.Before(s.stallBy); {
	case stalls && s.conn.full: // the connection as a whole has a timeout of its own
		s.stallBy = now.Add(s.conn.env.Settings.StallTimeout)
		return
	case stalls:
		s.stallBy = time.Time{}
		s.abort()
		s.conn.noteGlitch(now, http2.GlitchWindow)
		return
	}
	if s.Exchange.HandleExpired(now) {
		s.conn.noteGlitch(now, http2.GlitchSlowRequest)
	}
}

// handleReset handles that the client has reset the stream.
func (s *Stream) handleReset() {
	s.reset = true
	s.leave()
}

// abort cuts the response short, by a reset of the stream.
func (s *Stream) abort() {
	s.cut = http2.InternalError
	s.leave()
}

// leave ends the exchange in favour of nobody.
func (s *Stream) leave() {
	s.body, s.trailers, s.queue, s.trailing, s.stallBy, s.over = nil, nil, nil, nil, time.Time{}, true
	s.Exchange.HandleClientClosed()
}

// HandleUpstream handles bytes from the upstream connection, see [session.Upstream.Handle].
func (s *Stream) HandleUpstream(now time.Time, u *session.Upstream, b []byte) int {
	return u.Handle(now, &s.Exchange, b)
}

// HandleUpstreamClosed handles the close of the upstream connection; err is the reason.
func (s *Stream) HandleUpstreamClosed(now time.Time, u *session.Upstream, err error) {
	u.HandleClosed(now, &s.Exchange, err)
}

// HandleUpstreamEnd reports whether the upstream connection, which sends no more, stays open, because
// unread of its bytes wait until the client accepts more.
func (s *Stream) HandleUpstreamEnd(_ time.Time, unread int) (open bool) {
	s.conn.env.Exchange.Begin()
	return unread > 0 && s.Exchange.Holds()
}

// HandleTargetFull reports whether the upstream connection currently accepts no data.
func (s *Stream) HandleTargetFull(now time.Time, full bool) { s.Exchange.HandleTargetFull(now, full) }

// Memory returns how many bytes the stream keeps besides its exchange.
func (s *Stream) Memory() int64 {
	return int64(cap(s.body) + cap(s.trailers) + cap(s.queue) + cap(s.trailing))
}

// Began returns when the head of the request was read.
func (s *Stream) Began() time.Time { return s.began }

// HandleShortage ends the stream because the proxy is short of memory: by a response, or else by a reset.
func (s *Stream) HandleShortage(now time.Time) {
	s.short = true
	if !s.Exchange.HandleShortage(now) {
		s.abort()
	}
}

// MoveEffects continues with the request if the exchange reads again, and moves the effects to fx. Client
// has frames. Close is CloseDrained when the stream has ended.
func (s *Stream) MoveEffects(now time.Time, fx *session.Effects) {
	s.resume(now)
	x := &s.Exchange
	fx.Effects = x.MoveEffects(fx.Effects)
	fx.Upstream, fx.EndUpstream, fx.EndClient, fx.Read, fx.Close = nil, false, false, false, session.CloseNone
	how, _ := x.End()
	s.over = s.over || how != exchange.EndNone
	s.answered = s.answered || how == exchange.EndAnswered
	switch how {
	case exchange.EndTimedOut:
		s.cut = http2.Cancel // which is DEADLINE_EXCEEDED in gRPC
	case exchange.EndIncomplete:
		s.cut = http2.InternalError
	}
	frames := s.conn.env.frames[:0]
	if !s.reset && !s.ended {
		if !s.closed {
			frames = s.appendResponse(frames, fx)
			if len(fx.Trailers) > 0 {
				s.trailing = append(s.trailing, fx.Trailers...) // the body may have to wait for room
			}
			frames = s.appendBody(now, frames, fx.Body, fx.Complete)
		}
		frames = s.appendEnd(frames)
	}
	s.conn.env.frames, fx.Client = frames, frames
	switch {
	case s.ended || !s.closed && !s.reset:
	case !s.over: // the stream could not carry the response
		s.leave()
	default:
		s.ended = true
		s.conn.remove(now, s)
		fx.Close = session.CloseDrained
	}
}

// Leaves reports whether MoveEffects is to be called again, for the end of the exchange.
func (s *Stream) Leaves() bool { return s.closed && !s.ended }

// appendResponse appends interim responses and the head of the final one. A target that wants to authenticate the
// connection cannot do so, because the streams share it.
func (s *Stream) appendResponse(dst []byte, fx *session.Effects) []byte {
	for i := range fx.Interim {
		dst, _ = s.conn.http2.AppendResponse(dst, s.id, fx.Interim[i].Status, fx.Interim[i].Fields, false)
	}
	r := fx.Response
	switch {
	case r == nil:
		return dst
	case r.Status == 401 && s.Exchange.Private:
		s.cut = http2.HTTP11Required
		return dst
	}
	f := s.conn.env.fields[:0]
	if r.ContentType != "" {
		f = http1.AppendField(f, "Content-Type", r.ContentType)
	}
	if r.Framing != http1.BodyChunked && r.Framing != http1.BodyUntilClose && r.Length >= 0 {
		f = http1.AppendFieldInt(f, "Content-Length", r.Length)
	}
	f = append(f, r.Fields...)
	s.conn.env.fields = f
	ends := fx.Complete && len(fx.Body) == 0 && len(fx.Trailers) == 0
	dst, err := s.conn.http2.AppendResponse(dst, s.id, r.Status, f, ends)
	if err != nil { // more fields than the client accepts
		s.cut = http2.InternalError
	}
	s.closed = ends && err == nil
	return dst
}

// appendBody appends a piece of the response's body as far as there is room, and keeps the rest.
func (s *Stream) appendBody(now time.Time, dst, p []byte, complete bool) []byte {
	s.complete = s.complete || complete
	if s.closed || s.cut != http2.NoError || len(p) == 0 && !complete {
		return dst
	}
	if len(s.queue) == 0 && (!s.conn.full || len(p) == 0) { // the end alone takes only the head of a frame
		n := 0
		dst, n = s.appendData(dst, p)
		p = p[n:]
	}
	if len(p) > 0 {
		s.keep(now, p)
	}
	return dst
}

// keep keeps a part of the body for which there is no room.
func (s *Stream) keep(now time.Time, p []byte) {
	if len(s.queue) == 0 {
		s.stallBy = now.Add(s.conn.env.Settings.StallTimeout)
	}
	s.queue = append(s.queue, p...)
	if full, _ := s.Exchange.Full(); !full && len(s.queue) > s.conn.env.Settings.QueueMax && !s.complete {
		s.Exchange.HandleClientFull(now, true)
	}
}

// progressMin is how many bytes a client must make room for at once so that it is not stalling.
const progressMin = 1 << 10

// flush sends what was kept, as far as there is room. It reports whether the owner must carry out effects: the
// exchange reads the answer again, or the stream has ended.
func (s *Stream) flush(now time.Time) (resumed bool) {
	env, n := s.conn.env, 0
	env.frames, n = s.appendData(env.frames, s.queue)
	if n == 0 {
		return false
	}
	if s.queue = s.queue[n:]; len(s.queue) > 0 {
		if n >= progressMin {
			s.stallBy = now.Add(env.Settings.StallTimeout)
		}
		return false
	}
	s.queue, s.stallBy = nil, time.Time{}
	if full, _ := s.Exchange.Full(); full {
		s.Exchange.HandleClientFull(now, false)
		return true
	}
	return s.closed || s.cut != http2.NoError
}

// appendData appends as much of p as there is room for, and the end of the response if that is complete with p. It
// returns how much of p that is.
func (s *Stream) appendData(dst, p []byte) (out []byte, n int) {
	out, n = s.conn.http2.AppendData(dst, s.id, p, s.complete && len(s.trailing) == 0)
	if s.complete && n == len(p) {
		var err error
		if len(s.trailing) > 0 {
			out, err = s.conn.http2.AppendTrailers(out, s.id, s.trailing)
		}
		if s.closed = err == nil; err != nil { // more fields than the client accepts
			s.cut = http2.InternalError
		}
	}
	return out, n
}

// appendEnd ends the stream if the response is cut short, or complete while the request is not (RFC 9113
// 8.1).
func (s *Stream) appendEnd(dst []byte) []byte {
	switch {
	case s.cut != http2.NoError:
		s.closed = true
		return s.conn.http2.AppendReset(dst, s.id, s.cut)
	case s.closed && !s.received:
		return s.conn.http2.AppendReset(dst, s.id, http2.NoError)
	}
	return dst
}
