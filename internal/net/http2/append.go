package http2

import (
	"encoding/binary"
	"errors"

	"weir/internal/net/http1"
)

// The functions here append frames to dst and return it, without allocation if dst has room. What they append must be
// sent in the order of the calls. They append what AppendControl would append first: the acknowledgement of a setting
// precedes what relies on it.

// ErrStream is the error of AppendRequest if no stream can be opened, see Free, and of the others if the stream is
// not open, or ended, or its head is missing or was sent.
var ErrStream = errors.New("http2: no such stream to send on")

// ErrFieldsTooLarge is the error for more fields than the peer's SETTINGS_MAX_HEADER_LIST_SIZE allows.
var ErrFieldsTooLarge = errors.New("http2: more fields than the peer accepts")

// A Request is what the head of a request consists of.
type Request struct {
	Method, Authority []byte
	Scheme            string // http or https
	Path              []byte // with the query; * with OPTIONS
	// Fields are field lines, see http1.AppendField. Host and what belongs to an HTTP/1.1 connection are not sent
	// (RFC 9113 8.2.2).
	Fields []byte
}

// AppendRequest opens a stream with a request. end says that it has no body and no trailers.
func (c *Conn) AppendRequest(dst []byte, r *Request, end bool) (out []byte, id uint32, err error) {
	if c.Free() == 0 {
		return dst, 0, ErrStream
	}
	id = c.lastID + 2
	if c.lastID == 0 {
		id = 1
	}
	out, start := c.beginBlock(dst)
	out = appendKnown(out, indexMethod, r.Method, "GET", "POST")
	out = appendKnown(out, indexScheme, []byte(r.Scheme), "http", "https")
	out = appendKnown(out, indexPath, r.Path, "/", "/index.html")
	if len(r.Authority) > 0 {
		out = appendNamed(out, literal, indexAuthority, r.Authority)
	}
	out, size := appendFields(out, r.Fields, true)
	size += len(":method:scheme:path:authority") + 4*32 +
		len(r.Method) + len(r.Scheme) + len(r.Path) + len(r.Authority)
	if out, err = c.endBlock(out, start, id, size, end); err != nil {
		return out, 0, err
	}
	c.lastID = id
	s := c.open(id)
	s.method, s.headSent, s.ended = http1.MethodOf(r.Method), true, end
	return out, id, nil
}

// AppendResponse appends the head of a response. An interim one (1xx) may precede it. end says that it has no body
// and no trailers. fields are field lines, see Request.Fields.
//
// A response that ends before the request does not end the stream: read on, or reset it with NoError (RFC 9113 8.1).
func (c *Conn) AppendResponse(dst []byte, id uint32, status int, fields []byte, end bool) ([]byte, error) {
	s, _ := c.find(id)
	if s == nil || s.headSent || c.role == Client {
		return dst, ErrStream
	}
	out, start := c.beginBlock(dst)
	out, size := appendFields(appendStatus(out, status), fields, false)
	out, err := c.endBlock(out, start, id, size+len(":status200")+32, end)
	if err == nil {
		s.headSent, s.ended = status >= 200, end
		c.closeEnded(id)
	}
	return out, err
}

// AppendTrailers appends trailers, which end what we send on the stream. fields are field lines.
func (c *Conn) AppendTrailers(dst []byte, id uint32, fields []byte) ([]byte, error) {
	s := c.sending(id)
	if s == nil {
		return dst, ErrStream
	}
	out, start := c.beginBlock(dst)
	out, size := appendFields(out, fields, false)
	out, err := c.endBlock(out, start, id, size, true)
	if err == nil {
		s.ended = true
		c.closeEnded(id)
	}
	return out, err
}

// sending returns the stream if its body may be sent, or nil.
func (c *Conn) sending(id uint32) *stream {
	if s, _ := c.find(id); s != nil && s.headSent && !s.ended {
		return s
	}
	return nil
}

// beginBlock appends room for what precedes the payload of a HEADERS frame, and returns where the frame begins.
func (c *Conn) beginBlock(dst []byte) (out []byte, start int) {
	dst = c.AppendControl(dst)
	start = len(dst)
	dst = appendFrame(dst, frame{})
	if !c.sizeUpdated {
		dst = append(dst, sizeUpdate)
	}
	return dst, start
}

