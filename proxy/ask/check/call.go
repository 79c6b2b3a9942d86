package check

import (
	"encoding/binary"
	"fmt"
	"time"

	"weir/internal/data/protowire"
	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/proxy/rules/decide"
)

// A call is the further state of a Session whose request is a call of gRPC (gRPC, doc/PROTOCOL-HTTP2.md). The requests
// of all methods have one message.
type call struct {
	is         bool
	by         time.Time // when its caller stops waiting; zero: unknown
	compressed bool      // messages may be compressed
	watches    bool      // it is a call of Watch, whose answer has several messages
	shown      uint64    // the status in the last one
}

// reached reports whether its caller has stopped waiting.
func (c *call) reached(now time.Time) bool { return !c.by.IsZero() && !now.Before(c.by) }

// A GRPCCode is a status of gRPC.
type GRPCCode int

// Codes of calls. Further ones are in [decide.GRPCStatus].
const (
	codeOK               GRPCCode = 0
	codeInvalidArgument  GRPCCode = 3
	codeDeadlineExceeded GRPCCode = 4
	codeNotFound         GRPCCode = 5
	codeUnimplemented    GRPCCode = 12
	codeInternal         GRPCCode = 13
	codeUnavailable      GRPCCode = 14
	GRPCCodeCount                 = 17
)

// String returns the name in google/rpc/code.proto, or "" for codes with which no call ends here.
func (c GRPCCode) String() string {
	return [GRPCCodeCount]string{"OK", "", "", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "", "",
		"RESOURCE_EXHAUSTED", "", "", "", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "", "UNAUTHENTICATED"}[c]
}

// codeOf returns the code of a call that would be answered with a status of HTTP. Other than [decide.GRPCStatus], it
// knows that 400 is about the message, and 500 about the store.
func codeOf(status int) GRPCCode {
	switch status {
	case 400:
		return codeInvalidArgument
	case 411, 417:
		return codeInternal
	case 500:
		return codeUnavailable
	}
	return GRPCCode(decide.GRPCStatus(status))
}

// noticeCall notes whether the request with the head h is a call.
func (s *Session) noticeCall(now time.Time, h *http1.Head) {
	kind, _ := h.Value(http1.FieldContentType)
	if h.Method != http1.POST || decide.GRPCContentType(kind) == "" {
		return
	}
	s.call.is = true
	value, _ := h.Field("grpc-timeout")
	if timeout, given := decide.GRPCTimeout(value); given {
		s.call.by = now.Add(timeout)
	}
	value, _ = h.Field("grpc-encoding")
	s.call.compressed = len(value) > 0 && string(value) != "identity"
}

// callType is the Content-Type of the answers to calls.
const callType = "application/grpc"

// messageHead is the length of what precedes a message: whether it is compressed, and its length.
const messageHead = 5

// hasMessage reports whether the body is one message that is not compressed. Otherwise the call is answered.
func (s *Session) hasMessage(now time.Time) bool {
	switch n := len(s.body) - messageHead; {
	case s.route == routeNone:
		return true
	case n < 0:
		s.failCall(now, codeInternal, "the request must have one message, has none")
	case s.body[0] != 0 && s.call.compressed:
		s.env.extra = http1.AppendField(s.env.extra[:0], "Grpc-Accept-Encoding", "identity")
		s.endCall(now, codeUnimplemented, "the message must not be compressed", s.env.extra)
	case s.body[0] != 0:
		s.failCall(now, codeInternal, "the message must not be compressed without grpc-encoding")
	case int64(binary.BigEndian.Uint32(s.body[1:])) != int64(n):
		s.failCall(now, codeInternal, fmt.Sprintf("the request must have one message: %d bytes follow a head that says %d", n,
			binary.BigEndian.Uint32(s.body[1:])))
	default:
		return true
	}
	return false
}

// beginMessage returns dst with what precedes a message, for reply.
func beginMessage(dst []byte) []byte { return append(dst[:0], 0, 0, 0, 0, 0) }

// endMessage sets the length of a message begun by beginMessage.
func endMessage(b []byte) []byte {
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-messageHead))
	return b
}

// reply answers a call with the message in the Env's body, which beginMessage began.
func (s *Session) reply(now time.Time) {
	s.stream.trailers = "Grpc-Status: 0\r\n"
	s.respondCall(now, codeOK, http1.LocalResponse{Body: endMessage(s.env.body)})
}

