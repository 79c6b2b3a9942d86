package http2

import (
	"golang.org/x/net/http2/hpack"

	"weir/internal/net/http1"
)

// blockEnd returns the end of the field block in b, which begins with a HEADERS frame: that frame and the
// CONTINUATION frames after it (RFC 9113 4.3), or 0 if it is not complete. Nothing is remembered between calls,
// because there are only a few frames.
func (c *Conn) blockEnd(b []byte) (n int, err *Error) {
	first, _ := parseFrame(b)
	size := 0
	for frames := 0; frames <= continuationsMax; frames++ {
		f, ok := parseFrame(b[n:])
		if !ok {
			return 0, nil
		}
		if n > 0 && (f.kind != frameContinuation || f.id != first.id) {
			return 0, errContinuation
		}
		if err = f.check(); err != nil {
			return 0, err
		}
		if size += f.length; size > c.headBytesMax {
			return 0, errBlock
		}
		if n += f.end(); n > len(b) {
			return 0, nil
		}
		if f.has(flagEndHeaders) {
			return n, nil
		}
	}
	return 0, errBlock
}

// headersFrame processes a HEADERS frame with its CONTINUATION frames, which are all of b. Whatever becomes of it,
// the block is decoded, because the next one depends on it (RFC 9113 4.3).
func (c *Conn) headersFrame(f frame, b []byte, h *Head) (Event, *Error) {
	p, err := fragment(f, b[frameHeadLen:f.end()])
	if err != nil {
		return Event{}, err
	}
	s, _ := c.find(f.id)
	form, err := c.formOf(s, f.id)
	if err == nil {
		err = c.decode(p, b[f.end():], form, h)
	}
	switch ended := f.has(flagEndStream); {
	case err != nil:
		return Event{}, err
	case form == formRequest:
		return c.request(f.id, ended, h)
	case form == formResponse:
		return c.response(s, ended, h)
	case form == formTrailers:
		return c.trailers(s, ended, h)
	}
	return Event{}, c.control()
}

// formOf returns what a field block on a stream is, by the state of the stream (RFC 9113 5.1).
func (c *Conn) formOf(s *stream, id uint32) (blockForm, *Error) {
	switch {
	case s != nil && s.peerEnded:
		return 0, errClosed
	case s != nil && s.headDone:
		return formTrailers, nil
	case s != nil:
		return formResponse, nil
	case id%2 == 0:
		return 0, errStreamID
	case c.role == Server && id > c.lastID:
		return formRequest, nil
	case c.wasReset(id):
		return formIgnored, nil
	case c.idle(id):
		return 0, errIdle
	case c.skipped:
		return 0, errOldID // or a closed one: closed streams are not remembered
	}
	return 0, errClosed
}

// fragment returns the part of the field block in a HEADERS frame with the payload p (RFC 9113 6.2).
func fragment(f frame, p []byte) ([]byte, *Error) {
	if f.has(flagPadded) {
		if int(p[0]) >= len(p) {
			return nil, errPadding
		}
		p = p[1 : len(p)-int(p[0])]
	}
	if !f.has(flagPriority) {
		return p, nil
	}
	if err := dependsOnItself(f.id, p); err != nil {
		return nil, err
	}
	return p[5:], nil
}

// decode decodes a field block into h: its first fragment, and those in the CONTINUATION frames in b.
func (c *Conn) decode(p, b []byte, form blockForm, h *Head) *Error {
	h.begin(form, c.headBytesMax, c.fieldsMax)
	c.head = h
	c.decoder.SetEmitEnabled(true)
	_, failed := c.decoder.Write(p)
	for len(b) > 0 && failed == nil && h.fatal == nil {
		f, _ := parseFrame(b)
		if f.length == 0 {
			if err := c.glitch(GlitchContinuation); err != nil {
				return err
			}
		}
		_, failed = c.decoder.Write(b[frameHeadLen:f.end()])
		b = b[f.end():]
	}
	c.head = nil
	switch {
	case h.fatal != nil:
		return h.fatal
	case failed != nil || c.decoder.Close() != nil:
		return errCompression
	}
	return nil
}

