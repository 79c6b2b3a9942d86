package http2

import (
	"time"

	"golang.org/x/net/http2/hpack"
)

// A Role is the side of a connection.
type Role uint8

const (
	Server Role = iota // answers requests
	Client             // sends requests
)

// A Conn is one side of an HTTP/2 connection (RFC 9113).
//
// Owned by its loop.
type Conn struct {
	role   Role
	limits Limits
	// headBytesMax and fieldsMax bound what is decoded of a head.
	headBytesMax, fieldsMax int
	glitchInterval          time.Duration

	start time.Time
	now   time.Duration // since start, as of the last Next
	err   *Error        // ended the connection

	decoder *hpack.Decoder
	head    *Head // what emit fills, during Next

	// out are frames for AppendControl.
	out []byte

	// Reading: the part of the preface that was read; whether the first SETTINGS was; and the rest of a frame of
	// which not all has been read.
	prefaced uint8
	settled  bool
	body     body
	skip     int
	pings    uint8 // PINGs of ours that are not answered

	// streams are those that are open or half-closed, by identifier.
	streams []stream
	working int // see SetWorking
	// lastID is the highest identifier of a stream that the client has opened, or 0. skipped says that it did not use
	// all below it.
	lastID  uint32
	skipped bool
	// reset are the last streams that we have reset while the peer had not ended them, in a ring. forgotten is the
	// highest that was overwritten in it.
	reset     []uint32
	resetNext int
	forgotten uint32

	// goneAway says that the peer has sent GOAWAY, and peerLast is its last identifier. goAwayLast is that of our own
	// last GOAWAY.
	goneAway             bool
	peerLast, goAwayLast uint32

	// send is the window of the connection for what we send; recv for what the peer sends, of which credit was
	// consumed and not given back yet.
	send, recv, credit int
	// Settings of the peer: the initial window of a stream, how many streams we may open, and the largest field list.
	// Its HEADER_TABLE_SIZE does not matter, because the encoder uses no table, nor its MAX_FRAME_SIZE, because we
	// send no frame that is not always allowed.
	peerWindow, peerStreams, peerListBytes int
	sizeUpdated                            bool // the encoder has said that it uses no table

	calm, controls bucket
	earned         uint16
	glitches       [GlitchKinds]uint32
}

// New returns a Conn that begins at now, with the limits of l, nil means the defaults. The connection preface is in
// AppendControl.
func New(role Role, l *Limits, now time.Time) *Conn {
	c := &Conn{role: role, limits: l.withDefaults(), start: now, send: windowInitial, goAwayLast: idMax}
	headBytes, fields := c.limits.Head.Bounds()
	c.headBytesMax, c.fieldsMax = int(headBytes), int(fields)
	c.glitchInterval = time.Duration(float64(time.Second) / c.limits.GlitchRate)
	c.decoder = hpack.NewDecoder(tableBytesMax, c.emit)
	c.peerWindow, c.peerStreams, c.peerListBytes = windowInitial, streamsUnknown, idMax
	c.recv = c.limits.ConnWindow
	if role == Client {
		c.goAwayLast, c.prefaced = 0, uint8(len(preface))
		c.out = append(c.out, preface...)
	}
	c.out = c.appendSettings(c.out)
	if n := c.recv - windowInitial; n > 0 {
		c.out = appendWord(c.out, frameWindowUpdate, 0, uint32(n))
	}
	return c
}

// A Kind is the kind of an Event.
type Kind uint8

const (
	// NeedMore: the bytes end inside something; call Next again with the bytes not yet read, followed by more.
	NeedMore Kind = iota
	// HeadDone: the Head is that of a request, which opens the stream, or of a response, which may be an interim one.
	HeadDone
	// BadHead: a request opens the stream that must be refused with the status of Err, an *http1.Error. The rest of
	// the request is dropped.
	BadHead
	// Data: a piece of a body. It is empty only if it ends the stream.
	Data
	// Trailers: the Fields of the Head are trailers. They end the stream.
	Trailers
	// Reset: the stream has ended in both directions: by the peer, with Code; or by us, because of Err; or because of
	// GOAWAY, see Unprocessed.
	Reset
	// WindowGrew: the stream, or with Stream 0 perhaps all of them, have Room again.
	WindowGrew
	// Settings: the peer has changed its settings. Room and Free may be larger or smaller.
	Settings
	// GoAway: the peer accepts no more streams after Stream. At a client, those that it has opened with a higher
	// identifier are reset by the next events.
	GoAway
	// Pong: a PING of ours was answered.
	Pong
)

