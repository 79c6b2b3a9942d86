package http2

import (
	"slices"

	"weir/internal/net/http1"
)

// A stream is open, or half-closed on one side (RFC 9113 5.1). Others are idle, if their identifier is higher than
// that of each stream before, or closed.
type stream struct {
	id uint32
	// send and recv are the windows, as those of Conn. held are bytes that were returned by Data and not consumed.
	send, recv, credit, held int
	left                     int64 // bytes of body still to come, -1 if it is not known
	method                   http1.Method
	interims                 uint8
	headDone                 bool // its final head was read
	headSent                 bool
	peerEnded, ended         bool // END_STREAM was received; was sent
	dropped                  bool // the rest of its body is of no interest
}

// find returns the stream with that identifier and its place in c.streams, or nil. The stream is valid until another
// is opened or closed.
func (c *Conn) find(id uint32) (*stream, int) {
	low, high := 0, len(c.streams)
	for low < high {
		if mid := (low + high) / 2; c.streams[mid].id < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(c.streams) && c.streams[low].id == id {
		return &c.streams[low], low
	}
	return nil, -1
}

// open opens a stream. Its identifier is higher than that of all others.
func (c *Conn) open(id uint32) *stream {
	c.streams = append(c.streams, stream{id: id, send: c.peerWindow, recv: c.limits.Window, left: -1})
	return &c.streams[len(c.streams)-1]
}

// close closes the stream at i. What it has not consumed is given back to the connection.
func (c *Conn) close(i int) {
	c.giveBack(c.streams[i].held)
	if c.streams = append(c.streams[:i], c.streams[i+1:]...); len(c.streams) == 0 && cap(c.streams) > streamsKept {
		c.streams = nil
	}
}

// closeEnded closes a stream if both sides have ended it.
func (c *Conn) closeEnded(id uint32) {
	if s, i := c.find(id); s != nil && s.ended && s.peerEnded {
		c.close(i)
	}
}

// noteReset remembers a stream that we have reset and that the peer has not ended, because it may have sent frames
// before it reads of that (RFC 9113 5.1). Of those that are forgotten the highest is remembered: frames on closed
// streams up to it are ignored too.
func (c *Conn) noteReset(id uint32) {
	if len(c.reset) < 2*c.limits.Streams {
		c.reset = append(c.reset, 0)
	}
	c.resetNext = (c.resetNext + 1) % len(c.reset)
	c.forgotten = max(c.forgotten, c.reset[c.resetNext])
	c.reset[c.resetNext] = id
}

// wasReset reports whether frames on a stream that is not open must be ignored because we have reset it, or have not
// accepted it after GOAWAY.
func (c *Conn) wasReset(id uint32) bool {
	return id <= c.forgotten || c.role == Server && id > c.goAwayLast || slices.Contains(c.reset, id)
}

// idle reports whether no stream with that identifier was opened. Those of servers, with even identifiers, never are.
func (c *Conn) idle(id uint32) bool { return id%2 == 0 || id > c.lastID }

// accepted returns the last identifier for a GOAWAY: that of the last stream of a client that was accepted. Servers
// open no streams.
func (c *Conn) accepted() uint32 { return min(c.lastID, c.goAwayLast) }

// resetStream resets a stream because of err. The stream may be one that was not opened, of which the caller knows
// nothing: then there is no event.
func (c *Conn) resetStream(id uint32, why *Error, kind Glitch) (Event, *Error) {
	c.out = appendWord(c.out, frameReset, id, uint32(why.Code))
	s, i := c.find(id)
	if s == nil || !s.peerEnded {
		c.noteReset(id)
	}
	if s == nil {
		return Event{}, c.glitch(kind)
	}
	c.close(i)
	return Event{Kind: Reset, Stream: id, Code: why.Code, Err: why}, c.glitch(kind)
}

// unprocessed ends a stream that the server will not process, the last one of those after GOAWAY.
func (c *Conn) unprocessed() Event {
	i := len(c.streams) - 1
	id := c.streams[i].id
	c.close(i)
	return Event{Kind: Reset, Stream: id, Code: RefusedStream, Unprocessed: true}
}

// Streams returns how many streams are open, at a server with those of SetWorking.
func (c *Conn) Streams() int { return len(c.streams) + c.working }

// SetWorking says how many streams that were reset are still being worked on. A server counts them as open, so that a
// client that resets its requests does not get more work done than others (CVE-2023-44487).
func (c *Conn) SetWorking(n int) { c.working = n }

// Free returns how many requests a client may send now. It is 0 for ever after GOAWAY, an error, or too many
// requests.
func (c *Conn) Free() int {
	if c.role == Server || c.goneAway || c.err != nil || c.lastID >= openMax {
		return 0
	}
	return max(0, c.peerStreams-len(c.streams))
}
