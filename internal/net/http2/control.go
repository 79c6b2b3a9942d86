package http2

import "encoding/binary"

// controlFrame processes a frame other than DATA and HEADERS with its payload. f.check was successful.
func (c *Conn) controlFrame(f frame, p []byte) (Event, *Error) {
	switch f.kind {
	case frameSettings:
		return c.settingsFrame(f, p)
	case frameReset:
		return c.resetFrame(f, Code(binary.BigEndian.Uint32(p)))
	case framePing:
		return c.pingFrame(f, p)
	case frameGoAway:
		return c.goAwayFrame(p)
	case frameWindowUpdate:
		return c.windowUpdateFrame(f, int(binary.BigEndian.Uint32(p)&windowMax))
	case framePriority:
		if err := dependsOnItself(f.id, p); err != nil {
			return Event{}, err
		}
		return Event{}, c.control()
	case framePushPromise:
		return Event{}, errPush
	}
	return Event{}, errContinuation
}

// dependsOnItself checks the priority that p begins with, which is otherwise ignored: RFC 9113 5.3.2 deprecates it.
func dependsOnItself(id uint32, p []byte) *Error {
	if len(p) < 5 {
		return errFrameSize
	}
	if binary.BigEndian.Uint32(p)&idMax == id {
		return errSelf
	}
	return nil
}

// resetFrame processes RST_STREAM (RFC 9113 6.4).
func (c *Conn) resetFrame(f frame, code Code) (Event, *Error) {
	if c.idle(f.id) {
		return Event{}, errIdle
	}
	s, i := c.find(f.id)
	if s == nil {
		return Event{}, c.control()
	}
	ev := Event{Kind: Reset, Stream: f.id, Code: code, Unprocessed: c.role == Client && code == RefusedStream}
	answered := s.ended
	c.close(i)
	if answered {
		return ev, c.control()
	}
	return ev, c.glitch(GlitchReset)
}

// pingFrame processes PING (RFC 9113 6.7).
func (c *Conn) pingFrame(f frame, p []byte) (Event, *Error) {
	if f.has(flagAck) && c.pings > 0 {
		c.pings--
		return Event{Kind: Pong}, nil
	}
	if !f.has(flagAck) {
		c.out = append(appendFrame(c.out, frame{length: len(p), kind: framePing, flags: flagAck}), p...)
	}
	return Event{}, c.control()
}

// goAwayFrame processes GOAWAY (RFC 9113 6.8).
func (c *Conn) goAwayFrame(p []byte) (Event, *Error) {
	last := binary.BigEndian.Uint32(p) & idMax
	if c.goneAway {
		last = min(last, c.peerLast) // a peer must not increase it
	}
	c.goneAway, c.peerLast = true, last
	return Event{Kind: GoAway, Stream: last, Code: Code(binary.BigEndian.Uint32(p[4:]))}, c.control()
}

// windowUpdateFrame processes WINDOW_UPDATE (RFC 9113 6.9).
func (c *Conn) windowUpdateFrame(f frame, n int) (Event, *Error) {
	window := &c.send
	if f.id != 0 {
		s, _ := c.find(f.id)
		switch {
		case c.idle(f.id):
			return Event{}, errIdle
		case s == nil:
			return Event{}, c.control()
		}
		window = &s.send
	}
	switch {
	case n == 0:
		return Event{}, errNoIncrement
	case *window > windowMax-n && f.id != 0:
		return c.resetStream(f.id, errOverflow, GlitchOwnReset)
	case *window > windowMax-n:
		return Event{}, errOverflow
	}
	*window += n
	if err := c.control(); err != nil || *window <= 0 || *window > n {
		return Event{}, err // there was room before, or is still none
	}
	return Event{Kind: WindowGrew, Stream: f.id}, nil
}
