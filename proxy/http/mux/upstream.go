package mux

import (
	"time"

	"weir/internal/net/http2"
	"weir/proxy/http/exchange"
)

// UpstreamSettings are the settings of all connections to targets.
//
// Immutable after NewUpstream.
type UpstreamSettings struct {
	HTTP2      http2.Limits
	StreamsMax int // of a connection; the target may allow fewer
	// SilenceTimeout is how long a target with open streams may send nothing before it is sent a PING, and
	// then until the connection is given up.
	SilenceTimeout time.Duration
	StallTimeout   time.Duration // for a target to make room for more of a request
	QueueMax       int           // bytes of a request that a stream keeps; beyond, its exchange reads no more
}

// An UpstreamEnv is what the connections to targets of one loop share.
//
// Owned by its loop.
type UpstreamEnv struct {
	Settings *UpstreamSettings

	head   http2.Head
	fields []byte // scratch: the fields of a request,
	host   []byte // and its host
	frames []byte // what is sent to a target, until the next call
}

// An Upstream is HTTP/2 on an upstream connection. It lends streams, each of which carries one exchange.
//
// Owned by its loop.
type Upstream struct {
	env     *UpstreamEnv
	http2   *http2.Conn
	scheme  string
	streams map[uint32]*UpstreamStream // those that were opened and have not ended
	lent    int                        // streams that were lent and not returned
	queued  int                        // streams of which a part was not sent

	last  http2.Event // was read, and belongs to another stream than those before; see Handle
	ahead bool        // there is one

	ready  bool // the target has sent its settings
	served bool // it has answered a request
	full   bool // the connection accepts no more data
	ending bool // no more streams are opened
	err    error
	heard  time.Time // when something was received
	pinged time.Time // when a PING was sent that nothing has followed; zero: none
}

// NewUpstream returns the state of a new connection; secure says that it uses TLS. The connection preface is
// in Control.
func NewUpstream(now time.Time, env *UpstreamEnv, secure bool) *Upstream {
	c := &Upstream{env: env, http2: http2.New(http2.Client, &env.Settings.HTTP2, now), scheme: "http",
		streams: make(map[uint32]*UpstreamStream), heard: now}
	if secure {
		c.scheme = "https"
	}
	return c
}

// Ready reports whether the target has sent its settings, before which nothing is sent to it: it is one of
// HTTP/2, and how many streams it allows is known.
func (c *Upstream) Ready() bool { return c.ready }

// Served reports whether the target has answered a request on the connection.
func (c *Upstream) Served() bool { return c.served }

// Free returns how many streams may be lent now, and Lent how many are. The target's limit may fall below
// what is lent.
func (c *Upstream) Free() int {
	if !c.ready || c.ending || c.full || c.err != nil {
		return 0
	}
	return max(0, min(c.env.Settings.StreamsMax-c.lent, c.http2.Free()-(c.lent-len(c.streams))))
}

func (c *Upstream) Lent() int { return c.lent }

// Lend makes s a stream for one exchange, until Return. There must be a free one.
func (c *Upstream) Lend(now time.Time, s *UpstreamStream) {
	if c.Free() == 0 {
		panic("bug: more streams are lent than a target accepts")
	}
	if c.lent == 0 { // that nothing was received before is no silence
		c.heard = now
	}
	c.lent++
	*s = UpstreamStream{conn: c, body: s.body[:0]}
}

// Handle handles bytes from the target, which begin with the first one that was not consumed, and returns
// how many it has consumed. It stops when a stream has effects, and returns the exchange of that stream:
// call it again when they were carried out. If it returns none, it needs more bytes, or Err is not nil.
//
// What has arrived for a stream is handled together, as far as nothing of another one is in between: an
// answer that is there as a whole is passed on without being collected.
func (c *Upstream) Handle(now time.Time, b []byte) (n int, x *exchange.Exchange) {
	var s *UpstreamStream
	for c.err == nil {
		ev := c.last
		if !c.ahead {
			var err error
			if ev, err = c.http2.Next(now, b[n:], &c.env.head); err != nil {
				c.err = err
				break
			}
			if n += ev.N; ev.N > 0 {
				c.heard, c.pinged = now, time.Time{}
			}
		}
		if ev.Kind == http2.NeedMore {
			break
		}
		if c.ahead = s != nil && (ev.Stream != s.id || ev.Kind == http2.Reset); c.ahead {
			c.last = ev
			break
		}
		if !c.concerns(&ev) {
			continue
		}
		if ev.Kind == http2.Reset {
			reset := c.streams[ev.Stream]
			if !reset.peerEnded {
				return n, reset.end(now, &ev)
			}
			reset.sendNoMore()
			continue
		}
		if s == nil {
			s = c.streams[ev.Stream]
			s.reads = s.x.HandleBytes()
		}
		if s.handle(now, &ev); s.ended {
			return n, s.x
		}
	}
	if s == nil {
		return n, nil
	}
	s.x.HandlePause(now)
	return n, s.x
}

