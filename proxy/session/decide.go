package session

import (
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/decide"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// ask has the limiter decide about the request in env.head, and the request be
// refused, collecting, queued, or asked when the answer comes later. ok is false
// when the request is answered: so many rules could apply to it that they cannot
// be decided together.
func (s *Session) ask(now time.Time) (ok bool) {
	e, c := s.env, &s.env.matched
	s.x.verdict.Policy = e.Policy()
	d := (*rule.HTTP)(&e.head)
	r := decide.Request{Described: d, Client: s.client(&e.head), Trusted: s.trusted(), Preflight: e.Settings.PreflightsApart && rule.Preflight(d)}
	if !c.Open(s.x.verdict.Policy, &r) {
		s.fail(now, 400, "the path can be read in several ways, and too many rules apply to them")
		return false
	}
	s.fx.Matched = c
	switch {
	case c.Exempt >= 0:
		s.x.outcome.Decision = Exempt
		s.x.request.become(requestCollecting)
		return true
	case c.Lacks != nil:
		s.lacking(c.Lacks)
		return true
	}
	s.x.request.become(requestAsked)
	if e.Ask(now, s, &c.Ask, &e.answer) {
		s.decided(now, &e.answer, c.Asked)
		return true
	}
	s.keepAsked(c.Asked)
	return true
}

// keepAsked keeps what was asked beyond the head's life.
func (s *Session) keepAsked(asked []decide.Counted) {
	s.x.asked = append(s.env.takeAsked(), asked...)
	if len(asked) == 1 {
		return // the global rule has no key
	}
	keys := s.env.take()
	for i := range s.x.asked {
		c := &s.x.asked[i]
		at := len(keys)
		keys = append(keys, c.Key...)
		c.Key = keys[at:len(keys):len(keys)]
	}
	s.x.keys = keys
}

// decided notes the store's answer about what was asked.
func (s *Session) decided(now time.Time, ans *store.Answer, asked []decide.Counted) {
	d := &s.env.decided
	d.Policy, d.Asked, d.Answer = s.x.verdict.Policy, asked, ans
	s.fx.Decided = d
	s.x.verdict.Judge(d)
	o := &s.x.outcome
	o.Rule, o.Algorithm = s.x.verdict.Rule.ID, s.x.verdict.Limit.Algorithm()
	switch {
	case ans.Granted == 0:
		o.Decision = Rejected
		s.x.request.become(requestRefused)
	case ans.Delay() > 0:
		o.Decision = Forwarded
		s.queue(now, ans, asked)
	default:
		o.Decision = Forwarded
		s.x.request.become(requestCollecting)
	}
}

// queue has the request wait for its slot.
func (s *Session) queue(now time.Time, ans *store.Answer, asked []decide.Counted) {
	s.x.request.become(requestQueued)
	s.deadline = time.Time{}
	if s.x.asked == nil {
		s.keepAsked(asked)
	}
	for i := range s.x.asked {
		s.x.asked[i].Slot = ans.Decisions[i].Slot
	}
	s.fx.Wake = now.Add(ans.Delay())
}

// HandleWake is told that the time of Effects.Wake has come: the request's slot
// in the queue.
func (s *Session) HandleWake(now time.Time) {
	s.begin()
	if s.x.request != requestQueued {
		return
	}
	s.x.request.become(requestCollecting)
	s.proceed(now)
}

// leave gives the places back that a request had booked whose client is gone.
func (s *Session) leave(asked []decide.Counted, mode store.Mode) {
	s.env.leave = Leave{append(s.env.leave.Places[:0], asked...), mode}
	s.fx.Leave = &s.env.leave
}

// late gives back what was booked for a client that had left before the answer
// came.
func (s *Session) late(ans *store.Answer) {
	if len(s.gone) == len(ans.Decisions) {
		for i := range s.gone {
			s.gone[i].Slot = ans.Decisions[i].Slot
		}
		s.leave(s.gone, ans.Mode)
	}
	s.gone = nil
}

// HandleAnswer is told the store's answer that Env.Ask could not give at once.
// It is called also when the client has gone.
func (s *Session) HandleAnswer(now time.Time, ans *store.Answer) {
	s.begin()
	if s.x.request != requestAsked {
		s.late(ans)
		return
	}
	s.env.asked = append(s.env.asked[:0], s.x.asked...) // what is reported outlives the exchange
	s.decided(now, ans, s.env.asked)
	switch s.x.request {
	case requestRefused:
		s.refuse(now, nil)
	case requestCollecting:
		s.proceed(now)
	}
}

// proceed goes on with an admitted request whose head is gone.
func (s *Session) proceed(now time.Time) {
	s.awaitBody(now)
	s.admitted(now)
	s.read(now, nil) // a request without a body is complete
}

// refuse answers 429, or 503 when the store is away and the mode is closed.
// rest are the bytes behind the head; it returns how many of them were the
// body's.
func (s *Session) refuse(now time.Time, rest []byte) int {
	return s.answerUnread(rest, func() {
		if s.fx.Matched != nil && s.fx.Matched.Lacks != nil {
			s.answerLacking(now)
		} else if s.x.verdict.Mode == store.Closed {
			s.answerError(now, 503, "the rate limiter's store is unavailable")
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
	e, v := s.env, &s.x.verdict
	e.refusal = Refusal{Rule: v.Rule, Limit: v.Limit, Cost: v.By.Cost, Key: v.By.Key, Client: s.remote, Version: v.Policy.Version, Request: s.x.outcome.RequestID, Decision: v.State}
	id := e.Refused(now, &e.refusal)
	s.x.outcome.ID, s.x.outcome.Key = id, v.By.Key
	extra := e.appendDate(e.extra[:0], now)
	if after := v.State.RetryAfter; after != limit.Never {
		extra = http1.AppendFieldInt(extra, "Retry-After", wholeSeconds(after))
		if e.Settings.LegacyFields {
			extra = http1.AppendFieldInt(extra, "X-RateLimit-Retry-After", wholeSeconds(after))
		}
	}
	extra = s.appendLimits(extra)
	extra = http1.AppendField(extra, decisionField, id)
	extra = s.appendCORS(extra)
	e.extra = extra

	body := append(e.body[:0], `{"error":"rate limit exceeded","rule":`...)
	body = strconv.AppendQuote(body, v.Rule.ID)
	if after := v.State.RetryAfter; after == limit.Never {
		body = append(body, `,"reason":"the limit can never hold this request's cost"`...)
	} else {
		body = append(body, `,"retryAfter":`...)
		body = appendSeconds(body, after)
	}
	body = append(body, `,"decision":"`...)
	body = append(body, id...)
	body = append(body, "\"}\n"...)
	e.body = body
	a := http1.Answer{Status: 429, ContentType: "application/json", Body: body, Extra: extra}
	s.dressRefused(&a, id)
	s.finish(now, a)
}

// appendSeconds appends a span in seconds, with its own digits: Duration.Seconds rounds
// twice, and 2.989333 becomes 2.9893330000000002.
func appendSeconds(b []byte, span time.Duration) []byte {
	return strconv.AppendFloat(b, float64(span)/float64(time.Second), 'f', -1, 64)
}

// decisionField carries the decision id.
const decisionField = "X-Weir-Decision"

// wholeSeconds rounds up, so that a client that waits so long is not too early;
// at least 1, as 0 would ask for an immediate retry.
func wholeSeconds(d time.Duration) int64 {
	return max(1, decide.Seconds(d))
}

// appendLimits appends the fields that tell a client where it stands, but for
// those that the target's own stand for.
func (s *Session) appendLimits(dst []byte) []byte {
	return s.x.verdict.AppendFields(dst, s.env.Settings.families()&^s.x.theirs)
}