// failCall answers a call with an error.
func (s *Session) failCall(now time.Time, code GRPCCode, message string) {
	s.endCall(now, code, message, nil)
}

// endCall answers a call with an error and further fields, which may be in the Env's extra.
func (s *Session) endCall(now time.Time, code GRPCCode, message string, fields []byte) {
	s.env.extra = decide.AppendGRPCStatus(append(s.env.extra[:0], fields...), int64(code), message)
	s.respondCall(now, code, http1.LocalResponse{Extra: s.env.extra})
}

func (s *Session) respondCall(now time.Time, code GRPCCode, a http1.LocalResponse) {
	s.env.Count(GRPC, int(code), s.protocol())
	a.Status, a.ContentType = 200, callType
	s.stream.conn.answer(now, s, a)
}

// The statuses of grpc.health.v1.HealthCheckResponse.
const (
	serving        = 1
	notServing     = 2
	serviceUnknown = 3
)

// serviceBytesMax bounds the name of a service in a call of gRPC's health service.
const serviceBytesMax = 1 << 10

// watchPause is the interval in which calls of Watch check for a change.
const watchPause = time.Second

// serviceHealth returns the health of the service that a call of gRPC's health service is about.
func (s *Session) serviceHealth() (status uint64, err error) {
	var name []byte
	m := protowire.Read(s.body[messageHead:])
	for m.Next() {
		if m.Tag == 1<<3|protowire.Bytes {
			name = m.Text("service")
		}
	}
	switch {
	case m.Err() != nil:
		return 0, m.Err()
	case len(name) > 0 && string(name) != "ratelimit":
		return serviceUnknown, nil
	}
	return s.nowServing(), nil
}

func (s *Session) nowServing() uint64 {
	if s.env.Healthy() {
		return serving
	}
	return notServing
}

// appendHealth sets the Env's body to a message with that status.
func (s *Session) appendHealth(status uint64) {
	s.env.body = endMessage(protowire.AppendNumber(beginMessage(s.env.body), 1, status))
}

// checkHealth answers grpc.health.v1.Health/Check.
func (s *Session) checkHealth(now time.Time) {
	switch status, err := s.serviceHealth(); {
	case err != nil:
		s.faulty(now, err)
	case status == serviceUnknown:
		s.failCall(now, codeNotFound, `the service must be "ratelimit" or empty`)
	default:
		s.appendHealth(status)
		s.reply(now)
	}
}

// watchHealth begins to answer grpc.health.v1.Health/Watch.
func (s *Session) watchHealth(now time.Time) {
	status, err := s.serviceHealth()
	if err != nil {
		s.faulty(now, err)
		return
	}
	e, m := s.env, s.stream.conn
	e.fields = http1.AppendField(e.fields[:0], "Content-Type", callType)
	if e.Out, err = m.http2.AppendResponse(e.Out, s.stream.id, 200, e.fields, false); err != nil {
		m.reset(s, http2.InternalError)
		return
	}
	s.releaseBody()
	s.stream.answered, s.call.watches = true, true
	s.cycle.Wait()
	s.sendHealth(now, status)
}

// watch sends the health to a call of Watch if it has changed, or ends the call.
func (s *Session) watch(now time.Time) {
	switch {
	case s.call.reached(now):
		s.endWatch(now, codeDeadlineExceeded)
	case s.call.shown == serviceUnknown:
		s.sendHealth(now, serviceUnknown)
	default:
		s.sendHealth(now, s.nowServing())
	}
}

// sendHealth sends a status unless it was the last one sent. While that one waits for room, it sends none.
func (s *Session) sendHealth(now time.Time, status uint64) {
	if len(s.stream.left()) > 0 || s.stream.complete {
		return
	}
	s.cycle.Until = cycle.Earlier(now.Add(watchPause), s.call.by)
	if status != s.call.shown {
		s.call.shown = status
		s.appendHealth(status)
		s.stream.conn.write(now, s, s.env.body, false)
	}
}

// endWatch ends a call of Watch.
func (s *Session) endWatch(now time.Time, code GRPCCode) {
	s.call.watches = false
	s.stream.trailers = string(decide.AppendGRPCStatus(nil, int64(code), "the connection or the time of the call ends"))
	s.env.Count(GRPC, int(code), s.protocol())
	s.stream.conn.write(now, s, nil, true)
}
