package mux

import (
	"errors"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/proxy/http/exchange"
)

// errSilent is the error of a connection whose target does not answer a PING.
var errSilent = errors.New("the target does not answer PING")

// ErrHead is the error of a request whose head is larger than the target accepts.
var ErrHead = http2.ErrFieldsTooLarge

// An UpstreamStream is a stream of an Upstream, for one exchange.
//
// Owned by its loop.
type UpstreamStream struct {
	conn *Upstream
	x    *exchange.Exchange
	id   uint32 // 0: it is not open

	queue    []byte // of the request's body, that there was no room for
	complete bool   // the request ends with it,
	trailing []byte // or with these trailers after it
	queues   bool   // it, or the end of the request, has to be sent
	stallBy  time.Time

	reads     bool   // the exchange reads the answer now
	body      []byte // of that, what it has not read
	peerEnded bool   // the answer ends with it
	trailers  []byte // field lines after it; nil: none
	ended     bool   // the exchange has got the end of the answer, or of the stream
}

// Append appends what the exchange sends. host is that of the target. The error is ErrHead, or says that the
// stream was not opened because the target does not accept another one.
func (s *UpstreamStream) Append(now time.Time, dst []byte, x *exchange.Exchange, fx *exchange.Effects,
	host string) (out []byte, err error) {
	s.trailing = append(s.trailing, fx.UploadTrailers...)
	if r := fx.Forward; r != nil {
		s.x = x
		ends := fx.Uploaded && len(r.Body)+len(fx.Upload)+len(fx.UploadTrailers) == 0
		if dst, err = s.open(dst, r, host, ends); err != nil || ends {
			return dst, err
		}
		dst = s.appendBody(now, dst, r.Body, fx.Uploaded && len(fx.Upload) == 0)
	}
	if s.id == 0 || s.complete {
		return dst, nil // the target has ended the stream, or all was sent with the head
	}
	return s.appendBody(now, dst, fx.Upload, fx.Uploaded), nil
}

// open appends the head of a request, which opens the stream.
func (s *UpstreamStream) open(dst []byte, r *exchange.Request, host string, ends bool) (out []byte, err error) {
	c := s.conn
	f := c.env.fields[:0]
	if r.Framing != http1.BodyChunked && r.Length >= 0 {
		f = http1.AppendFieldInt(f, "Content-Length", r.Length)
	}
	if r.TakesTrailers {
		f = append(f, "TE: trailers\r\n"...)
	}
	c.env.fields = append(f, r.Fields()...)
	head := http2.Request{Method: r.MethodText(), Scheme: c.scheme, Authority: r.Host(), Path: r.Target(),
		Fields: c.env.fields}
	if head.Authority == nil {
		c.env.host = append(c.env.host[:0], host...)
		head.Authority = c.env.host
	}
	out, id, err := c.http2.AppendRequest(dst, &head, ends)
	if err == nil {
		s.id = id
		c.streams[id] = s
	}
	return out, err
}

// appendBody appends a piece of the request's body as far as there is room, and keeps the rest.
func (s *UpstreamStream) appendBody(now time.Time, dst, p []byte, complete bool) []byte {
	c := s.conn
	s.complete = complete
	if len(p) == 0 && !complete {
		return dst
	}
	sent := false
	if !s.queues && (!c.full || len(p) == 0) { // the end alone takes only the head of a frame
		n := 0
		dst, n = s.appendData(dst, p)
		p = p[n:]
		sent = len(p) == 0
	}
	if !sent && !s.queues {
		s.queues, s.stallBy = true, now.Add(c.env.Settings.StallTimeout)
		c.queued++
	}
	s.queue = append(s.queue, p...)
	return dst
}

// appendData appends as much of p as there is room for, and the end of the request if that is complete with p. It
// returns how much of p that is. Trailers that are too large for the target are dropped.
func (s *UpstreamStream) appendData(dst, p []byte) (out []byte, n int) {
	out, n = s.conn.http2.AppendData(dst, s.id, p, s.complete && len(s.trailing) == 0)
	if s.complete && n == len(p) && len(s.trailing) > 0 {
		var err error
		if out, err = s.conn.http2.AppendTrailers(out, s.id, s.trailing); err != nil {
			out, _ = s.conn.http2.AppendData(out, s.id, nil, true)
		}
		s.trailing = nil
	}
	return out, n
}

