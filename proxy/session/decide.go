package session

import (
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// ask has the limiter decide about the request in env.head. Afterwards the
// state is stateBody when it may pass, stateReading when it was refused and is
// to be answered, stateDeciding when the answer comes later.
func (s *Session) ask(now time.Time) {
	e := s.env
	p := e.Policy()
	s.x.limits = verdict{policy: p, algo: p.Limit.Algorithm()}
	e.ask.N = 1
	e.ask.Counters = append(e.ask.Counters[:0], store.Counter{Rule: p.Rule, Limit: &p.Limit, Cost: 1})
	s.state = stateDeciding
	if e.Ask(now, s, &e.ask, &e.answer) {
		s.decided(&e.answer)
	}
}

// decided notes the store's answer.
func (s *Session) decided(ans *store.Answer) {
	v := &s.x.limits
	v.known = ans.Mode == store.Exact || ans.Mode == store.Cached || ans.Mode == store.Local
	v.closed = ans.Mode == store.Closed
	v.allowed = ans.Granted > 0
	if len(ans.Decisions) > 0 {
		v.state = ans.Decisions[ans.Tightest]
	}
	o := &s.x.outcome
	o.Rule, o.Algorithm = v.policy.Rule, v.algo
	if v.allowed {
		o.Decision = Forwarded
		s.state = stateBody
		return
	}
	o.Decision = Rejected
	s.state = stateReading
}

// HandleAnswer is told the store's answer that Env.Ask could not give at once.
// It does nothing when the client has gone. The owner shows the unread bytes
// again afterwards.
func (s *Session) HandleAnswer(now time.Time, ans *store.Answer) {
	if s.state != stateDeciding {
		return
	}
	s.begin()
	s.decided(ans)
	if s.state == stateReading {
		s.refuse(now, nil)
		return
	}
	s.awaitBody(now)
	s.admitted(now)
	s.read(now, nil) // a request without a body is complete
}

// refuse answers 429, or 503 when the store is away and the mode is closed.
// rest are the bytes behind the head; it returns how many of them were the
// body's.
func (s *Session) refuse(now time.Time, rest []byte) int {
	return s.answerUnread(rest, func() {
		if s.x.limits.closed {
			s.answerError(now, 503, "the rate limiter's store is away")
		} else {
			s.answerRefused(now)
		}
	})
}

// answerUnread has a request answered whose body is not wanted. When the whole
// body is among rest, the bytes behind the head, the connection goes on behind
// it; else it closes with the body unread. It returns how many bytes were the
// body's.
func (s *Session) answerUnread(rest []byte, answer func()) int {
	n, whole := s.skipBody(rest)
	if !whole {
		s.x.keepAlive = false
	}
	answer()
	return n
}

// skipBody reads over a body that has arrived already.
func (s *Session) skipBody(b []byte) (n int, whole bool) {
	for {
		ev, err := s.reader.Next(b[n:], &s.env.head)
		if err != nil {
			return n, false
		}
		n += ev.N
		switch ev.Kind {
		case http1.End:
			return n, true
		case http1.NeedMore:
			return n, false
		}
	}
}

// answerRefused answers 429 (RFC 6585 section 4) with everything a client
// needs to know in order to come back at the right time.
func (s *Session) answerRefused(now time.Time) {
	e, v := s.env, &s.x.limits
	e.refusal = Refusal{Rule: v.policy.Rule, Algorithm: v.algo, Client: s.remote, Decision: v.state}
	id := e.Refused(now, &e.refusal)
	extra := e.appendDate(e.extra[:0], now)
	if after := v.state.RetryAfter; after != limit.Never {
		extra = http1.AppendFieldInt(extra, "Retry-After", wholeSeconds(after))
		if e.Settings.LegacyFields {
			extra = http1.AppendFieldInt(extra, "X-RateLimit-Retry-After", wholeSeconds(after))
		}
	}
	extra = s.appendLimits(extra)
	extra = http1.AppendField(extra, "X-Weir-Decision", id)
	e.extra = extra

	body := append(e.body[:0], `{"error":"rate limit exceeded","rule":`...)
	body = append(body, v.policy.ruleJSON...)
	if after := v.state.RetryAfter; after == limit.Never {
		body = append(body, `,"reason":"the limit can never hold this request's cost"`...)
	} else {
		body = append(body, `,"retryAfter":`...)
		body = strconv.AppendFloat(body, after.Seconds(), 'f', -1, 64)
	}
	body = append(body, `,"decision":"`...)
	body = append(body, id...)
	body = append(body, "\"}\n"...)
	e.body = body
	s.finish(now, http1.Answer{Status: 429, ContentType: "application/json", Body: body, Extra: extra})
}

// wholeSeconds rounds up, so that a client that waits so long is not too early;
// at least 1, as 0 would ask for an immediate retry.
func wholeSeconds(d time.Duration) int64 {
	return max(1, ceilSeconds(d))
}

func ceilSeconds(d time.Duration) int64 {
	return int64((d-1)/time.Second) + 1
}

// appendLimits appends the fields that tell a client where it stands:
// X-RateLimit-* as commonly used, and those of
// draft-ietf-httpapi-ratelimit-headers-10.
func (s *Session) appendLimits(dst []byte) []byte {
	v, set := &s.x.limits, s.env.Settings
	if !v.known || v.policy == nil {
		return dst
	}
	if set.LegacyFields {
		dst = http1.AppendFieldInt(dst, "X-RateLimit-Limit", v.state.Limit)
		dst = http1.AppendFieldInt(dst, "X-RateLimit-Remaining", v.state.Remaining)
	}
	if !set.StandardFields {
		return dst
	}
	dst = append(dst, v.policy.fields...)
	dst = strconv.AppendInt(dst, v.state.Remaining, 10)
	dst = append(dst, ";t="...)
	dst = strconv.AppendInt(dst, ceilSeconds(v.state.ResetAfter), 10)
	return append(dst, "\r\n"...)
}
