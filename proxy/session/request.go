package session

import (
	"bytes"
	"net/netip"
	"time"

	"weir/internal/http1"
)

// ownBodyMax bounds the body of a request to an own endpoint.
const ownBodyMax = 1 << 20

// handleHead is told that env.head holds a request; rest are the bytes behind
// it. It returns how many of those it has used up.
func (s *Session) handleHead(now time.Time, rest []byte) int {
	h := &s.env.head
	s.x.outcome = Outcome{Method: h.Method, Began: s.began}
	s.x.minor = h.Minor
	s.x.keepAlive = h.KeepAlive && !s.drain
	s.x.expects = h.Expect == http1.ExpectContinue && h.Framing != http1.BodyNone
	if err := h.Check(); err != nil {
		s.malformed(now, err)
		return 0
	}
	if isOwn(h.Path) {
		s.beginOwn(now)
		return 0
	}
	if h.Length > s.bodyMax() {
		s.fail(now, 413, bodyTooLarge)
		return 0
	}
	s.ask(now)
	switch s.state {
	case stateDeciding:
		s.beginForward(now)      // the head is gone when the answer comes
		s.deadline = time.Time{} // the store has its own
	case stateBody:
		s.beginForward(now)
		s.continueBody()
	case stateReading:
		return s.refuse(now, rest)
	}
	return 0
}

// isOwn reports whether the proxy answers this path itself.
func isOwn(path []byte) bool {
	if len(path) < 2 {
		return false
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
	s.x.replay = bodyless && h.Method.Idempotent()
	s.x.chunked = h.Framing == http1.BodyChunked
	s.x.request = s.appendForward(s.env.take(), h)
	s.deadline = now.Add(s.env.Settings.BodyTimeout)
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
		dst = http1.AppendFieldString(dst, "Host", set.TargetHost)
	}
	trusted := s.trusted()
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Hop || !trusted && claimsOrigin(f.ID) || f.ID == http1.FieldExpect {
			continue
		}
		dst = http1.AppendFieldLine(dst, *f)
	}
	dst = s.appendOrigin(dst, h, trusted)
	dst = appendVia(dst, h.Minor)
	switch {
	case s.x.chunked:
		dst = http1.AppendFieldString(dst, "Transfer-Encoding", "chunked")
	case h.Length >= 0:
		dst = http1.AppendFieldInt(dst, "Content-Length", h.Length)
	}
	return http1.AppendHeadEnd(dst)
}

// appendVia appends the proxy's own Via: it received HTTP/1.minor (RFC 9110
// section 7.6.3).
func appendVia(dst []byte, minor int) []byte {
	dst = append(dst, "Via: 1."...)
	dst = append(dst, '0'+byte(minor))
	return append(dst, " weir\r\n"...)
}

// claimsOrigin reports whether a field says where a request came from: only a
// trusted proxy is believed.
func claimsOrigin(id http1.FieldID) bool {
	switch id {
	case http1.FieldForwarded, http1.FieldXForwardedFor, http1.FieldXForwardedHost,
		http1.FieldXForwardedProto, http1.FieldXRealIP, http1.FieldTrueClientIP:
		return true
	}
	return false
}

func (s *Session) trusted() bool {
	for _, p := range s.env.Settings.TrustedProxies {
		if p.Contains(s.remote) {
			return true
		}
	}
	return false
}

// appendOrigin appends the X-Forwarded fields. Behind a trusted proxy the
// client's address is one more line of the list; what that proxy said about
// protocol and host stands.
func (s *Session) appendOrigin(dst []byte, h *http1.Head, trusted bool) []byte {
	dst = append(dst, "X-Forwarded-For: "...)
	dst = appendAddr(dst, s.remote)
	dst = append(dst, "\r\n"...)
	said := func(id http1.FieldID) bool {
		_, there := h.Value(id)
		return trusted && there
	}
	if !said(http1.FieldXForwardedProto) {
		dst = append(dst, "X-Forwarded-Proto: http\r\n"...)
	}
	if len(h.Host) > 0 && !said(http1.FieldXForwardedHost) {
		dst = http1.AppendField(dst, "X-Forwarded-Host", h.Host)
	}
	return dst
}

func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, "unknown"...)
	}
	return a.AppendTo(dst)
}

// bodyTooLarge is what a 413 says.
const bodyTooLarge = "the request body is larger than this proxy buffers"

// bodyMax is the largest body that the request may have.
func (s *Session) bodyMax() int64 {
	set := s.env.Settings
	switch {
	case s.state == stateOwnBody:
		return ownBodyMax
	case set.BodyBytesMax > 0:
		return min(set.BodyBytesMax, set.BufferBytesMax)
	}
	return set.BufferBytesMax
}

// handleBody is told of a piece of the request's body.
func (s *Session) handleBody(now time.Time, p []byte) {
	s.x.collected += int64(len(p))
	if s.x.collected > s.bodyMax() {
		s.fail(now, 413, bodyTooLarge)
		return
	}
	s.deadline = now.Add(s.env.Settings.BodyTimeout)
	if s.x.chunked {
		s.x.request = http1.AppendChunk(s.x.request, p)
		return
	}
	s.x.request = append(s.x.request, p...)
}

// handleBodyEnd is told that the request is complete.
func (s *Session) handleBodyEnd(now time.Time) {
	if s.state == stateOwnBody {
		s.endOwn(now)
		return
	}
	if s.x.chunked {
		s.x.request = http1.AppendLastChunk(s.x.request)
	}
	s.acquire(now, AcquireAny)
}
