package session

import (
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/refusal"
)

// malformed answers what cannot be read as a request, or must not be passed
// on. Where the next request begins is unknown, so the connection closes.
func (s *Session) malformed(now time.Time, err error) {
	reason := "the request is malformed"
	if e, ok := err.(*http1.Error); ok {
		reason = e.Reason
	}
	s.fail(now, http1.StatusOf(err), reason)
}

// fail answers with an error of the proxy's own and closes: something of the
// request may be unread.
func (s *Session) fail(now time.Time, status int, reason string) {
	s.letGo(ReleaseDiscard)
	if s.x.answer == answerRelaying {
		s.abort()
		return
	}
	s.x.keepAlive = false
	s.x.outcome.Began, s.x.outcome.Relayed = s.began, false
	s.answerError(now, status, reason)
	s.fx.Close = CloseLinger
}

// abort ends an exchange whose answer has begun and cannot be completed: the
// client must notice (RFC 9112 section 8). A body that the close would end as
// if it were whole is reset.
func (s *Session) abort() {
	how := CloseDrained
	if s.x.coding == codingClose {
		how = CloseAbort
	}
	s.x.answer.become(answerDone)
	s.x.outcome.Status = s.x.status
	s.report()
	s.over()
	s.close(how)
}

// answerError answers with a small JSON body. It never repeats bytes of client
// or target.
func (s *Session) answerError(now time.Time, status int, reason string) {
	body := append(s.env.body[:0], `{"error":"`...)
	body = append(body, reason...)
	extra := s.env.appendDate(s.env.extra[:0], now)
	if status == 503 {
		extra = http1.AppendFieldInt(extra, "Retry-After", wholeSeconds(s.x.retryAfter))
		extra = s.appendCORS(extra)
	}
	if id := s.env.shed; id != nil {
		s.x.outcome.ID = id
		extra = http1.AppendField(extra, decisionField, id)
		body = append(body, `","reason":"gate","retryAfter":`...)
		body = strconv.AppendInt(body, wholeSeconds(s.x.retryAfter), 10)
		body = append(body, `,"decision":"`...)
		body = append(body, id...)
	}
	body = append(body, "\"}\n"...)
	s.env.body = body
	if status == 405 {
		extra = append(extra, allow...)
	}
	if s.x.outcome.Decision == Forwarded {
		extra = s.appendLimits(extra)
	}
	s.env.extra = extra
	a := http1.Answer{Status: status, ContentType: "application/json", Body: body, Extra: extra}
	if status == 503 {
		s.dress(&a, nil, &refusal.Values{Error: reason, RetryAfter: wholeSeconds(s.x.retryAfter), Decision: s.env.shed})
	}
	s.finish(now, a)
}

// finish sends an answer of our own and ends the exchange.
func (s *Session) finish(now time.Time, a http1.Answer) {
	a.Head = s.x.outcome.Method == http1.HEAD
	a.Close = !s.x.keepAlive
	if s.env.Settings.RequestID {
		if s.x.outcome.RequestID == nil { // no head was read
			s.x.outcome.RequestID = s.env.NewRequestID(s.env.take())
		}
		a.Extra = s.appendRequestID(a.Extra)
		s.env.extra = a.Extra
	}
	s.x.outcome.Bytes = int64(len(a.Body))
	if a.Head {
		s.x.outcome.Bytes = 0
	}
	if s.x.keepAlive && s.x.minor == 0 {
		a.Extra = append(a.Extra, "Connection: keep-alive\r\n"...)
		s.env.extra = a.Extra
	}
	s.env.out = http1.AppendAnswer(s.env.out, a)
	s.ended(now, a.Status)
}

// ended closes the books on the exchange; the connection goes on or closes.
func (s *Session) ended(now time.Time, status int) {
	s.x.answer.become(answerDone)
	s.x.outcome.Status = status
	s.report()
	keepAlive := s.x.keepAlive && s.x.coding != codingClose
	s.over()
	if !keepAlive {
		// Bytes that the client has sent meanwhile must not reset the
		// connection under the answer (RFC 9112 section 9.6).
		s.close(CloseLinger)
		return
	}
	s.rest(now)
}

// fault answers for a target that did not. Where its answer has begun to be
// passed on the client must notice instead.
func (s *Session) fault(now time.Time, why Fault) {
	s.x.outcome.Fault = why
	status, reason := why.answer()
	if s.x.answer == answerRelaying || s.x.request == requestStreaming {
		s.fail(now, status, reason) // some of the request is unread
		return
	}
	s.letGo(ReleaseDiscard)
	s.x.outcome.Relayed = false
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
	case FaultGate:
		return 503, "the target is overloaded"
	case FaultStreams:
		return 503, "all connections to the target that may carry tunnels and streams are taken"
	case FaultTimeout:
		return 504, "the target did not answer in time"
	case FaultGarbled:
		return 502, "the target's answer is not proper HTTP"
	case FaultNoTarget:
		return 503, "no target can be reached"
	}
	return 502, "the target closed the connection before its answer was complete"
}
