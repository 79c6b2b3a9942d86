package session

import (
	"errors"
	"io"
	"time"

	"weir/internal/http1"
)

// acquire wants a connection to a target for the collected request.
func (s *Session) acquire(now time.Time, how Acquire) {
	s.state = stateAcquiring
	s.fx.Acquire = how
	s.deadline = now.Add(s.env.Settings.TargetTimeout)
}

// HandleAcquired is told that a connection to a target is the session's.
// reused says that it has served before. It reports whether the session still
// wants it; otherwise the owner keeps it.
func (s *Session) HandleAcquired(now time.Time, reused bool) bool {
	if s.state != stateAcquiring {
		return false
	}
	s.state = stateAwaiting
	s.x.held, s.x.reused = true, reused
	s.x.outcome.Sent = now
	s.x.answer = http1.NewResponseReader(&s.env.Settings.ResponseHead)
	s.x.answer.ResponseTo(s.x.outcome.Method)
	s.x.begun, s.x.headDone = false, false
	s.fx.Upstream = s.x.request
	return true
}

// HandleUnavailable is told that there is no connection to a target. Another
// one is tried, if there is one.
func (s *Session) HandleUnavailable(now time.Time, why Fault) {
	if s.state != stateAcquiring {
		return
	}
	s.begin()
	connecting := why == FaultRefused || why == FaultConnect || why == FaultConnectTime
	if connecting && s.env.Settings.Targets > 1 && !s.x.outcome.Retried {
		s.x.outcome.Retried = true // nothing was sent: any request may go elsewhere
		s.acquire(now, AcquireOther)
		return
	}
	s.fault(now, why)
}

// HandleUpstream is told of bytes from the target's connection held, and
// returns how many of them are the answer's. What goes beyond cannot be
// trusted: the connection is discarded.
func (s *Session) HandleUpstream(now time.Time, b []byte) int {
	if s.state != stateAwaiting {
		return 0
	}
	s.begin()
	s.x.begun = true
	mark := len(s.env.out)
	n := 0
	for {
		ev, err := s.x.answer.Next(b[n:], &s.env.response)
		if err != nil {
			s.env.out = s.env.out[:mark]
			s.fault(now, FaultGarbled)
			return n
		}
		n += ev.N
		switch ev.Kind {
		case http1.NeedMore:
			s.keep(mark)
			return n
		case http1.HeadDone:
			mark = s.handleAnswerHead(now, mark)
		case http1.Data:
			s.handleAnswerBody(ev.Data)
		case http1.End:
			s.answered(now, n == len(b))
			return n
		case http1.Upgraded: // never asked for: Upgrade is not forwarded
			s.env.out = s.env.out[:mark]
			s.fault(now, FaultGarbled)
			return n
		}
		if s.x.collecting > s.env.Settings.BufferBytesMax {
			s.env.out = s.env.out[:mark]
			s.fault(now, FaultTooLarge)
			return n
		}
	}
}

// keep moves what has been collected of the answer out of the loop's buffer. The
// rest of it is collected where it is then.
func (s *Session) keep(mark int) {
	if s.x.response != nil || len(s.env.out) == mark {
		return
	}
	s.x.response = append(s.env.take(), s.env.out[mark:]...)
	s.env.out = s.env.out[:mark]
}

// collected is where the answer is collected: in the loop's buffer as long as
// it may be complete within one call, then in one of its own.
func (s *Session) collected() *[]byte {
	if s.x.response != nil {
		return &s.x.response
	}
	return &s.env.out
}

// handleAnswerHead appends the head in env.response as it goes to the client,
// and returns from where the loop's buffer holds the final answer: an interim
// one before it goes out at once (RFC 9110 section 15.2).
func (s *Session) handleAnswerHead(now time.Time, mark int) int {
	h := &s.env.response
	if h.Status < 200 {
		if h.Status == 100 || h.Status == 101 || s.x.minor == 0 {
			return mark // 100 is the proxy's own business, 101 was not asked for
		}
		s.env.out = s.appendAnswerHead(now, s.env.out, h)
		s.env.out = http1.AppendHeadEnd(s.env.out)
		return len(s.env.out)
	}
	s.x.headDone = true
	s.x.status = h.Status
	s.x.canReuse = h.KeepAlive
	out := s.appendAnswerHead(now, s.env.out, h)
	out = s.appendLimits(out)
	switch {
	case h.Framing == http1.BodyChunked || h.Framing == http1.BodyUntilClose:
		s.x.rechunk = s.x.minor > 0
		s.x.mustClose = s.x.minor == 0
		if s.x.rechunk {
			out = http1.AppendFieldString(out, "Transfer-Encoding", "chunked")
		}
	case h.Length >= 0:
		out = http1.AppendFieldInt(out, "Content-Length", h.Length)
		if h.Framing == http1.BodyLength && h.Length > s.env.Settings.BufferBytesMax {
			s.x.collecting = h.Length // too large before it has come
		}
	}
	switch {
	case !s.x.keepAlive || s.x.mustClose:
		out = http1.AppendFieldString(out, "Connection", "close")
	case s.x.minor == 0:
		out = http1.AppendFieldString(out, "Connection", "keep-alive")
	}
	s.env.out = http1.AppendHeadEnd(out)
	return mark
}

