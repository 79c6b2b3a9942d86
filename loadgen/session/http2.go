package session

import (
	"bytes"
	"slices"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/loadgen/record"
)

// An Exchange is one request on a connection of HTTP/2 and its answer.
//
// Owned by its loop.
type Exchange struct {
	Outcome record.Outcome
	// Again says that the exchange has ended without an outcome: the target has not processed the request,
	// which should be sent again.
	Again bool
	Index uint64 // the caller's
	Sent  uint8  // the caller's

	id      uint32
	last    bool   // the request is not sent again
	crosses bool   // the target may be closing the connection for idleness
	begun   bool   // a part of the answer has arrived
	unsent  []byte // of the body, in kept
	kept    []byte
}

// An HTTP2 is the state of one connection of HTTP/2, whose streams are exchanges. What has ended is put into
// LoopSettings.Ended, and what is to be sent into Out.
//
//   - A request that a GOAWAY or REFUSED_STREAM of the target excludes was not processed, and is sent again
//     on any method (RFC 9113 section 8.7). After GOAWAY the connection ends with its last exchange.
//   - A timeout ends only its stream. But if nothing was received since the stream was opened, the connection may
//     be dead: no more requests are sent on it, and it ends with its last exchange.
//   - The end of the connection without GOAWAY is handled as with HTTP/1.1, see Session.HandleClosed.
//
// Owned by its loop.
type HTTP2 struct {
	Out []byte // frames to be sent; the caller empties it

	settings  *LoopSettings
	http2     *http2.Conn
	exchanges []*Exchange // in progress, in the order in which they were sent
	ready     bool        // the target has sent its settings
	spent     bool        // no more requests can be sent
	heard     time.Time   // when something was received last
}

// limits of a connection: heads and windows as usual, and no bound on what a target may do that is strange,
// because it is under test.
var limits = http2.Limits{GlitchBurst: -1}

// NewHTTP2 returns the state of a connection that was opened at now.
func NewHTTP2(now time.Time, t *LoopSettings) *HTTP2 {
	c := &HTTP2{settings: t, http2: http2.New(http2.Client, &limits, now), heard: now}
	c.AppendControl()
	return c
}

// AppendControl appends to Out the frames that answer those received. It must be called before Out is sent, but
// not while much is unsent: pending answers are bounded, and a target that causes more loses its connection.
func (c *HTTP2) AppendControl() { c.Out = c.http2.AppendControl(c.Out) }

// Ready reports whether the target has sent its settings, so that it speaks HTTP/2.
func (c *HTTP2) Ready() bool { return c.ready }

// Over reports whether the connection should be closed, after Out was sent.
func (c *HTTP2) Over() bool { return c.spent && len(c.exchanges) == 0 }

// Spent reports whether the connection gets no more requests, and ends with those in progress.
func (c *HTTP2) Spent() bool { return c.spent }

// InFlight returns the number of exchanges in progress.
func (c *HTTP2) InFlight() int { return len(c.exchanges) }

// Free reports whether a request can be sent now.
func (c *HTTP2) Free() bool {
	return c.ready && !c.spent && len(c.exchanges) < c.settings.Streams && c.http2.Free() > 0
}

// Deadline returns when the next exchange times out; zero means never.
func (c *HTTP2) Deadline() time.Time {
	if len(c.exchanges) == 0 {
		return time.Time{}
	}
	return c.exchanges[0].Outcome.Start.Add(c.settings.Timeout)
}

// HandleSent sends the request due at due, which has the form of HTTP/1.1, on a connection that is Free. last
// rules out Again. crosses says that the connection was idle for long, so that the target may be closing it.
func (c *HTTP2) HandleSent(now, due time.Time, request []byte, last, crosses bool) *Exchange {
	x := c.settings.exchange()
	x.last, x.crosses, x.Outcome = last, crosses, record.Outcome{Due: due, Start: now}
	r, body := split(request)
	r.Scheme = c.settings.Scheme
	var err error
	c.Out, x.id, err = c.http2.AppendRequest(c.Out, &r, len(body) == 0)
	if err != nil { // more fields than the target accepts
		x.fail(now, record.HeadTooLarge)
		x.Outcome.Start = time.Time{}
		c.settings.Ended = append(c.settings.Ended, x)
		return x
	}
	c.spent = c.spent || x.id >= idsMax
	c.exchanges = append(c.exchanges, x)
	if len(body) > 0 {
		x.kept = append(x.kept[:0], c.sendSome(x, body)...)
		x.unsent = x.kept
	}
	return x
}

// idsMax is the identifier of a stream after which http2.Conn opens no more.
const idsMax = 1 << 30

