// Package cycle is the server side of HTTP/1.1 on a connection that serves one request
// after another: when bytes are read, how long the client may take, and what follows an
// answer. The caller interprets the requests.
package cycle

import (
	"time"

	"weir/internal/http1"
)

// A State says what a Cycle waits for.
type State uint8

const (
	Idle    State = iota // the first byte of a request
	Head                 // the rest of a head
	Body                 // the rest of a body, perhaps of none
	Asked                // an answer; no byte is read
	Closing              // nothing more: the last answer is written
)

// String names the state.
func (s State) String() string {
	return [...]string{"idle", "head", "body", "asked", "closing"}[s]
}

// A Close says how a connection is to be closed.
type Close uint8

const (
	CloseNone    Close = iota // not at all
	CloseDrained              // after the last byte was sent
	CloseLinger               // the same, then discarding what still arrives (RFC 9112 section 9.6)
)

// Times are those after which a request that has not come is answered 408. An idle
// connection is closed.
type Times struct {
	Idle  time.Duration // between two exchanges; longer than sensible clients keep connections
	Head  time.Duration // from the first byte of a head to its last
	Body  time.Duration // for a body
	Piece time.Duration // between two pieces of a body, in place of Body
}

// A Cycle is the state of one connection.
//
// Owned by its loop.
type Cycle struct {
	Began time.Time // when the request under way did
	Until time.Time // the deadline; zero: none
	State State
	// KeepAlive says that another request may follow the one under way.
	KeepAlive bool
	Draining  bool // the answer to the request under way is the last
	Unread    bool // bytes are left that were not read
	OnlyHead  bool // the request's method is HEAD
	say       bool // that the connection is kept: HTTP/1.0 clients do not assume it
	reader    http1.Reader
	times     *Times
}

// New returns the Cycle of a connection that was opened at now.
func New(now time.Time, times *Times) Cycle {
	return Cycle{reader: http1.NewRequestReader(nil), times: times, Until: now.Add(times.Idle)}
}

// HandleData reads b, the bytes received and not yet read, and returns how many it has
// read. It calls handle with each head, which is in h, piece of a body and end, and with
// the error of a malformed request, which handle answers after [Cycle.Refuse]. It stops
// when the state is Asked.
func (c *Cycle) HandleData(now time.Time, b []byte, h *http1.Head, handle func(time.Time, http1.Event, error)) int {
	n := 0
	for c.State < Asked {
		event, err := c.reader.Next(b[n:], h)
		n += event.N
		c.Unread = n < len(b)
		switch {
		case err != nil:
		case event.Kind == http1.NeedMore:
			c.pause(now)
			c.Unread = false // what is left is a part of a head or of a chunk line
			return n
		case event.Kind == http1.HeadDone:
			c.begin(now, h)
		}
		handle(now, event, err)
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

func (c *Cycle) begin(now time.Time, h *http1.Head) {
	if c.State == Idle {
		c.Began = now
	}
	c.State, c.Until = Body, now.Add(max(c.times.Body, c.times.Piece))
	c.KeepAlive, c.say, c.OnlyHead = h.KeepAlive, h.KeepAlive && h.Minor == 0, h.Method == http1.HEAD
}

// AppendContinue appends 100 for a client that still waits for it (RFC 9110 section 10.1.1).
func (c *Cycle) AppendContinue(dst []byte, h *http1.Head) []byte {
	if h.Expect == http1.ExpectContinue && h.Framing != http1.BodyNone && !c.Unread {
		dst = append(dst, "HTTP/1.1 100 Continue\r\n\r\n"...)
	}
	return dst
}

// Wait has the exchange wait for an answer; nothing is read meanwhile.
func (c *Cycle) Wait() { c.State, c.Until = Asked, time.Time{} }

// Expired reports whether the deadline has passed.
func (c *Cycle) Expired(now time.Time) bool { return !c.Until.IsZero() && !now.Before(c.Until) }

// Drain makes the next answer the last, and reports whether there is nothing to answer.
func (c *Cycle) Drain() (idle bool) {
	c.Draining = true
	return c.State == Idle && !c.Unread
}

// Refuse makes the next answer the last: it is given before the request was read to its
// end, so what follows cannot be told from the rest of it.
func (c *Cycle) Refuse(now time.Time) {
	if c.State == Idle {
		c.Began = now
	}
	if c.State != Body { // nothing is known of the request
		c.OnlyHead = false
	}
	c.KeepAlive, c.say, c.Unread = false, false, true
}

// Plain reports whether the answer needs no field of the connection.
func (c *Cycle) Plain() bool { return c.KeepAlive && !c.say && !c.Draining && !c.OnlyHead }

// AppendAnswer appends the answer to the request; what of it belongs to the connection is
// the Cycle's. a.Extra has the other fields; it is returned, to be used again. [Cycle.End]
// is to follow.
func (c *Cycle) AppendAnswer(dst []byte, a http1.Answer) (out, extra []byte) {
	c.KeepAlive = c.KeepAlive && !c.Draining
	if c.KeepAlive && c.say {
		a.Extra = append(a.Extra, "Connection: keep-alive\r\n"...)
	}
	a.Close, a.Head = !c.KeepAlive, c.OnlyHead
	return http1.AppendAnswer(dst, a), a.Extra
}

// End ends the exchange that is answered, and returns how the connection is to be closed.
func (c *Cycle) End(now time.Time) Close {
	switch {
	case c.KeepAlive:
		c.State, c.Until = Idle, now.Add(c.times.Idle)
		return CloseNone
	case c.Unread:
		c.Close()
		return CloseLinger // closing with unread bytes resets, and the answer is lost
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
