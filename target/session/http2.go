package session

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// An HTTP2 is the state of one connection of HTTP/2 (RFC 9113), and like a Session puts its effects
// into the LoopState of its loop. Each of its streams carries a request. Streams need their answers
// independently of each other: see LoopState.Asking.
//
// A connection on which nothing arrives for the idle timeout is closed, unless a stream waits for its
// answer. So is one whose client does not send the rest of a frame in time after the one before.
//
// Owned by its loop.
type HTTP2 struct {
	sh      *LoopState
	http2   *http2.Conn
	open    func() *Stream
	streams []*Stream // in the order of their identifiers
	asked   int       // streams that wait for an answer
	until   time.Time // the deadline; zero: none
	partial bool      // what was received ends within a frame
	drains  bool      // no further streams are accepted
	over    bool      // nothing more is read or sent
}

// limits of a connection. Glitches are only counted: in experiments clients reset many requests of a service that
// is slow, without being attackers.
var limits = http2.Limits{GlitchBurst: -1}

// NewHTTP2 returns the state of a connection on which nothing was received before now. open returns
// the zero Stream, or one that only has its Owner, for a request.
func NewHTTP2(now time.Time, sh *LoopState, open func() *Stream) *HTTP2 {
	return &HTTP2{sh: sh, http2: http2.New(http2.Server, &limits, now), open: open, until: now.Add(times.Idle)}
}

// Deadline returns when HandleExpired must be called; zero means never.
func (c *HTTP2) Deadline() time.Time { return c.until }

// Streams returns the open streams. The slice is valid until the next call.
func (c *HTTP2) Streams() []*Stream { return c.streams }

// HandleData processes b, the bytes received and not yet read, and returns how many it has read.
func (c *HTTP2) HandleData(now time.Time, b []byte) (n int) {
	for !c.over {
		ev, err := c.http2.Next(now, b[n:], &c.sh.head)
		n += ev.N
		if err != nil {
			c.close()
			return len(b)
		}
		if ev.Kind == http2.NeedMore {
			break
		}
		c.handle(now, &ev)
	}
	if c.over {
		return len(b) // closing discards it
	}
	if n > 0 {
		c.partial = false
	}
	if n < len(b) && !c.partial {
		c.partial, c.until = true, now.Add(times.Head)
	}
	return n
}

// HandleTurn must be called after HandleData, when the answers that are known at once have been passed
// on, and after each later answer. It completes what is sent and sets the deadline.
func (c *HTTP2) HandleTurn(now time.Time) {
	c.sh.Out = c.http2.AppendControl(c.sh.Out)
	switch {
	case c.over:
	case c.drains && len(c.streams) == 0:
		c.close()
	case c.partial:
	case c.asked > 0:
		c.until = time.Time{}
	default:
		c.until = now.Add(times.Idle)
	}
}

func (c *HTTP2) handle(now time.Time, ev *http2.Event) {
	switch ev.Kind {
	case http2.HeadDone:
		c.begin(now, ev).handleHead(now)
	case http2.BadHead:
		c.begin(now, ev).refuse(now, http1.StatusOf(ev.Err))
		return
	case http2.WindowGrew, http2.Settings:
		c.flush(now)
		return
	}
	i, ok := c.find(ev.Stream)
	if !ok {
		return
	}
	s := c.streams[i]
	switch {
	case ev.Kind == http2.Reset:
		c.remove(i)
		return
	case s.answered: // the rest of the request is not wanted
		c.http2.Consumed(s.id, len(ev.Data))
		return
	case ev.Kind == http2.Data:
		s.handleBody(now, ev.Data)
	}
	if ev.EndStream && !s.closed && !s.answered {
		s.handleEnd(now)
	}
}

// begin opens the stream of a request.
func (c *HTTP2) begin(now time.Time, ev *http2.Event) *Stream {
	s := c.open()
	s.conn, s.id, s.began = c, ev.Stream, now
	c.streams = append(c.streams, s)
	return s
}

