package wiretest

import (
	"slices"
	"time"
	"weir/internal/net/http1/http1test"
	"weir/internal/net/loop/looptest"
)

// patience is how long a caller waits for 100 (Continue) before it sends the body.
const patience = time.Second

// A segment is bytes that a caller sends once their conditions hold.
type segment struct {
	bytes   []byte
	first   *request // the request that begins the segment, or nil
	answers int      // it waits for this number of answers
	upon    *request // it waits for 100 to this request; nil: it does not
	tunnel  bool     // it waits for the tunnel, and is all that is sent there
}

// A caller is a client: it sends what it has planned in pieces, and reads.
//
// Owned by its world.
type caller struct {
	w     *World
	conn  *looptest.Socket
	front *ClientView
	plan  []*request

	segments []segment
	askedAt  int // index in plan of the next request that the limiter may be asked about

	reader   http1test.Reader
	answered int // number of requests that were answered
	relayed  bool
	got      int  // bytes of the answer's body
	closing  bool // the proxy has announced that it closes
	tunnel   bool

	pace      time.Duration
	awake     bool
	done      bool
	ended     bool // it has stopped sending
	leaves    bool // it stopped before everything was sent
	halves    bool // it half-closes when everything is sent, and reads on
	stopsSend bool // it sends nothing more, and keeps the connection open
	stopsRead bool // it reads nothing more, and keeps the connection open
	faults    bool
	hangsUp   bool
}

func (w *World) newCaller() {
	minor := 1
	if w.Odds(0.15) {
		minor = 0
	}
	c := &caller{w: w, plan: w.plans(minor), pace: w.newPace()}
	for _, r := range c.plan {
		r.caller = c
	}
	c.reader = http1test.Reader{Sink: c, Response: true}
	c.faults, c.hangsUp = w.Fault(w.Profile.callerFaults), w.Odds(0.5)
	whole := !slices.ContainsFunc(c.plan, func(r *request) bool { return r.kind == partial }) // all have an answer
	c.halves = whole && w.Odds(0.3)
	w.connect(c)
	c.compose()
	c.Wake()
}

// newPace returns the longest time that a peer takes for one piece.
func (w *World) newPace() time.Duration {
	paces := []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond}
	if w.Profile.calm {
		paces = paces[:3] // slower ones meet deadlines
	}
	return paces[w.IntN(len(paces))]
}

// compose appends the segments of the plan.
func (c *caller) compose() {
	pipelines := c.w.Odds(0.5)
	for i, r := range c.plan {
		head, body := r.bytes(c.w)
		s := segment{bytes: head, first: r}
		if !pipelines && !r.never {
			s.answers = i
		}
		if r.expect {
			c.segments = append(c.segments, s, segment{bytes: body, upon: r})
			continue
		}
		s.bytes = append(s.bytes, body...)
		c.segments = append(c.segments, s)
		if r.kind == upgrade {
			c.segments = append(c.segments, segment{bytes: c.w.up(r.id, 0, r.answer.up), tunnel: true})
		}
	}
}

// nextAsked returns the next request that the limiter may be asked about, or nil.
func (c *caller) nextAsked() *request {
	for c.askedAt < len(c.plan) {
		r := c.plan[c.askedAt]
		c.askedAt++
		if r.asks() {
			return r
		}
	}
	return nil
}

func (c *caller) Wake() {
	if c.awake || c.done {
		return
	}
	c.awake = true
	c.w.After(c.w.Within(c.pace), func() {
		c.awake = false
		c.step()
	})
}

// piece returns how many of n bytes are passed on at a time: often all, otherwise a part.
func (w *World) piece(n int) int {
	if w.Odds(0.2) {
		return n
	}
	return min(n, 1+w.IntN(n/8+24))
}