// appendAnswerHead appends status line and fields without framing.
func (s *Session) appendAnswerHead(now time.Time, dst []byte, h *http1.Head) []byte {
	dst = http1.AppendStatusLineReason(dst, h.Status, h.Reason)
	dated := h.Status < 200
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Hop || f.ID == http1.FieldOther && s.replaces(f.Name) {
			continue
		}
		dated = dated || f.ID == http1.FieldDate
		dst = http1.AppendFieldLine(dst, *f)
	}
	if !dated { // RFC 9110 section 6.6.1
		dst = s.env.appendDate(dst, now)
	}
	return appendVia(dst, h.Minor)
}

// replaces reports whether a target's field has the name of one that the proxy
// sets: two of them would contradict each other.
func (s *Session) replaces(name []byte) bool {
	set := s.env.Settings
	switch len(name) {
	case len("RateLimit"), len("RateLimit-Policy"):
		return set.StandardFields && (equalFold(name, "ratelimit") || equalFold(name, "ratelimit-policy"))
	case len("X-RateLimit-Limit"), len("X-RateLimit-Remaining"):
		return set.LegacyFields && (equalFold(name, "x-ratelimit-limit") || equalFold(name, "x-ratelimit-remaining"))
	}
	return false
}

// equalFold compares a field name with a lower-case one.
func equalFold(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func (s *Session) handleAnswerBody(p []byte) {
	s.x.collecting += int64(len(p))
	to := s.collected()
	if s.x.rechunk {
		*to = http1.AppendChunk(*to, p)
		return
	}
	*to = append(*to, p...)
}

// answered is told that the answer is complete; clean says that nothing came
// behind it.
func (s *Session) answered(now time.Time, clean bool) {
	s.env.out = append(s.env.out, s.x.response...)
	if s.x.rechunk {
		s.env.out = http1.AppendLastChunk(s.env.out)
	}
	s.fx.Release = ReleaseDiscard
	if s.x.canReuse && clean {
		s.fx.Release = ReleaseKeep
	}
	s.x.held = false
	s.ended(now, s.x.status)
}

// HandleUpstreamClosed is told that the target's connection held is gone. The
// close is the end of an answer without a length; before the first byte of an
// answer on a connection that had served before it means that the target had
// closed the idle connection when the request arrived: that is tried once more
// (RFC 9112 section 9.3.1).
func (s *Session) HandleUpstreamClosed(now time.Time, err error) {
	if s.state != stateAwaiting {
		return
	}
	s.begin()
	s.x.held = false
	if s.x.reused && !s.x.begun && s.x.replay && !s.x.outcome.Retried {
		s.x.outcome.Retried = true
		s.acquire(now, AcquireFresh)
		return
	}
	if s.x.headDone && errors.Is(err, io.EOF) {
		if ev, err := s.x.answer.EOF(); err == nil && ev.Kind == http1.End {
			s.answered(now, false)
			s.fx.Release = ReleaseNone
			return
		}
	}
	s.fault(now, FaultClosed)
}

// fault answers for a target that did not. Nothing of its answer has been
// sent: it was collected first.
func (s *Session) fault(now time.Time, why Fault) {
	s.x.outcome.Fault = why
	if s.x.held {
		s.fx.Release = ReleaseDiscard
		s.x.held = false
	}
	status, reason := why.answer()
	s.answerError(now, status, reason)
}

// answer is what the client is told about a fault.
func (f Fault) answer() (status int, reason string) {
	switch f {
	case FaultRefused:
		return 502, "the target refuses connections"
	case FaultConnect:
		return 502, "the target cannot be reached"
	case FaultConnectTime:
		return 504, "the target did not accept a connection in time"
	case FaultBusy:
		return 503, "all connections to the target are taken"
	case FaultTimeout:
		return 504, "the target did not answer in time"
	case FaultGarbled:
		return 502, "the target's answer is not proper HTTP"
	case FaultTooLarge:
		return 502, "the target's answer is larger than this proxy buffers"
	}
	return 502, "the target closed the connection before its answer was complete"
}
