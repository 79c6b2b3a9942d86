// Package cycle is the server side of HTTP/1.1 on a connection that serves one request after
// another. It decides when bytes are read, how much time the client has, and what follows a
// response. The caller interprets the requests.
package cycle

import (
	"time"

	"weir/internal/net/http1"
)

// A State is what a Cycle waits for.
type State uint8

const (
	Idle             State = iota // the first byte of a request
	Head                          // the rest of a head
	Body                          // the rest of a body, perhaps of none
	AwaitingResponse              // the caller's response; no byte is read meanwhile
	Closing                       // nothing: the last answer is written
)

// String names the state.
func (s State) String() string {
	return [...]string{"idle", "head", "body", "awaiting response", "closing"}[s]
}

// A Close is how a connection must be closed.
type Close uint8

const (
	CloseNone    Close = iota // not at all
	CloseDrained              // after the last byte is sent
	CloseLinger               // likewise, then discarding what still arrives (RFC 9112 section 9.6)
)

// A Conn is the connection of a Cycle.
type Conn interface {
	CloseDrained()
	CloseLinger()
	SetDeadline(at time.Time)
}

// Apply closes conn in this way, or sets its deadline if it stays open.
func (c Close) Apply(conn Conn, deadline time.Time) {
	switch c {
	case CloseDrained:
		conn.CloseDrained()
	case CloseLinger:
		conn.CloseLinger()
	default:
		conn.SetDeadline(deadline)
	}
}

// Timeouts are timeouts. When Idle has passed the connection is closed; for the others an
// incomplete request is answered 408.
type Timeouts struct {
	Idle  time.Duration // between two exchanges; longer than clients usually keep connections
	Head  time.Duration // from the first byte of a head to its last
	Body  time.Duration // for a body
	Piece time.Duration // between two pieces of a body, instead of Body
}

// A Cycle is the state of one connection.
//
// Owned by its loop.
type Cycle struct {
	Began time.Time // start of the current request
	Until time.Time // the deadline; zero: none
	State State
	// KeepAlive says that another request may follow the current one.
	KeepAlive bool
	Draining  bool // the next answer is the last
	Unread    bool // some received bytes have not been read
	OnlyHead  bool // the request's method is HEAD
	// Full is set by a caller that has enough to send: HandleData returns before the next
	// request, and starts with Full unset.
	Full bool
	// Faulty is what was received from the beginning of a malformed head, while its error is handled.
	Faulty []byte
	say    bool // send Connection: keep-alive, which HTTP/1.0 clients need
	cut    bool // the request is answered before its end
	reader http1.Reader
	times  *Timeouts
}

// New returns the Cycle of a connection that was opened at now. limits bounds heads; nil means the defaults.
func New(now time.Time, times *Timeouts, limits *http1.Limits) Cycle {
	return Cycle{reader: http1.NewRequestReader(limits), times: times, Until: now.Add(times.Idle)}
}

// HandleData reads b, the bytes received and not yet read, and returns how many it has
// read. It calls handle for each head (which is in h), piece of a body and end, and for the
// error of a malformed request, which handle answers after [Cycle.Refuse]. It stops in
// state AwaitingResponse, and when the Cycle is Full.
func (c *Cycle) HandleData(now time.Time, b []byte, h *http1.Head, handle func(time.Time, http1.Event, error)) int {
	n := 0
	for c.Full = false; c.State < AwaitingResponse && !c.Full; {
		event, err := c.reader.Next(b[n:], h)
		n += int(event.N)
		c.Unread = n < len(b)
		switch {
		case err != nil && c.State <= Head:
			c.Faulty = b[n:]
		case err != nil:
		case event.Kind == http1.NeedMore:
			c.pause(now)
			c.Unread = false // the rest is part of a head or of a chunk line
			return n
		case event.Kind == http1.HeadDone:
			c.Begin(now, h)
		}
		handle(now, event, err)
		c.Faulty = nil
	}
	if c.State == Closing {
		return len(b) // closing discards it
	}
	c.Unread = n < len(b)
	return n
}

