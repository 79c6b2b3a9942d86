package mux

import (
	"net/netip"
	"slices"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/proxy/http/exchange"
)

// Settings are the settings of all connections.
//
// Immutable after New.
type Settings struct {
	HTTP2        http2.Limits
	HeadTimeout  time.Duration // for a whole head, and for the connection preface
	IdleTimeout  time.Duration // between exchanges
	StallTimeout time.Duration // for a client to make room for more of a response
	DrainGrace   time.Duration // how long new streams are accepted when draining
	QueueMax     int           // bytes of a response that a stream keeps; beyond, its exchange reads no more
	RequestsMax  int           // of a connection; 0: no limit
}

// An Env is what the connections of one loop share.
//
// Owned by its loop.
type Env struct {
	Exchange *exchange.Env // of the exchanges of streams
	Settings *Settings
	// EndOf returns when a connection accepted now reaches its maximum age; zero means never.
	EndOf func(now time.Time) time.Time

	spares []*Stream // see Recycle
	head   http2.Head
	fields []byte // scratch: the fields of a response
	frames []byte // what is sent to a client, until the next call
}

// A Conn is the connection of a client.
//
// Owned by its loop.
type Conn struct {
	env     *Env
	http2   *http2.Conn
	peer    exchange.ClientInfo // of its exchanges
	opened  func(s *Stream)
	streams map[uint32]*Stream
	begun   []*Stream // of which only a part of the request was among the bytes so far

	full       bool      // the connection accepts no more data
	partial    time.Time // since when a frame is incomplete; zero: none is
	idleBy     time.Time // when a connection without streams is closed
	announceBy time.Time // when the client is told that drainBy comes; zero: it has been, or need not be
	drainBy    time.Time // when no more streams are accepted; zero: not yet
	announced  bool      // that it accepts no more streams, soon or already
	ending     bool      // it accepts no more streams
	requests   int       // so far
	working    int       // streams that have ended, and whose targets work on; see Works
	spent      bool      // it has reached RequestsMax or its maximum age
	endBy      time.Time // when it reaches its maximum age; zero: never
	failed     bool      // by an error of the connection
	err        error     // why it has failed; nil: the client has disconnected
}

// New returns the state of a new connection from remote; secure says that it uses TLS. opened is called
// for each stream before its request is handled; one that was recycled still has the Owner of its exchange.
func New(now time.Time, env *Env, remote netip.Addr, secure bool, opened func(s *Stream)) *Conn {
	peer := exchange.New(env.Exchange, remote, secure).ClientInfo
	peer.HTTP2 = true
	return &Conn{env: env, http2: http2.New(http2.Server, &env.Settings.HTTP2, now), peer: peer, opened: opened,
		streams: make(map[uint32]*Stream), partial: now, idleBy: now.Add(env.Settings.IdleTimeout), endBy: env.EndOf(now)}
}

// HandleClient handles bytes from the client, which begin with the first one that was not consumed, and
// returns how many it has consumed. It stops when a stream has effects, and returns that stream: call
// it again when they were carried out. If it returns none, it needs more bytes, or Ended.
func (c *Conn) HandleClient(now time.Time, b []byte) (n int, s *Stream) {
	for s == nil && !c.failed {
		ev, err := c.http2.Next(now, b[n:], &c.env.head)
		if n += ev.N; ev.N > 0 {
			c.partial = time.Time{}
		}
		if err != nil {
			c.failed, c.err = true, err
			break
		}
		if ev.Kind == http2.NeedMore {
			c.awaits(now, n < len(b))
			s = c.pause()
			break
		}
		s = c.handle(now, &ev)
	}
	return n, s
}

// awaits records whether part of a frame has been received, and since when.
func (c *Conn) awaits(now time.Time, partial bool) {
	switch {
	case !partial:
		c.partial = time.Time{}
	case c.partial.IsZero():
		c.partial = now
	}
}

// pause returns the next stream of which the rest of the request is not among the bytes received. What was
// received is then passed on.
func (c *Conn) pause() *Stream {
	for n := len(c.begun) - 1; n >= 0; n-- {
		s := c.begun[n]
		c.begun[n], c.begun = nil, c.begun[:n]
		if s != nil && !s.received && !s.ended {
			s.paused = true
			c.env.Exchange.Begin()
			return s
		}
	}
	return nil
}

