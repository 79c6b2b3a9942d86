package serve

import (
	"time"

	"weir/internal/net/loop"
	"weir/internal/program/service"
	"weir/target/model"
	"weir/target/session"
)

// An http2Conn applies the effects of one connection of HTTP/2. It implements loop.Handler.
//
// Owned by its loop.
type http2Conn struct {
	shard   *shard
	net     *loop.Conn
	session *session.HTTP2
}

// newHTTP2Conn returns the new Handler of lc, on which the connection preface of HTTP/2 was received.
func newHTTP2Conn(now time.Time, r *shard, lc *loop.Conn) *http2Conn {
	c := &http2Conn{shard: r, net: lc}
	c.session = session.NewHTTP2(now, &r.shared, func() *session.Stream {
		s := &stream{conn: c}
		s.Owner = s
		return &s.Stream
	})
	lc.SetHandler(c)
	return c
}

func (c *http2Conn) Data(now time.Time, b []byte) int {
	defer c.shard.shared.Reset()
	n := c.session.HandleData(now, b)
	c.apply(now)
	return n
}

func (c *http2Conn) Expired(now time.Time) {
	c.session.HandleExpired(now)
	c.apply(now)
}

func (c *http2Conn) Closed(time.Time, error) {
	for _, s := range c.session.Streams() {
		s.Owner.(*stream).leave()
	}
}

func (c *http2Conn) drain(now time.Time) {
	c.session.HandleDrain(now)
	c.apply(now)
}

// apply applies the effects. After a panic those that are left are forgotten: they are of this connection only.
func (c *http2Conn) apply(now time.Time) {
	shared := &c.shard.shared
	defer shared.Reset()
	for i := 0; i < len(shared.Asking); i++ { // an answer may be followed by the next question
		shared.Asking[i].Owner.(*stream).serve(now)
	}
	c.session.HandleTurn(now)
	for _, s := range shared.Left {
		s.Owner.(*stream).leave()
	}
	c.shard.flush(c.net, c.session.Deadline())
}

// A stream asks for the answers of one session.Stream.
//
// Owned by its loop.
type stream struct {
	session.Stream
	conn   *http2Conn
	handle model.Handle[requester] // of the request in the model
	closed bool                    // its answer is not needed any more
}

func (s *stream) on() *shard { return s.conn.shard }

// serve starts to answer the stream's request.
func (s *stream) serve(now time.Time) {
	switch s.Await() {
	case session.AwaitService:
		if status, done := s.on().ask(now, s, &s.handle); done {
			s.HandleAnswer(now, status)
		}
	case session.AwaitOwn:
		if r, done := s.on().askOwn(s.Raw(), s.conn.net, s.reply); done {
			s.HandleReply(now, r.Status, r.Fields, r.Body)
		}
	}
}

func (s *stream) finish(now time.Time, d model.Completion[requester]) {
	s.on().waits.Observe(d.Wait)
	s.handle = model.Handle[requester]{}
	if !s.closed {
		s.HandleAnswer(now, statusOf(d.Outcome))
		s.conn.apply(now)
	}
}

func (s *stream) reply(now time.Time, r service.Response) {
	if !s.closed {
		s.HandleReply(now, r.Status, r.Fields, r.Body)
		s.conn.apply(now)
	}
}

// leave gives up the request in the model.
func (s *stream) leave() {
	s.closed = true
	s.on().server.station.cancel(s.handle)
}