func (c *HTTP2) find(id uint32) (i int, ok bool) {
	return slices.BinarySearchFunc(c.streams, id, func(s *Stream, id uint32) int { return int(s.id) - int(id) })
}

// remove forgets a stream. If it waits for an answer, that is not needed any more.
func (c *HTTP2) remove(i int) {
	s := c.streams[i]
	s.closed = true
	c.streams = slices.Delete(c.streams, i, i+1)
	if s.await != AwaitNone {
		s.answerCame()
		c.sh.Left = append(c.sh.Left, s)
	}
}

// flush sends what there was no room for.
func (c *HTTP2) flush(now time.Time) {
	for _, s := range slices.Clone(c.streams) { // some end
		if len(s.unsent) == 0 || c.http2.Room(s.id) == 0 {
			continue
		}
		if s.unsent = s.sendSome(s.unsent); s.echo != nil {
			s.next(now)
		}
	}
}

// HandleExpired handles a passed Deadline. If it has not passed at now, it does nothing.
func (c *HTTP2) HandleExpired(now time.Time) {
	if c.over || c.until.IsZero() || now.Before(c.until) {
		return
	}
	code := http2.NoError
	if c.partial {
		code = http2.EnhanceYourCalm
	}
	c.sh.Out = c.http2.AppendGoAway(c.sh.Out, true, code)
	c.close()
}

// HandleDrain accepts no further streams because the program ends, and closes the connection when the
// open ones have been answered.
func (c *HTTP2) HandleDrain(now time.Time) {
	if !c.drains && !c.over {
		c.drains = true
		c.sh.Out = c.http2.AppendGoAway(c.sh.Out, true, http2.NoError)
		c.HandleTurn(now)
	}
}

// close ends the connection with all its streams.
func (c *HTTP2) close() {
	c.sh.Out = c.http2.AppendControl(c.sh.Out)
	c.over, c.until, c.sh.Close = true, time.Time{}, cycle.CloseLinger
	for len(c.streams) > 0 {
		c.remove(len(c.streams) - 1)
	}
}

// A Stream is the state of one request on a connection of HTTP/2.
//
// Owned by its loop.
type Stream struct {
	Owner any // the caller's

	conn     *HTTP2
	id       uint32
	began    time.Time
	method   http1.Method
	endpoint Endpoint
	await    Await       // the answer that it waits for
	own      *ownRequest // being received
	echo     *echo       // of a gRPC call
	unsent   []byte      // of the response, which ends with it unless there is an echo
	answered bool        // all of the response is in Out or unsent
	closed   bool        // it has ended
}

// Await returns which part must answer the request now, if any.
func (s *Stream) Await() Await { return s.await }

// Raw returns the request of AwaitOwn, see LoopState.Raw.
func (s *Stream) Raw() []byte { return s.own.raw() }

func (s *Stream) handleHead(now time.Time) {
	h := &s.conn.sh.head.Head
	status := 0
	if s.method, s.endpoint, s.own, status = begin(h); status != 0 {
		s.refuse(now, status)
		return
	}
	if s.endpoint == EchoUnary || s.endpoint == EchoStream {
		if kind, _ := h.Value(http1.FieldContentType); !bytes.HasPrefix(kind, []byte(grpcType)) {
			s.refuse(now, 415)
			return
		}
		s.echo = &echo{unary: s.endpoint == EchoUnary}
	}
	if h.Expect == http1.ExpectContinue && h.Framing != http1.BodyNone {
		s.respond(100, nil, false)
	}
}

func (s *Stream) handleBody(now time.Time, p []byte) {
	if e := s.echo; e != nil {
		e.in, e.held = append(e.in, p...), e.held+len(p)
		s.next(now)
		return
	}
	s.conn.http2.Consumed(s.id, len(p))
	if s.endpoint != Own {
		return // only own endpoints use the body
	}
	if s.own.body = append(s.own.body, p...); len(s.own.body) > ownBodyMax {
		s.refuse(now, 413)
	}
}

func (s *Stream) handleEnd(now time.Time) {
	switch s.endpoint {
	case Service:
		s.askFor(AwaitService)
	case Own:
		s.askFor(AwaitOwn)
	case EchoUnary, EchoStream:
		s.echo.received = true
		s.next(now)
	default:
		s.answer(now, 404)
	}
}