// An Event is one step of reading a connection.
type Event struct {
	Kind Kind
	// EndStream says, with HeadDone, BadHead, Data and Trailers, that the peer sends nothing more on the stream.
	EndStream bool
	// Unprocessed says, with Reset, that the server has not processed the request, which may be sent again on another
	// connection (RFC 9113 8.7).
	Unprocessed bool
	Stream      uint32
	Code        Code   // of Reset and GoAway
	Data        []byte // a part of the bytes given to Next, and valid as long as they are
	Err         error  // of BadHead an *http1.Error, of Reset nil or an *Error
	// N is how many of the bytes given to Next have been read, whatever the Kind.
	N int
}

// Next reads b, which begins with the first byte not yet read, at now. h is written while a head is read, and valid
// with HeadDone, BadHead (as far as it was read) and Trailers.
//
// An error is an *Error, which ends the connection: each later call returns it again. Send what AppendControl appends
// and close the connection.
func (c *Conn) Next(now time.Time, b []byte, h *Head) (Event, error) {
	if c.err != nil {
		return Event{}, c.err
	}
	c.now = now.Sub(c.start)
	for n := 0; ; {
		ev, ok, err := c.step(b[n:], h)
		if err == nil && len(c.out) > controlBytesMax {
			err = errControl
		}
		if err != nil {
			c.fail(err)
			return Event{}, err
		}
		if n += ev.N; !ok || ev.Kind != NeedMore {
			ev.N = n
			return ev, nil
		}
	}
}

// fail ends the connection.
func (c *Conn) fail(err *Error) {
	c.err, c.streams = err, nil
	c.out = appendGoAway(c.out, c.accepted(), err.Code, err.Reason)
}

// step reads at most one frame. ok is false if b has not enough bytes for that.
func (c *Conn) step(b []byte, h *Head) (ev Event, ok bool, err *Error) {
	switch {
	case c.role == Client && c.goneAway && len(c.streams) > 0 && c.streams[len(c.streams)-1].id > c.peerLast:
		return c.unprocessed(), true, nil
	case c.body.open && c.body.left == 0:
		return c.readBody(nil), true, nil
	case len(b) == 0:
		return Event{}, false, nil
	case int(c.prefaced) < len(preface):
		ev, err = c.readPreface(b)
		return ev, true, err
	case c.body.open:
		return c.readBody(b), true, nil
	case c.skip > 0:
		n := min(c.skip, len(b))
		c.skip -= n
		return Event{N: n}, true, nil
	}
	f, ok := parseFrame(b)
	if !ok {
		return Event{}, false, nil
	}
	if err = f.check(); err != nil {
		return Event{}, false, err
	}
	if !c.settled && (f.kind != frameSettings || f.has(flagAck)) {
		return Event{}, false, errNoSettings
	}
	return c.readFrame(f, b, h)
}

// readFrame reads a frame, or its beginning: DATA in pieces, HEADERS with all CONTINUATION frames, others as a whole.
func (c *Conn) readFrame(f frame, b []byte, h *Head) (ev Event, ok bool, err *Error) {
	n := f.end()
	switch {
	case f.kind == frameData && f.has(flagPadded):
		n = frameHeadLen + 1
	case f.kind == frameData, f.kind > frameContinuation:
		n = frameHeadLen
	case f.kind == frameHeaders:
		if n, err = c.blockEnd(b); err != nil || n == 0 {
			return Event{}, false, err
		}
	}
	if len(b) < n {
		return Event{}, false, nil
	}
	switch {
	case f.kind == frameData:
		ev, err = c.dataFrame(f, b[frameHeadLen:n])
	case f.kind == frameHeaders:
		ev, err = c.headersFrame(f, b[:n], h)
	case f.kind > frameContinuation:
		c.skip = f.length
		err = c.control()
	default:
		ev, err = c.controlFrame(f, b[frameHeadLen:n])
	}
	ev.N = n
	return ev, true, err
}

// Preface reports whether a connection that begins with b may be one of HTTP/2, and whether all of the
// client's connection preface is there (RFC 9113 3.4).
func Preface(b []byte) (begins, whole bool) {
	n := min(len(b), len(preface))
	return string(b[:n]) == preface[:n], n == len(preface) && string(b[:n]) == preface
}

// readPreface compares b with the preface of a client.
func (c *Conn) readPreface(b []byte) (Event, *Error) {
	rest := preface[c.prefaced:]
	n := min(len(b), len(rest))
	if string(b[:n]) != rest[:n] {
		return Event{}, errPreface
	}
	c.prefaced += uint8(n)
	return Event{N: n}, nil
}

// AppendControl appends the frames by which the Conn answers or credits what was read, or nothing. Call it when what
// was appended before has been written: what accumulates here is bounded, so that a peer cannot send without reading.
func (c *Conn) AppendControl(dst []byte) []byte {
	dst = append(dst, c.out...)
	if c.out = c.out[:0]; cap(c.out) > outKept {
		c.out = nil
	}
	return dst
}