// emit adds a field that the decoder has decoded to the Head.
func (c *Conn) emit(f hpack.HeaderField) {
	h := c.head
	h.count++
	h.size += int(f.Size())
	switch {
	case len(f.Name) == 0:
		h.fatal = errNameEmpty
	case h.size > 2*h.bytesMax:
		h.fatal = errBomb
	case h.size > h.bytesMax:
		h.large = http1.HeadTooLarge()
	case h.count > h.fieldsMax:
		h.large = http1.TooManyFields()
	case h.malformed != nil:
	case f.Name[0] == ':':
		h.malformed = h.addPseudo(f.Name, f.Value)
	default:
		h.malformed = h.addField(f.Name, f.Value)
	}
	if h.fatal != nil {
		c.decoder.SetEmitEnabled(false)
	}
}

// request opens a stream for a request, at a server.
func (c *Conn) request(id uint32, ended bool, h *Head) (Event, *Error) {
	c.skipped = c.skipped || id > c.lastID+2
	c.lastID = id
	switch {
	case id > c.goAwayLast:
		return Event{}, c.control() // it may have been sent before GOAWAY arrived
	case len(c.streams) >= c.limits.Streams:
		return c.resetStream(id, errTooMany, GlitchRefused)
	case c.Streams() >= c.limits.Streams: // the client cannot know what is still being worked on
		c.out = appendWord(c.out, frameReset, id, uint32(errTooMany.Code))
		c.noteReset(id)
		return Event{}, c.control()
	case id >= openMax && c.goAwayLast == idMax:
		c.goAwayLast = id
		c.out = appendGoAway(c.out, id, NoError, "")
	}
	ev := Event{Kind: HeadDone, EndStream: ended, Stream: id}
	if h.large != nil {
		ev.Err = h.large
	} else if err := h.finishRequest(); err != nil {
		return c.resetStream(id, err, GlitchOwnReset)
	} else {
		ev.Err = h.FinishRequest(&c.limits.Head, ended)
	}
	if ended && h.Framing == http1.BodyLength && h.Length > 0 {
		return c.resetStream(id, errLength, GlitchOwnReset)
	}
	s := c.open(id)
	s.headDone, s.peerEnded, s.method = true, ended, h.Method
	s.expect(&h.Head)
	if ev.Err == nil {
		return ev, nil
	}
	ev.Kind, s.dropped = BadHead, true
	if status := http1.StatusOf(ev.Err); status == 414 || status == 431 {
		return ev, c.glitch(GlitchFields)
	}
	return ev, nil
}

// expect stores how long the body after a head is.
func (s *stream) expect(h *http1.Head) {
	switch h.Framing {
	case http1.BodyLength:
		s.left = h.Length
	case http1.BodyNone:
		s.left = 0
	}
}

// response reads the head of a response, at a client.
func (c *Conn) response(s *stream, ended bool, h *Head) (Event, *Error) {
	interim := h.Status < 200
	var fault *Error
	switch {
	case h.large != nil:
		fault = errLarge
	case h.malformed != nil:
		fault = h.malformed
	case h.Status == 0:
		fault = errMissing
	case h.FinishResponse(&c.limits.Head, s.method, ended) != nil,
		interim && (ended || h.Status == 101 || s.interims == interimsMax):
		fault = errResponse
	case ended && h.Framing == http1.BodyLength && h.Length > 0:
		fault = errLength
	}
	if fault != nil {
		return c.resetStream(s.id, fault, GlitchOwnReset)
	}
	ev := Event{Kind: HeadDone, EndStream: ended, Stream: s.id}
	if interim {
		s.interims++
		return ev, nil
	}
	s.headDone, s.peerEnded = true, ended
	s.expect(&h.Head)
	c.closeEnded(s.id)
	return ev, nil
}

// trailers reads the trailers of a message (RFC 9113 8.1).
func (c *Conn) trailers(s *stream, ended bool, h *Head) (Event, *Error) {
	switch {
	case !ended:
		return c.resetStream(s.id, errTrailers, GlitchOwnReset)
	case h.large != nil:
		return c.resetStream(s.id, errLarge, GlitchFields)
	case h.malformed != nil:
		return c.resetStream(s.id, h.malformed, GlitchOwnReset)
	case s.left > 0 && !s.dropped:
		return c.resetStream(s.id, errLength, GlitchOwnReset)
	}
	ev := Event{Kind: Trailers, EndStream: true, Stream: s.id}
	if s.dropped {
		ev = Event{}
	}
	s.peerEnded = true
	c.closeEnded(s.id)
	return ev, nil
}
