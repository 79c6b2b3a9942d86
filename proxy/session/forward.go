package session

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"weir/internal/http1"
)

// handleHead is told that env.head holds a request; rest are the bytes behind
// it. It returns how many of those it has used up.
func (s *Session) handleHead(now time.Time, rest []byte) int {
	h := &s.env.head
	s.x.outcome = Outcome{Method: h.Method, Began: s.began, Spent: s.spend(now)}
	s.keepRequestID(h)
	s.x.minor = h.Minor
	s.x.keepAlive = h.KeepAlive && !s.drain && !s.x.outcome.Spent
	s.x.expects = h.Expect == http1.ExpectContinue && h.Framing != http1.BodyNone
	if own := s.env.Settings.isOwn(h.Path); own {
		s.x.outcome.Own = true
	} else if s.env.Noticed != nil {
		s.env.Noticed(s, h, s.client(h))
	}
	if err := h.Check(); err != nil {
		s.malformed(now, err)
		return 0
	}
	if s.x.outcome.Own {
		s.beginOwn(now)
		return 0
	}
	s.keepOrigin(h)
	if s.answeredHere(now) {
		return 0
	}
	if h.Method == http1.OPTIONS && forwardsLeft(h) == 0 {
		return s.answerUnread(rest, func() { s.answerOptions(now) })
	}
	s.disbelieve(h)
	if !s.ask(now) {
		return 0
	}
	switch s.x.request {
	case requestAsked, requestQueued:
		s.beginForward(now) // the head is gone when it goes on
		// Nothing is due of the body meanwhile, and the store has its own deadline.
		s.x.bodyBy, s.x.rateBy, s.deadline = time.Time{}, time.Time{}, time.Time{}
	case requestCollecting:
		s.beginForward(now)
		s.admitted(now)
	case requestRefused:
		return s.refuse(now, rest)
	}
	return 0
}

// answeredHere answers a request that goes no further, whatever the limiter
// says, and closes.
func (s *Session) answeredHere(now time.Time) bool {
	h := &s.env.head
	switch {
	case s.env.Settings.NoTargets:
		s.fail(now, 404, "nothing is forwarded here")
	case h.Length > s.bodyMax():
		s.fail(now, 413, bodyTooLarge)
	case s.cameInCircle(h):
		s.fail(now, 508, "the request has passed this proxy before")
	case s.overloaded():
		s.fail(now, 503, shortOfMemory)
	default:
		return false
	}
	return true
}

// answerOptions answers OPTIONS as its last recipient.
func (s *Session) answerOptions(now time.Time) {
	extra := append(s.env.appendDate(s.env.extra[:0], now), allow...)
	s.finish(now, http1.Answer{Status: 200, Extra: extra})
}

// allow is the field of a 405 and of the answer to OPTIONS.
const allow = "Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS\r\n"

// forwardsLeft is the Max-Forwards of h, -1 without a proper one (RFC 9110
// section 7.6.2).
func forwardsLeft(h *http1.Head) int {
	v, ok := h.Value(http1.FieldMaxForwards)
	if !ok || len(v) > 9 {
		return -1
	}
	n, err := strconv.ParseUint(string(v), 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// admitted goes on with a request that may pass: a body that is known to be
// larger than what is collected is streamed from the start.
func (s *Session) admitted(now time.Time) {
	s.continueBody()
	if s.x.length > s.env.Settings.BufferBytesMax {
		s.stream(now)
	}
}

// isOwn reports whether the proxy answers this path itself.
func (set *Settings) isOwn(path []byte) bool {
	if len(path) < 2 {
		return false
	}
	if set.OwnElsewhere {
		return set.HealthHere && (string(path) == "/actuator/health" || string(path) == "/actuator/health/readiness")
	}
	switch path[1] {
	case 'm':
		return string(path) == "/metrics"
	case 'r':
		return string(path) == "/reload"
	case 'c':
		return bytes.HasPrefix(path, []byte("/config/"))
	case 'a':
		return bytes.HasPrefix(path, []byte("/actuator/"))
	}
	return false
}

// beginForward appends the head for the target. The body, if there is one, is
// appended behind it as it arrives.
func (s *Session) beginForward(now time.Time) {
	h := &s.env.head
	bodyless := h.Framing == http1.BodyNone || h.Framing == http1.BodyLength && h.Length == 0
	s.x.upgrade, s.x.length = string(s.asksUpgrade(h)), h.Length
	if bodyless && h.Method.Idempotent() && s.x.upgrade == "" {
		s.x.replay = replayOnce
	}
	if h.Framing == http1.BodyChunked {
		s.x.chunked = codingChunks
	}
	s.x.forward = s.appendForward(s.env.take(), h)
	s.awaitBody(now)
}

// continueBody says 100 when the client waits for it (RFC 9110 section
// 10.1.1): the request was admitted.
func (s *Session) continueBody() {
	if s.x.expects {
		s.env.out = append(s.env.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
	}
}

// appendForward appends h as it goes to the target: what belongs to the
// client's connection is left out, what the proxy knows is put in (RFC 9110
// section 7.6; X-Forwarded-* as every proxy has them).
func (s *Session) appendForward(dst []byte, h *http1.Head) []byte {
	dst = http1.AppendForwardLine(dst, h)
	set := s.env.Settings
	if set.PreserveHost && len(h.Host) > 0 {
		dst = http1.AppendField(dst, "Host", h.Host)
	} else {
		s.x.hostAt = len(dst) // who the target is will be known then
	}
	trusted, left := s.trusted(), -1
	if h.Method == http1.OPTIONS {
		left = forwardsLeft(h)
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		if s.withheld(f, trusted) || s.replacesID(f) || f.ID == http1.FieldExpect || f.ID == http1.FieldMaxForwards && left > 0 {
			continue
		}
		s.noticeLogin(f)
		dst = http1.AppendFieldLine(dst, *f)
	}
	if left > 0 {
		dst = http1.AppendFieldInt(dst, "Max-Forwards", int64(left-1))
	}
	dst = s.appendOrigin(dst, h, trusted)
	dst = s.appendPassage(s.appendRequestID(dst), h.Minor)
	if s.x.upgrade != "" {
		dst = append(dst, "Connection: upgrade\r\n"...)
		dst = http1.AppendFieldString(dst, "Upgrade", s.x.upgrade)
	}
	switch {
	case s.x.chunked == codingChunks:
		dst = http1.AppendFieldString(dst, "Transfer-Encoding", "chunked")
	case h.Length >= 0:
		dst = http1.AppendFieldInt(dst, "Content-Length", h.Length)
	}
	return http1.AppendHeadEnd(dst)
}

// shortOfMemory is what the 503 of an overloaded proxy says.
const shortOfMemory = "the proxy is short of memory"

// overloaded reports that requests are to be shed.
func (s *Session) overloaded() bool { return s.env.Overloaded != nil && s.env.Overloaded.Load() }

// bodyTooLarge is what a 413 says.
const bodyTooLarge = "the request body is larger than this proxy takes"

// bodyMax is the largest body that the request may have.
func (s *Session) bodyMax() int64 {
	if s.x.own {
		return s.env.Settings.OwnBytesMax
	}
	if most := s.env.Settings.BodyBytesMax; most > 0 {
		return most
	}
	return math.MaxInt64
}