func (s *Stream) askFor(whom Await) {
	s.await = whom
	s.conn.asked++
	s.conn.sh.Asking = append(s.conn.sh.Asking, s)
}

// answerCame ends the wait for an answer.
func (s *Stream) answerCame() {
	if s.await == AwaitNone {
		panic(fmt.Sprintf("bug: answer for stream %d, which waits for none", s.id))
	}
	s.await = AwaitNone
	s.conn.asked--
}

// HandleAnswer answers the request of AwaitService with a status. A stream that has ended must not be
// answered.
func (s *Stream) HandleAnswer(now time.Time, status int) {
	s.answerCame()
	if s.echo != nil {
		s.answerMessage(now, status)
	} else {
		s.answer(now, status)
	}
}

// HandleReply answers the request of AwaitOwn, see Session.HandleReply.
func (s *Stream) HandleReply(now time.Time, status int, fields [][2]string, body []byte) {
	s.answerCame()
	sh := s.conn.sh
	sh.extra = sh.extra[:0]
	for _, f := range fields {
		sh.extra = http1.AppendField(sh.extra, f[0], f[1])
	}
	s.finish(now, status, body)
}

// refuse answers a request that is not read to its end.
func (s *Stream) refuse(now time.Time, status int) {
	s.own = nil
	s.answer(now, status)
}

// answer sends a short answer like that of a Session.
func (s *Stream) answer(now time.Time, status int) {
	sh := s.conn.sh
	sh.body = append(sh.body[:0], shortBody(status)...)
	sh.extra = http1.AppendField(sh.extra[:0], "Content-Type", okType)
	s.finish(now, status, sh.body)
}

// finish sends an answer, with the fields in the LoopState's extra.
func (s *Stream) finish(now time.Time, status int, body []byte) {
	sh := s.conn.sh
	sh.extra = http1.AppendFieldInt(sh.extra, "Content-Length", int64(len(body)))
	sh.extra = append(sh.extra, sh.date(now)...)
	if s.method == http1.HEAD {
		body = nil
	}
	s.count(now, status)
	s.answered = true
	if s.respond(status, sh.extra, len(body) == 0) && len(body) > 0 {
		s.send(body)
	}
}

// respond sends a head, and reports whether the stream is still open.
func (s *Stream) respond(status int, fields []byte, ends bool) (open bool) {
	c := s.conn
	var err error
	if c.sh.Out, err = c.http2.AppendResponse(c.sh.Out, s.id, status, fields, ends); err != nil {
		c.sh.Out = c.http2.AppendReset(c.sh.Out, s.id, http2.InternalError) // more fields than the client accepts
		ends = true
	}
	if ends {
		s.end()
	}
	return !ends
}

// send sends a part of the body of the response, or keeps what there is no room for.
func (s *Stream) send(p []byte) { s.unsent = append(s.unsent[:0], s.sendSome(p)...) }

// sendSome sends as much of p as there is room for, and returns the rest. Without an echo p is the last part.
func (s *Stream) sendSome(p []byte) (rest []byte) {
	c, n := s.conn, 0
	c.sh.Out, n = c.http2.AppendData(c.sh.Out, s.id, p, s.echo == nil)
	if n == len(p) && s.echo == nil {
		s.end()
	}
	return p[n:]
}

// end ends the stream after its response. If the request is not complete the rest is not wanted
// (RFC 9113 section 8.1).
func (s *Stream) end() {
	s.conn.sh.Out = s.conn.http2.AppendReset(s.conn.sh.Out, s.id, http2.NoError)
	if i, ok := s.conn.find(s.id); ok {
		s.conn.remove(i)
	}
}

func (s *Stream) count(now time.Time, status int) {
	s.conn.sh.Answered = append(s.conn.sh.Answered, Exchange{
		Took: now.Sub(s.began), Status: status, Method: s.method, Endpoint: s.endpoint, HTTP2: true,
	})
}
