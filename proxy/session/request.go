package session

import (
	"bytes"
	"math"
	"net/netip"
	"strconv"
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
	if isOwn(h.Path) && !s.env.Settings.OwnElsewhere {
		s.beginOwn(now)
		return 0
	}
	if s.answeredHere(now) {
		return 0
	}
	if h.Method == http1.OPTIONS && forwardsLeft(h) == 0 {
		return s.answerUnread(rest, func() { s.answerOptions(now) })
	}
	if !s.ask(now) {
		return 0
	}
	switch s.state {
	case stateDeciding, stateQueued:
		s.beginForward(now) // the head is gone when it goes on
		// Nothing is due of the body meanwhile, and the store has its own deadline.
		s.x.bodyBy, s.x.rateBy, s.deadline = time.Time{}, time.Time{}, time.Time{}
	case stateBody:
		s.beginForward(now)
		s.admitted(now)
	case stateReading:
		return s.refuse(now, rest)
	}
	return 0
}

// answeredHere answers a request that goes no further, whatever the limiter
// says, and closes.
func (s *Session) answeredHere(now time.Time) bool {
	h := &s.env.head
	switch {
	case h.Length > s.bodyMax():
		s.fail(now, 413, bodyTooLarge)
	case s.cameInCircle(h):
		s.fail(now, 508, "the request has passed this proxy before")
	case s.env.Overloaded != nil && s.env.Overloaded():
		s.fail(now, 503, "the proxy is short of memory")
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

// cameInCircle reports whether a Via field names this proxy (RFC 9110 section
// 7.6.3).
func (s *Session) cameInCircle(h *http1.Head) bool {
	for i := range h.Fields {
		if f := &h.Fields[i]; f.ID == http1.FieldVia && names(f.Value, s.env.Settings.Pseudonym) {
			return true
		}
	}
	return false
}

// names reports whether a Via field's value has the pseudonym as a word.
func names(via []byte, pseudonym string) bool {
	for len(via) > 0 {
		i := bytes.IndexAny(via, " \t,")
		if i < 0 {
			i = len(via)
		}
		if string(via[:i]) == pseudonym {
			return true
		}
		via = via[min(i+1, len(via)):]
	}
	return false
}

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
	if s.x.large {
		s.stream(now)
	}
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
	s.x.large = h.Length > s.env.Settings.BufferBytesMax
	asked := s.asksUpgrade(h)
	s.x.upgrade = string(asked)
	s.x.request = s.appendForward(s.env.take(), h)
	if s.x.upgrade != "" {
		s.x.replay = false
	}
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
	trusted := s.trusted()
	left := -1
	if h.Method == http1.OPTIONS {
		left = forwardsLeft(h)
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Hop || f.Odd || !trusted && claimsOrigin(f.ID) || f.ID == http1.FieldExpect || f.ID == http1.FieldMaxForwards && left > 0 {
			continue
		}
		dst = http1.AppendFieldLine(dst, *f)
	}
	if left > 0 {
		dst = http1.AppendFieldInt(dst, "Max-Forwards", int64(left-1))
	}
	dst = s.appendOrigin(dst, h, trusted)
	dst = s.appendVia(dst, h.Minor)
	if s.x.upgrade != "" {
		dst = append(dst, "Connection: upgrade\r\n"...)
		dst = http1.AppendFieldString(dst, "Upgrade", s.x.upgrade)
	}
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
func (s *Session) appendVia(dst []byte, minor int) []byte {
	dst = append(dst, "Via: 1."...)
	dst = append(dst, '0'+byte(minor), ' ')
	dst = append(dst, s.env.Settings.Pseudonym...)
	return append(dst, "\r\n"...)
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

func (s *Session) trusted() bool { return s.trusts(s.remote) }

func (s *Session) trusts(a netip.Addr) bool {
	for _, p := range s.env.Settings.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// client is the address of who made the request: the connection's, or behind
// trusted proxies the last one of X-Forwarded-For that is not theirs. What
// stands left of that, anybody may have written.
func (s *Session) client(h *http1.Head) netip.Addr {
	at := s.remote
	if !s.trusted() {
		return at
	}
	for i := len(h.Fields) - 1; i >= 0; i-- {
		f := &h.Fields[i]
		if f.ID != http1.FieldXForwardedFor {
			continue
		}
		for rest := f.Value; len(rest) > 0; {
			cut := bytes.LastIndexByte(rest, ',')
			a, err := netip.ParseAddr(string(bytes.TrimSpace(rest[cut+1:])))
			if err != nil {
				return at
			}
			if at = a.Unmap(); !s.trusts(at) {
				return at
			}
			rest = rest[:max(cut, 0)]
		}
	}
	return at
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
		proto := "http"
		if s.secure {
			proto = "https"
		}
		dst = http1.AppendFieldString(dst, "X-Forwarded-Proto", proto)
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
const bodyTooLarge = "the request body is larger than this proxy takes"

// bodyMax is the largest body that the request may have.
func (s *Session) bodyMax() int64 {
	if s.state == stateOwnBody {
		return ownBodyMax
	}
	if most := s.env.Settings.BodyBytesMax; most > 0 {
		return most
	}
	return math.MaxInt64
}