// handle handles an event, and returns the stream that has effects.
func (c *Conn) handle(now time.Time, ev *http2.Event) *Stream {
	switch ev.Kind {
	case http2.HeadDone:
		s := c.open(now, ev)
		if !s.received {
			c.begun = append(c.begun, s)
		}
		s.Exchange.HandleHead(now, &c.env.head.Head, now)
		s.resume(now)
		return s
	case http2.BadHead:
		s := c.open(now, ev)
		s.Exchange.HandleBadHead(now, http1.MethodOf(c.env.head.MethodText), ev.Err)
		return s
	}
	s := c.streams[ev.Stream]
	if s == nil {
		if ev.Kind == http2.Data { // of a stream that has ended here
			c.http2.Consumed(ev.Stream, len(ev.Data))
		}
		return nil
	}
	switch ev.Kind {
	case http2.Data:
		s.receive(ev.Data, ev.EndStream)
		return s
	case http2.Trailers:
		s.receive(nil, true)
		s.trailers = trailersOf(&c.env.head)
		return s
	case http2.Reset:
		s.handleReset()
		return s
	}
	return nil // WindowGrew, Settings: see Flush
}

// noteGlitch counts a glitch that the client has done by doing nothing. There may be too many, see Failed.
func (c *Conn) noteGlitch(now time.Time, kind http2.Glitch) {
	if err := c.http2.NoteGlitch(now, kind); err != nil && !c.failed {
		c.failed, c.err = true, err
	}
}

// trailersOf returns the lines of trailers that were read; not nil.
func trailersOf(h *http2.Head) []byte {
	lines := []byte{}
	for i := range h.Fields {
		lines = http1.AppendFieldLine(lines, &h.Fields[i])
	}
	return lines
}

// sparesMax bounds the streams of a loop that wait to be used again, and spareBytesMax the memory of each
// for bodies.
const sparesMax, spareBytesMax = 256, 4 << 10

// spare returns a stream to be used again, or a new one.
func (e *Env) spare() *Stream {
	last := len(e.spares) - 1
	if last < 0 {
		return new(Stream)
	}
	s := e.spares[last]
	e.spares = e.spares[:last]
	return s
}

// open opens the stream of a request.
func (c *Conn) open(now time.Time, ev *http2.Event) *Stream {
	s := c.env.spare()
	s.Exchange.Renew(c.env.Exchange, &c.peer)
	s.state = state{conn: c, id: ev.Stream, began: now, received: ev.EndStream, body: s.body[:0], queue: s.queue[:0]}
	c.streams[s.id] = s
	c.requests++
	c.spent = c.spent || c.env.Settings.RequestsMax > 0 && c.requests >= c.env.Settings.RequestsMax ||
		!c.endBy.IsZero() && !now.Before(c.endBy)
	c.idleBy = time.Time{}
	c.opened(s)
	c.env.Exchange.Begin()
	return s
}

// Works says that the target of a stream that has ended works on for it, or, with -1, no longer. Meanwhile the
// stream counts as open, so that a client that resets its requests does not get more work done than others
// (CVE-2023-44487).
func (c *Conn) Works(n int) {
	c.working += n
	c.http2.SetWorking(c.working)
}

// Control returns the frames by which the connection answers and credits what was read. They are borrowed
// until the next call on any connection of the Env. Call it when everything that was returned before has
// been written, so that a client that reads nothing cannot make it grow.
func (c *Conn) Control() []byte {
	c.env.frames = c.http2.AppendControl(c.env.frames[:0])
	return c.env.frames
}

// HandleFull reports whether the connection accepts no more data. Meanwhile bodies are kept in their
// streams.
func (c *Conn) HandleFull(full bool) { c.full = full }

// flushMax bounds what one call of Flush returns, but for the last stream's part.
const flushMax = 64 << 10

// Flush returns a part of what streams have kept and may be sent now; nothing: there is no more. It is
// borrowed like Control's. resumed has the streams whose exchanges go on reading the target's answers, and
// those that have ended.
func (c *Conn) Flush(now time.Time) (frames []byte, resumed []*Stream) {
	c.env.frames = c.env.frames[:0]
	for _, s := range c.streams {
		if c.full || len(c.env.frames) >= flushMax {
			break
		}
		if len(s.queue) > 0 && s.flush(now) {
			resumed = append(resumed, s)
		}
	}
	return c.env.frames, resumed
}

// Err returns the error that has ended the connection, or nil: an [http2.Error] or [http2.ErrSlow].
func (c *Conn) Err() error { return c.err }

// Announced reports whether the client was told that the connection accepts no more streams.
func (c *Conn) Announced() bool { return c.announced }

// Glitches returns how many glitches of each kind there were.
func (c *Conn) Glitches() [http2.GlitchKinds]uint32 { return c.http2.Glitches() }

// Failed reports whether an error has ended the connection: HandleClosed is then to be called.
func (c *Conn) Failed() bool { return c.failed }