// concerns handles an event of the connection, or reports that it is one of a stream, and not of one that was
// returned.
func (c *Upstream) concerns(ev *http2.Event) bool {
	switch ev.Kind {
	case http2.Settings:
		c.ready = true
	case http2.GoAway:
		c.ending = true
	case http2.WindowGrew, http2.Pong: // see Flush
	default:
		return c.streams[ev.Stream] != nil
	}
	return false
}

// Control returns the frames by which the connection answers and credits what was read. They are borrowed
// until the next call on any connection of the Env.
func (c *Upstream) Control() []byte {
	c.env.frames = c.http2.AppendControl(c.env.frames[:0])
	return c.env.frames
}

// HandleFull reports whether the connection accepts no more data. Meanwhile bodies are kept in their
// streams, no stream is free, and none stalls.
func (c *Upstream) HandleFull(full bool) { c.full = full }

// Flush returns a part of what streams have kept and may be sent now; nothing: there is no more. It is
// borrowed like Control's. resumed are the exchanges that may go on with their requests: HandleTargetFull is
// to be called for them.
func (c *Upstream) Flush(now time.Time) (frames []byte, resumed []*exchange.Exchange) {
	c.env.frames = c.env.frames[:0]
	if c.queued == 0 {
		return nil, nil
	}
	for _, s := range c.streams {
		if c.full || len(c.env.frames) >= flushMax {
			break
		}
		if s.queues && s.flush(now) {
			resumed = append(resumed, s.x)
		}
	}
	return c.env.frames, resumed
}

// Resume continues with an answer that has waited until the client accepts more, and returns its exchange,
// which has effects; nil: there is none.
func (c *Upstream) Resume(now time.Time) *exchange.Exchange {
	for _, s := range c.streams {
		if (len(s.body) > 0 || s.peerEnded) && !s.x.Holds() {
			s.x.HandleBytes()
			if s.pass(now); !s.ended {
				s.x.HandlePause(now)
			}
			return s.x
		}
	}
	return nil
}

// Err returns the error that has ended the connection, or nil.
func (c *Upstream) Err() error { return c.err }

// Ended reports whether the connection is to be closed, after what Control returns was written.
func (c *Upstream) Ended() bool { return c.err != nil || c.ending && c.lent == 0 }

// HandleRetired ends the connection when all streams are returned. No more are lent.
func (c *Upstream) HandleRetired() { c.ending = true }

// HandleTick is to be called about four times in SilenceTimeout. It returns frames to be sent, borrowed like
// Control's, and the exchanges whose requests the target has not read for too long: HandleUpstreamReset is to
// be called for them.
func (c *Upstream) HandleTick(now time.Time) (frames []byte, stalled []*exchange.Exchange) {
	c.env.frames = c.env.frames[:0]
	silence := c.env.Settings.SilenceTimeout
	switch {
	case !c.pinged.IsZero() && now.Sub(c.pinged) >= silence:
		c.err = errSilent
	case c.lent > 0 && c.pinged.IsZero() && now.Sub(c.heard) >= silence:
		c.pinged = now
		c.env.frames = c.http2.AppendPing(c.env.frames)
	}
	if c.queued > 0 {
		for _, s := range c.streams {
			switch {
			case !s.queues || s.peerEnded:
			case c.full: // no stream is to blame
				s.stallBy = now.Add(c.env.Settings.StallTimeout)
			case !now.Before(s.stallBy):
				stalled = append(stalled, s.x)
			}
		}
	}
	return c.env.frames, stalled
}

// Exchanges yields those whose streams are open. They may be returned meanwhile.
func (c *Upstream) Exchanges(yield func(*exchange.Exchange) bool) {
	for _, s := range c.streams {
		if !yield(s.x) {
			return
		}
	}
}