// split returns the parts of a request in the form of HTTP/1.1, as a plan renders it.
func split(request []byte) (r http2.Request, body []byte) {
	line, rest, _ := bytes.Cut(request, []byte("\r\n"))
	fields, body, _ := bytes.Cut(rest, []byte("\r\n\r\n"))
	r.Method, line, _ = bytes.Cut(line, []byte(" "))
	r.Path, _, _ = bytes.Cut(line, []byte(" "))
	r.Fields = rest[:len(fields)+len("\r\n")]
	for f := range http1.FieldLines(r.Fields) {
		if f.ID == http1.FieldHost {
			r.Authority = f.Value
			break
		}
	}
	return r, body
}

// sendSome sends as much of p as there is room for, and returns the rest.
func (c *HTTP2) sendSome(x *Exchange, p []byte) (rest []byte) {
	n := 0
	c.Out, n = c.http2.AppendData(c.Out, x.id, p, true)
	return p[n:]
}

// HandleData processes b, the bytes received and not yet read, and returns how many it has read.
func (c *HTTP2) HandleData(now time.Time, b []byte) (n int) {
	c.heard = now
	for !c.Over() {
		ev, err := c.http2.Next(now, b[n:], &c.settings.Head)
		n += ev.N
		switch {
		case err != nil:
			c.endAll(func(x *Exchange) { x.fail(now, record.BadResponse) })
		case ev.Kind == http2.NeedMore:
			return n
		default:
			c.handle(now, &ev)
		}
	}
	return len(b)
}

func (c *HTTP2) handle(now time.Time, ev *http2.Event) {
	switch ev.Kind {
	case http2.Settings, http2.WindowGrew:
		c.ready = c.ready || ev.Kind == http2.Settings
		for _, x := range c.exchanges {
			if len(x.unsent) > 0 {
				x.unsent = c.sendSome(x, x.unsent)
			}
		}
		return
	case http2.GoAway:
		c.spent = true
		return
	case http2.Data:
		c.http2.Consumed(ev.Stream, len(ev.Data))
	}
	i, ok := slices.BinarySearchFunc(c.exchanges, ev.Stream,
		func(x *Exchange, id uint32) int { return int(x.id) - int(id) })
	if !ok {
		return // it has timed out, or this is a Pong
	}
	x := c.exchanges[i]
	switch {
	case ev.Kind == http2.Reset && ev.Unprocessed && !x.last:
		x.Again = true
	case ev.Kind == http2.Reset && ev.Err != nil:
		x.fail(now, record.BadResponse)
	case ev.Kind == http2.Reset:
		x.fail(now, record.Reset)
	default:
		x.begun = true
		if ev.Kind == http2.HeadDone {
			answeredBy(&x.Outcome, &c.settings.Head.Head)
		}
		if !ev.EndStream {
			return
		}
		if x.Outcome.Done = now; c.settings.GRPC && x.Outcome.Status < 400 && !calledBy(&x.Outcome, ev,
			&c.settings.Head.Head) {
			x.fail(now, record.BadResponse)
		}
		c.Out = c.http2.AppendReset(c.Out, x.id, http2.Cancel) // if the target does not need the rest of the request
	}
	c.end(i)
}

// end ends the exchange at i.
func (c *HTTP2) end(i int) {
	c.settings.Ended = append(c.settings.Ended, c.exchanges[i])
	c.exchanges = slices.Delete(c.exchanges, i, i+1)
}

// endAll ends the connection with all its exchanges, to each of which it applies f.
func (c *HTTP2) endAll(f func(x *Exchange)) {
	c.spent = true
	for len(c.exchanges) > 0 {
		f(c.exchanges[0])
		c.end(0)
	}
}

// HandleExpired handles a passed deadline, which may be that of an earlier exchange.
func (c *HTTP2) HandleExpired(now time.Time) {
	for len(c.exchanges) > 0 && !now.Before(c.Deadline()) {
		x := c.exchanges[0]
		c.Out = c.http2.AppendReset(c.Out, x.id, http2.Cancel)
		c.spent = c.spent || !c.heard.After(x.Outcome.Start)
		x.fail(now, record.Timeout)
		c.end(0)
	}
}

// HandleClosed handles the end of the connection: orderly if either side closed it, otherwise broken.
func (c *HTTP2) HandleClosed(now time.Time, orderly bool) {
	reason := record.Reset
	if orderly {
		reason = record.Closed
	}
	c.endAll(func(x *Exchange) {
		if x.Again = x.crosses && !x.begun && !x.last && c.settings.mayRepeat(now, x.Outcome.Start); !x.Again {
			x.fail(now, reason)
		}
	})
}

// fail ends the exchange without a complete answer.
func (e *Exchange) fail(now time.Time, r record.Reason) {
	e.Outcome.Status, e.Outcome.Reason, e.Outcome.Done = 0, r, now
}