// pause handles the end of the bytes received so far.
func (c *Cycle) pause(now time.Time) {
	switch {
	case c.State == Idle && !c.reader.Idle():
		c.State, c.Began, c.Until = Head, now, now.Add(c.times.Head)
	case c.State == Body && c.times.Piece > 0:
		c.Until = now.Add(c.times.Piece)
	}
}

// Begin begins the request with the head h. HandleData calls it.
func (c *Cycle) Begin(now time.Time, h *http1.Head) {
	if c.State == Idle {
		c.Began = now
	}
	c.State, c.Until = Body, now.Add(max(c.times.Body, c.times.Piece))
	c.KeepAlive, c.say, c.OnlyHead, c.cut = h.KeepAlive, h.KeepAlive && h.Minor == 0, h.Method == http1.HEAD, false
}

// AppendContinue appends 100 for a client that still waits for it (RFC 9110 section 10.1.1).
func (c *Cycle) AppendContinue(dst []byte, h *http1.Head) []byte {
	if h.Expect == http1.ExpectContinue && h.Framing != http1.BodyNone && !c.Unread {
		dst = append(dst, "HTTP/1.1 100 Continue\r\n\r\n"...)
	}
	return dst
}

// Wait makes the exchange wait for an answer; nothing is read meanwhile.
func (c *Cycle) Wait() { c.State, c.Until = AwaitingResponse, time.Time{} }

// Expired reports whether the deadline has passed.
func (c *Cycle) Expired(now time.Time) bool { return !c.Until.IsZero() && !now.Before(c.Until) }

// Drain makes the next answer the last, and reports whether there is nothing to answer.
func (c *Cycle) Drain() (idle bool) {
	c.Draining = true
	return c.State == Idle && !c.Unread
}

// Refuse makes the next answer, which may come later, the last, because it is sent before the
// end of the request: what follows may be the rest of it.
func (c *Cycle) Refuse(now time.Time) {
	if c.State == Idle {
		c.Began = now
	}
	if c.State != Body { // the method is unknown
		c.OnlyHead = false
	}
	c.KeepAlive, c.say, c.cut = false, false, true
}

// Plain reports whether the answer needs no field of the connection.
func (c *Cycle) Plain() bool { return c.KeepAlive && !c.say && !c.Draining && !c.OnlyHead }

// AppendAnswer appends the answer to the request. The Cycle sets what concerns the
// connection; a.Extra has the other fields. It returns a.Extra, so that its memory can be
// used again. The caller then calls [Cycle.End].
func (c *Cycle) AppendAnswer(dst []byte, a http1.LocalResponse) (out, extra []byte) {
	c.KeepAlive = c.KeepAlive && !c.Draining
	if c.KeepAlive && c.say {
		a.Extra = append(a.Extra, "Connection: keep-alive\r\n"...)
	}
	a.Close, a.Head = !c.KeepAlive, c.OnlyHead
	return http1.AppendLocalResponse(dst, a), a.Extra
}

// End ends the exchange after its answer, and returns how to close the connection.
func (c *Cycle) End(now time.Time) Close {
	switch {
	case c.KeepAlive:
		c.State, c.Until = Idle, now.Add(c.times.Idle)
		return CloseNone
	case c.Unread || c.cut:
		c.Close()
		return CloseLinger // closing with unread bytes sends a reset, which may discard the answer
	}
	return c.Close()
}

// Close ends the cycle: nothing more is read.
func (c *Cycle) Close() Close {
	c.State, c.Until = Closing, time.Time{}
	return CloseDrained
}

// More reports whether bytes are left that HandleData would read now.
func (c *Cycle) More() bool { return c.Unread && c.State != Closing }

// Earlier returns the earlier of two deadlines; a zero one means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