// Spent reports whether the connection has reached its number of requests or its age: HandleDrain is then
// to be called.
func (c *Conn) Spent() bool { return c.spent && !c.announced && !c.failed }

// Open returns how many streams are open.
func (c *Conn) Open() int { return len(c.streams) }

// Streams yields the open streams. They may be closed meanwhile.
func (c *Conn) Streams(yield func(*Stream) bool) {
	for _, s := range c.streams {
		if !yield(s) {
			return
		}
	}
}

// Ended reports whether the connection is to be closed, after what Control returns was written: because
// of an error, or because it has no streams and accepts none.
func (c *Conn) Ended() bool { return c.failed || c.ending && len(c.streams) == 0 }

// Deadline returns when HandleExpired must be called; zero means never.
func (c *Conn) Deadline() time.Time {
	return cycle.Earlier(cycle.Earlier(c.headBy(), c.idleBy), cycle.Earlier(c.announceBy, c.drainBy))
}

// headBy returns when an incomplete frame must be complete, if there is one.
func (c *Conn) headBy() time.Time {
	if c.partial.IsZero() {
		return time.Time{}
	}
	return c.partial.Add(c.env.Settings.HeadTimeout)
}

// HandleExpired is called when the Deadline has passed. It returns frames to be sent, borrowed like Control's.
func (c *Conn) HandleExpired(now time.Time) []byte {
	c.env.frames = c.env.frames[:0]
	reached := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	switch {
	case reached(c.headBy()):
		c.partial, c.failed, c.err = time.Time{}, true, http2.ErrSlow
		c.env.frames = c.http2.AppendGoAway(c.env.frames, true, http2.EnhanceYourCalm)
	case reached(c.idleBy) || reached(c.drainBy):
		c.end()
	case reached(c.announceBy):
		c.announce()
	}
	return c.env.frames
}

// HandleDrain ends the connection: new streams are accepted for DrainGrace, since requests may already be
// on their way (RFC 9113 6.8). The client is told after a part of that, so that the clients of many connections do not
// all connect again at once. It returns frames to be sent, borrowed like Control's.
func (c *Conn) HandleDrain(now time.Time, after time.Duration) []byte {
	c.env.frames = c.env.frames[:0]
	if c.announced {
		return nil
	}
	if c.drainBy.IsZero() {
		c.drainBy = now.Add(c.env.Settings.DrainGrace)
	}
	if c.announceBy = now.Add(after); after <= 0 {
		c.announce()
	}
	return c.env.frames
}

// announce tells the client by GOAWAY that the connection will accept no more streams.
func (c *Conn) announce() {
	c.announceBy, c.announced = time.Time{}, true
	c.env.frames = c.http2.AppendGoAway(c.env.frames, false, http2.NoError)
}

// end accepts no more streams.
func (c *Conn) end() {
	c.idleBy, c.announceBy, c.drainBy = time.Time{}, time.Time{}, time.Time{}
	if !c.ending {
		c.ending, c.announced = true, true
		c.env.frames = c.http2.AppendGoAway(c.env.frames, true, http2.NoError)
	}
}

// HandleClientEnd handles that the client sends no more. Streams whose requests are complete are answered, as far as
// there is room; the effects of others, which are reset, are to be carried out one by one, by f. It returns a
// frame to be sent, borrowed like Control's: if the client has not only ended its half, that shows it.
func (c *Conn) HandleClientEnd(f func(s *Stream)) []byte {
	for _, s := range c.streams {
		if !s.received {
			s.abort()
			f(s)
		}
	}
	c.ending = true
	c.partial, c.idleBy, c.announceBy, c.drainBy = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if c.env.frames = c.env.frames[:0]; len(c.streams) > 0 {
		c.env.frames = c.http2.AppendPing(c.env.frames)
	}
	return c.env.frames
}

// HandleClosed handles the end of the connection: all streams have ended with it. Their effects are to be
// carried out one by one, by f.
func (c *Conn) HandleClosed(f func(s *Stream)) {
	c.failed = true
	c.partial, c.idleBy, c.announceBy, c.drainBy = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	for id, s := range c.streams {
		delete(c.streams, id)
		s.handleReset()
		f(s)
	}
	// else they would keep the connection in memory
	c.env.spares = slices.DeleteFunc(c.env.spares, func(s *Stream) bool { return s.conn == c })
}

// remove forgets a stream that has ended.
func (c *Conn) remove(now time.Time, s *Stream) {
	delete(c.streams, s.id)
	if len(c.streams) == 0 && !c.ending && !c.failed {
		c.idleBy = now.Add(c.env.Settings.IdleTimeout)
	}
}