// Full reports whether the stream keeps so much of the request that the exchange is to read no more.
func (s *UpstreamStream) Full() bool {
	return len(s.queue) > s.conn.env.Settings.QueueMax && !s.complete
}

// Whole reports whether all of the answer was received.
func (s *UpstreamStream) Whole() bool { return s.peerEnded }

// flush sends what was kept, as far as there is room. It reports whether all was sent and the exchange may go
// on with its request.
func (s *UpstreamStream) flush(now time.Time) (resumed bool) {
	env, n := s.conn.env, 0
	env.frames, n = s.appendData(env.frames, s.queue)
	if s.queue = s.queue[n:]; len(s.queue) > 0 {
		if n >= progressMin {
			s.stallBy = now.Add(env.Settings.StallTimeout)
		}
		return false
	}
	s.unqueue()
	return !s.complete
}

// unqueue drops what was kept of the request.
func (s *UpstreamStream) unqueue() {
	if s.queue = nil; s.queues {
		s.queues = false
		s.conn.queued--
	}
}

// sendNoMore drops the rest of the request, which a target that has answered does not want (RFC 9113 section 8.1).
func (s *UpstreamStream) sendNoMore() {
	s.unqueue()
	s.complete = true
}

// handle handles an event of the stream.
func (s *UpstreamStream) handle(now time.Time, ev *http2.Event) {
	switch ev.Kind {
	case http2.HeadDone:
		s.conn.served, s.x.AnswerHTTP2 = true, true
		s.x.HandleResponseHead(now, &s.conn.env.head.Head)
	case http2.Data:
		if !s.reads || len(s.body) > 0 {
			s.body = append(s.body, ev.Data...)
			break
		}
		s.x.HandleResponseBody(ev.Data)
		s.conn.http2.Consumed(s.id, len(ev.Data))
	case http2.Trailers:
		s.trailers = trailersOf(&s.conn.env.head)
	}
	if s.peerEnded = s.peerEnded || ev.EndStream; s.reads {
		s.pass(now)
	}
}

// end ends the exchange, because the stream has ended before the answer, and returns it.
func (s *UpstreamStream) end(now time.Time, ev *http2.Event) *exchange.Exchange {
	s.forget()
	if ev.Err != nil {
		s.x.HandleBytes()
		s.x.HandleBadResponse(now, ev.Err)
	} else {
		s.x.HandleUpstreamReset(now, ev.Unprocessed)
	}
	return s.x
}

// forget takes a stream that has ended out of its connection.
func (s *UpstreamStream) forget() {
	delete(s.conn.streams, s.id)
	s.unqueue()
	s.id = 0
}

// pass passes on what was kept of the answer, and its end.
func (s *UpstreamStream) pass(now time.Time) {
	if len(s.body) > 0 {
		s.x.HandleResponseBody(s.body)
		s.conn.http2.Consumed(s.id, len(s.body))
		s.body = s.body[:0] // it stays valid until more arrives
	}
	if s.peerEnded && !s.ended {
		s.ended = true
		if s.trailers != nil {
			s.x.HandleResponseTrailers(s.trailers)
		}
		s.x.HandleResponseEnd(now, true)
	}
}

// Return ends the stream, and returns the frames that say so to the target, borrowed like Control's: a
// request or an answer that is not complete is cancelled, which costs no connection. The target goes on with
// its other streams.
func (s *UpstreamStream) Return() []byte {
	c := s.conn
	c.env.frames = c.env.frames[:0]
	if s.id != 0 {
		c.env.frames = c.http2.AppendReset(c.env.frames, s.id, http2.Cancel)
		s.forget()
	}
	c.lent--
	if cap(s.body) > bodyKept {
		s.body = nil
	}
	s.x, s.trailers, s.trailing = nil, nil, nil
	return c.env.frames
}

// bodyKept is the largest buffer that a stream that was returned keeps.
const bodyKept = 4 << 10

// Memory returns how many bytes the stream keeps.
func (s *UpstreamStream) Memory() int64 {
	return int64(cap(s.body) + cap(s.trailers) + cap(s.queue) + cap(s.trailing))
}
