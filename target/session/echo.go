package session

import (
	"encoding/binary"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// The status codes of gRPC that an echo ends with.
const (
	grpcOK                = 0
	grpcResourceExhausted = 8
	grpcUnimplemented     = 12
	grpcInternal          = 13
	grpcUnavailable       = 14
)

const (
	messageHeadLen = 5 // whether the message is compressed, and its length
	// messageBytesMax bounds a message, without its head; beyond: RESOURCE_EXHAUSTED. Besides it an echo
	// keeps no more than a stream's window.
	messageBytesMax = 1 << 20
	grpcType        = "application/grpc"
)

// An echo is a gRPC call whose messages are sent back as they are. Each message is a request to the
// service; if that fails the call does. The next message waits until the client has made room for the last
// one.
//
// Owned by its loop.
type echo struct {
	unary     bool   // the call has one message, which is answered when the call is complete
	in        []byte // received, and not sent back
	held      int    // of that, in bytes, for which the client was not credited
	received  bool   // the client sends no more
	asked     int    // size of the message that the service was asked about, with its head
	answering bool   // the head of the response was sent
}

// next continues the call with what was received.
func (s *Stream) next(now time.Time) {
	e := s.echo
	if s.await != AwaitNone || len(s.unsent) > 0 {
		return
	}
	size, code := e.message()
	switch {
	case code != grpcOK:
		s.abort(now, code)
	case size > 0 && e.unary && !e.received: // wait for the end
	case size > 0:
		if e.answering {
			s.began = now
		}
		e.asked = size
		s.askFor(AwaitService)
	case !e.received:
		s.conn.http2.Consumed(s.id, e.held)
		e.held = 0
	case len(e.in) > 0 || e.unary && !e.answering:
		s.abort(now, grpcInternal) // part of a message, or none
	default:
		s.hangUp(now, grpcOK)
	}
}

// message returns the size of the first message with its head, 0 if it is not complete, or the status code
// that refuses it.
func (e *echo) message() (size, code int) {
	if len(e.in) < messageHeadLen {
		return 0, grpcOK
	}
	n := int(binary.BigEndian.Uint32(e.in[1:]))
	switch {
	case e.in[0] != 0:
		return 0, grpcUnimplemented // compression
	case n > messageBytesMax:
		return 0, grpcResourceExhausted
	case len(e.in) < messageHeadLen+n:
		return 0, grpcOK
	case e.unary && (len(e.in) > messageHeadLen+n || e.answering):
		return 0, grpcInternal // a second message
	}
	return messageHeadLen + n, grpcOK
}

// answerMessage sends the message back, or ends the call because the service failed.
func (s *Stream) answerMessage(now time.Time, status int) {
	s.count(now, status)
	e := s.echo
	switch {
	case status == 500:
		s.hangUp(now, grpcInternal)
	case status == 503:
		s.hangUp(now, grpcUnavailable)
	case e.answering || s.respond(200, s.callFields(now), false):
		e.answering = true
		s.send(e.in[:e.asked])
		e.in = append(e.in[:0], e.in[e.asked:]...)
		s.next(now)
	}
}

// abort ends a call that has sent something invalid.
func (s *Stream) abort(now time.Time, code int) {
	s.count(now, 400)
	s.hangUp(now, code)
}

// hangUp ends the call with a status code.
func (s *Stream) hangUp(now time.Time, code int) {
	c := s.conn
	if !s.echo.answering {
		s.respond(200, http1.AppendFieldInt(s.callFields(now), "Grpc-Status", int64(code)), true)
		return
	}
	c.sh.extra = http1.AppendFieldInt(c.sh.extra[:0], "Grpc-Status", int64(code))
	var err error
	if c.sh.Out, err = c.http2.AppendTrailers(c.sh.Out, s.id, c.sh.extra); err != nil {
		c.sh.Out = c.http2.AppendReset(c.sh.Out, s.id, http2.InternalError)
	}
	s.end()
}

// callFields returns the fields that responses to calls begin with.
func (s *Stream) callFields(now time.Time) []byte {
	sh := s.conn.sh
	sh.extra = http1.AppendField(sh.extra[:0], "Content-Type", grpcType)
	sh.extra = append(sh.extra, sh.date(now)...)
	return sh.extra
}