func (c *caller) step() {
	if c.done || c.misbehaves() {
		return
	}
	if n := c.conn.Sent(); n > 0 && !c.stopsRead {
		if err := c.reader.Feed(c.conn.Receive(c.w.piece(n))); err != nil {
			c.wrong("%v", err)
			return
		}
	}
	more := c.send()
	halfOpen := c.tunnel && len(c.segments) > 0 && !c.ended && !c.stopsSend && !c.conn.Closed
	if ended, reset := c.conn.Over(); ended && !c.stopsRead && !halfOpen {
		c.finish(reset)
		return
	}
	if more || c.conn.Sent() > 0 && !c.stopsRead {
		c.Wake()
	} else if c.answered == len(c.plan) && c.hangsUp {
		c.end()
	}
}

// misbehaves makes the caller, by chance, reset the connection, half-close it, or stop
// sending or reading. It reports whether the connection was reset.
func (c *caller) misbehaves() bool {
	if !c.faults || !c.w.Fault(0.02) {
		return false
	}
	switch c.w.IntN(4) {
	case 0:
		c.leave()
		return true
	case 1:
		c.leaves = len(c.segments) > 0
		c.end()
	case 2:
		c.stopsSend = true
	case 3:
		c.stopsRead = true
	}
	return false
}

// end stops sending.
func (c *caller) end() {
	if !c.ended {
		c.ended = true
		c.conn.End()
	}
}

// send sends a piece, and reports whether there is more that may be sent.
func (c *caller) send() bool {
	if c.ended || c.stopsSend || len(c.segments) == 0 {
		return false
	}
	s := &c.segments[0]
	if !c.due(s) {
		return false
	}
	room := c.conn.Room()
	if s.first != nil && room > 0 {
		s.first.sent = true
	}
	if n := min(c.w.piece(len(s.bytes)), room); n > 0 {
		b := s.bytes[:n]
		s.bytes = s.bytes[n:]
		c.conn.Send(b)
		room -= n
	}
	if len(s.bytes) > 0 {
		return room > 0
	}
	tunnel := s.tunnel
	c.segments = c.segments[1:]
	if c.faults && c.w.Fault(0.2) {
		c.w.After(c.w.Within(50*time.Millisecond), c.leave) // probably before the answer
	}
	if tunnel && !c.plan[c.answered].callerWaits || len(c.segments) == 0 && c.halves && !tunnel {
		c.end()
	}
	return len(c.segments) > 0
}

// due reports whether a segment may be sent.
func (c *caller) due(s *segment) bool {
	switch {
	case s.tunnel:
		return c.tunnel
	case s.upon == nil:
		return c.answered >= s.answers
	case s.upon.continued:
		return true
	}
	waits := s.upon
	c.w.After(patience, func() {
		waits.continued = true
		c.Wake()
	})
	return false
}

// finish handles the end of what it receives.
func (c *caller) finish(reset bool) {
	c.done = true
	c.front.Log.Note(c.w.Now(), "client sees the end", int64(c.answered), "")
	left := c.leaves && !c.tunnel // the caller gave up: an incomplete answer is no fault
	if c.reader.UntilClose() && !reset && !left {
		if err := c.reader.Close(); err != nil {
			c.wrong("an answer that ends with the connection: %v", err)
		}
	}
	if c.reader.InTunnel() {
		c.endTunnel(reset)
	} else if !c.reader.Idle() && !left {
		c.w.Saw("answers cut off")
		if c.w.Profile.calm {
			c.wrong("in a calm world an answer is cut off")
		}
	}
	if c.w.Profile.calm && !c.closing && !c.tunnel && c.answered < len(c.plan) && !c.plan[c.answered].never {
		c.wrong("in a calm world request %d has no answer", c.plan[c.answered].id)
	}
	c.ended = true
	c.conn.Close()
}

func (c *caller) endTunnel(reset bool) {
	r := c.plan[c.answered]
	if c.w.Profile.calm && (reset || c.got != r.answer.down) {
		c.wrong("in a calm world tunnel %d ends after %d of %d bytes", r.id, c.got, r.answer.down)
	}
}

func (c *caller) wrong(format string, args ...any) { c.front.Wrong(format, args...) }
