package http2

// body is the payload of a DATA frame of which not all has been read.
type body struct {
	open    bool
	ends    bool // END_STREAM
	id      uint32
	left    int // bytes of data
	padding int // bytes of padding after them
}

// dataFrame begins to read a DATA frame (RFC 9113 6.1). p has the length of its padding, if there is any.
func (c *Conn) dataFrame(f frame, p []byte) (Event, *Error) {
	data, padding := f.length-len(p), 0
	if len(p) > 0 {
		if padding = int(p[0]); padding > data {
			return Event{}, errPadding
		}
		data -= padding
	}
	s, _ := c.find(f.id)
	switch {
	case s == nil && c.idle(f.id):
		return Event{}, errIdle
	case s == nil && !c.wasReset(f.id):
		return Event{}, errClosed
	case f.length > c.recv:
		return Event{}, errWindow
	}
	c.recv -= f.length
	c.body = body{open: true, ends: f.has(flagEndStream), id: f.id, left: data, padding: padding}
	if data <= padding && !c.body.ends { // empty, or mostly padding, as chunks with little data in HTTP/1.1
		if err := c.control(); err != nil {
			return Event{}, err
		}
	}
	c.giveBack(f.length - data)
	if s == nil {
		return Event{}, nil
	}
	return c.admitData(s, f, data)
}

// admitData checks a DATA frame with that many bytes of data on its stream.
func (c *Conn) admitData(s *stream, f frame, data int) (Event, *Error) {
	switch {
	case s.peerEnded:
		return Event{}, errClosed
	case f.length > s.recv:
		return Event{}, errWindow
	case !s.headDone:
		return c.resetStream(s.id, errNoHead, GlitchOwnReset)
	}
	s.recv -= f.length
	if s.left >= 0 && !s.dropped {
		if s.left -= int64(data); s.left < 0 || s.left > 0 && f.has(flagEndStream) {
			return c.resetStream(s.id, errLength, GlitchOwnReset)
		}
	}
	c.giveBackStream(s, f.length-data)
	return Event{}, nil
}

// readBody continues to read a DATA frame: its end, or a piece of its data, which is not empty.
func (c *Conn) readBody(b []byte) Event {
	d := &c.body
	n := min(d.left, len(b))
	d.left -= n
	ended := d.left == 0 && d.ends
	if d.left == 0 {
		d.open, c.skip = false, d.padding
	}
	s, _ := c.find(d.id)
	if s == nil || s.dropped {
		c.giveBack(n)
	}
	ev := Event{N: n}
	if s == nil {
		return ev
	}
	s.peerEnded = ended
	if !s.dropped && (n > 0 || ended) {
		s.held += n
		ev = Event{Kind: Data, Stream: s.id, Data: b[:n:n], EndStream: ended, N: n}
	}
	if ended {
		c.closeEnded(d.id)
	}
	return ev
}

// Consumed says that n bytes of the body of a stream need no memory any more, so that the peer may send as many.
// Without it the peer stops at Limits.Window. Bytes of a stream that has ended in both directions are consumed.
func (c *Conn) Consumed(id uint32, n int) {
	s, _ := c.find(id)
	if s == nil {
		return
	}
	n = min(n, s.held)
	s.held -= n
	c.giveBackStream(s, n)
	c.giveBack(n)
}

// giveBack lets the peer send n more bytes on the connection, not each time but when it may send less than what was
// kept back: if all is consumed that is half of the window, and if streams hold most of the window it is what the
// others need to continue.
func (c *Conn) giveBack(n int) {
	if c.credit += n; c.credit > 0 && c.credit >= c.recv {
		c.out = appendWord(c.out, frameWindowUpdate, 0, uint32(c.credit))
		c.recv += c.credit
		c.credit = 0
	}
}

// giveBackStream lets the peer send n more bytes on a stream, when they are half of the window.
func (c *Conn) giveBackStream(s *stream, n int) {
	if s.credit += n; s.credit >= c.limits.Window/2 && !s.peerEnded {
		c.out = appendWord(c.out, frameWindowUpdate, s.id, uint32(s.credit))
		s.recv += s.credit
		s.credit = 0
	}
}