// endBlock completes the HEADERS frame at dst[start:], whose fields have that size, and divides it if it is too large
// for one. If it has more fields than the peer accepts, it is removed.
func (c *Conn) endBlock(dst []byte, start int, id uint32, size int, end bool) ([]byte, error) {
	if size > c.peerListBytes {
		return dst[:start], ErrFieldsTooLarge
	}
	c.sizeUpdated = true
	c.earn(0)
	f := frame{kind: frameHeaders, id: id}
	if end {
		f.flags = flagEndStream
	}
	block := dst[start+frameHeadLen:]
	if len(block) > frameBytesMax {
		block = append([]byte(nil), block...) // the frames of its parts are written over it
	}
	for dst = dst[:start]; !f.has(flagEndHeaders); f.kind, f.flags = frameContinuation, f.flags&flagEndHeaders {
		if f.length = min(len(block), frameBytesMax); f.length == len(block) {
			f.flags |= flagEndHeaders
		}
		dst = append(appendFrame(dst, f), block[:f.length]...)
		block = block[f.length:]
	}
	return dst, nil
}

// earn allows the peer some frames in answer to one with that many bytes of data that is sent.
func (c *Conn) earn(data int) {
	c.earned = min(c.earned+controlEarned+uint16(2*(data/refreshBytes)), earnedMax)
}

// Room returns how many bytes of a body AppendData would append now, by the windows of the stream and of the
// connection (RFC 9113 5.2). It is 0 before the head is sent.
func (c *Conn) Room(id uint32) int {
	s := c.sending(id)
	if s == nil {
		return 0
	}
	return max(0, min(s.send, c.send))
}

// AppendData appends as much of p as there is room for, in DATA frames, and returns how much that is. With end, all
// of p is the end of what we send on the stream.
func (c *Conn) AppendData(dst []byte, id uint32, p []byte, end bool) (out []byte, n int) {
	s := c.sending(id)
	if s == nil {
		return dst, 0
	}
	dst = c.AppendControl(dst)
	n = max(0, min(len(p), s.send, c.send))
	end = end && n == len(p)
	for rest := p[:n]; len(rest) > 0 || end && !s.ended; {
		f := frame{length: min(len(rest), frameBytesMax), kind: frameData, id: id}
		if end && f.length == len(rest) {
			f.flags, s.ended = flagEndStream, true
		}
		dst = append(appendFrame(dst, f), rest[:f.length]...)
		rest = rest[f.length:]
		c.earn(f.length)
	}
	s.send -= n
	c.send -= n
	c.closeEnded(id)
	return dst, n
}

// AppendReset ends a stream in both directions with RST_STREAM (RFC 9113 6.4), or does nothing if it is not open.
func (c *Conn) AppendReset(dst []byte, id uint32, code Code) []byte {
	s, i := c.find(id)
	if s == nil {
		return dst
	}
	if !s.peerEnded {
		c.noteReset(id)
	}
	c.close(i)
	return appendWord(c.AppendControl(dst), frameReset, id, uint32(code))
}

// AppendGoAway appends GOAWAY (RFC 9113 6.8). The first one, without final, asks a client to open no more streams.
// After the final one those that it has opened meanwhile are ignored; Streams says when the others have ended and the
// connection can be closed.
func (c *Conn) AppendGoAway(dst []byte, final bool, code Code) []byte {
	if final {
		c.goAwayLast = c.accepted()
	}
	return appendGoAway(c.AppendControl(dst), c.goAwayLast, code, "")
}

// AppendPing appends a PING, whose answer is the event Pong (RFC 9113 6.7). A few may be unanswered.
func (c *Conn) AppendPing(dst []byte) []byte {
	if c.pings == pingsMax {
		return dst
	}
	c.pings++
	dst = appendFrame(c.AppendControl(dst), frame{length: 8, kind: framePing})
	return binary.BigEndian.AppendUint64(dst, uint64(c.now))
}
