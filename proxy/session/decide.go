package session

import (
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// A Counted is one of the counters that a request was asked about.
type Counted struct {
	Rule  *rule.Rule
	Name  string       // of the counter in the store
	Index int          // of the rule in its set; -1: the global one
	Limit *limit.Limit // the rule's, or the client's
	Cost  int64
	Key   []byte // borrowed
	Slot  int64  // booked in a queue, see limit.Decision.Slot
	Lacks bool   // the request does not have all parts of the key
}

// ask has the limiter decide about the request in env.head, and the request be
// refused, collecting, queued, or asked when the answer comes later. ok is false
// when the request is answered: so many rules could apply to it that they cannot
// be decided together.
func (s *Session) ask(now time.Time) (ok bool) {
	e := s.env
	p := e.Policy()
	s.x.limits = verdict{policy: p}
	e.ask.N = 1
	preflight := e.Settings.PreflightsApart && rule.Preflight(&e.head)
	e.asked = append(e.asked[:0], p.counted(preflight))
	e.ask.Counters = append(e.ask.Counters[:0], store.Counter{Rule: e.asked[0].Name, Limit: &p.Limit, Cost: 1})
	m := &e.matched
	*m = Matched{Policy: p, Client: s.client(&e.head), Shadows: m.Shadows[:0], Exempt: -1}
	if p.Rules != nil {
		if rule, exempt := p.Rules.Exempt(&e.head, m.Client, &e.scratch); exempt {
			m.Exempt = rule
		} else {
			m.Hits = p.Rules.Match(&e.head, m.Client, &e.scratch)
		}
		if len(m.Hits) > rule.HitsMax {
			s.fail(now, 400, "the path can be read in several ways, and too many rules apply to them")
			return false
		}
		m.Rank = p.Rules.Rank(&e.scratch, s.trusted())
	}
	s.fx.Matched = m
	if m.Exempt >= 0 {
		s.x.outcome.Decision = Exempt
		s.x.request.become(requestCollecting)
		return true
	}
	if h := rule.Refusing(m.Hits); h != nil {
		s.lacking(h)
		return true
	}
	e.count(m.Hits, preflight)
	s.x.request.become(requestAsked)
	if e.Ask(now, s, &e.ask, &e.answer) {
		s.decided(now, &e.answer, e.asked)
		return true
	}
	s.keepAsked(e.asked)
	return true
}

// count adds the counters of the rules that apply. Those in shadow are asked by
// themselves: whatever comes of it, the request does not notice.
func (e *Env) count(hits []rule.Hit, preflight bool) {
	for i := range hits {
		h := &hits[i]
		counted := Counted{Rule: h.Rule, Name: h.Rule.ID, Index: h.Index, Limit: h.Limit, Cost: h.Cost, Key: h.Key, Lacks: h.Lacks != nil}
		if preflight {
			counted.Name = h.Rule.Preflights()
		}
		counter := store.Counter{Rule: counted.Name, Key: h.Key, Limit: h.Limit, Cost: h.Cost, Reserve: h.Reserve, MaxDelay: h.MaxDelay}
		if h.Rule.Mode == rule.Shadow {
			e.matched.Shadows = append(e.matched.Shadows, Shadow{counted, counter})
			continue
		}
		e.asked = append(e.asked, counted)
		e.ask.Counters = append(e.ask.Counters, counter)
	}
}

// keepAsked keeps what was asked beyond the head's life.
func (s *Session) keepAsked(asked []Counted) {
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
func (s *Session) decided(now time.Time, ans *store.Answer, asked []Counted) {
	v := &s.x.limits
	v.mode, v.by = ans.Mode, &asked[0]
	if len(ans.Decisions) > 0 {
		v.state = ans.Decisions[ans.Tightest]
		v.by = &asked[ans.Tightest]
	}
	v.rule, v.limit = v.by.Rule, v.by.Limit
	o := &s.x.outcome
	o.Rule, o.Algorithm = v.rule.ID, v.limit.Algorithm()
	s.env.decided = Decided{v.policy, asked, ans}
	s.fx.Decided = &s.env.decided
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
func (s *Session) queue(now time.Time, ans *store.Answer, asked []Counted) {
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
// in the queue. The owner shows the unread bytes again afterwards.
func (s *Session) HandleWake(now time.Time) {
	s.begin()
	if s.x.request != requestQueued {
		return
	}
	s.x.request.become(requestCollecting)
	s.proceed(now)
}

// leave gives the places back that a request had booked whose client is gone.
func (s *Session) leave(asked []Counted, mode store.Mode) {
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
// It is called also when the client has gone. The owner shows the unread bytes
// again afterwards.
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
		} else if s.x.limits.mode == store.Closed {
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
	e, v := s.env, &s.x.limits
	e.refusal = Refusal{Rule: v.rule, Limit: v.limit, Cost: v.by.Cost, Key: v.by.Key, Client: s.remote, Version: v.policy.Version, Decision: v.state}
	id := e.Refused(now, &e.refusal)
	extra := e.appendDate(e.extra[:0], now)
	if after := v.state.RetryAfter; after != limit.Never {
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
	body = strconv.AppendQuote(body, v.rule.ID)
	if after := v.state.RetryAfter; after == limit.Never {
		body = append(body, `,"reason":"the limit can never hold this request's cost"`...)
	} else {
		body = append(body, `,"retryAfter":`...)
		body = appendSeconds(body, after)
	}
	body = append(body, `,"decision":"`...)
	body = append(body, id...)
	body = append(body, "\"}\n"...)
	e.body = body
	s.finish(now, http1.Answer{Status: 429, ContentType: "application/json", Body: body, Extra: extra})
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
	return max(1, ceilSeconds(d))
}

func ceilSeconds(d time.Duration) int64 {
	return int64((d-1)/time.Second) + 1
}

// tellsLimits reports whether there is a limit, and a count, to be told.
func (s *Session) tellsLimits() bool {
	v := &s.x.limits
	known := v.mode == store.Exact || v.mode == store.Cached || v.mode == store.Local
	return known && v.limit != nil && v.limit.Algorithm() != limit.Off
}

// appendLimits appends the fields that tell a client where it stands:
// X-RateLimit-* as commonly used, and those of
// draft-ietf-httpapi-ratelimit-headers-10.
func (s *Session) appendLimits(dst []byte) []byte {
	v, set := &s.x.limits, s.env.Settings
	if !s.tellsLimits() {
		return dst
	}
	if set.LegacyFields && s.x.theirs&legacy == 0 {
		dst = http1.AppendFieldInt(dst, "X-RateLimit-Limit", v.state.Limit)
		dst = http1.AppendFieldInt(dst, "X-RateLimit-Remaining", v.state.Remaining)
	}
	if !set.StandardFields || s.x.theirs&standard != 0 {
		return dst
	}
	if v.rule == &v.policy.global {
		dst = append(dst, v.policy.fields...)
	} else {
		dst = appendPolicy(dst, v.rule.ID, v.limit)
	}
	dst = strconv.AppendInt(dst, v.state.Remaining, 10)
	dst = append(dst, ";t="...)
	dst = strconv.AppendInt(dst, ceilSeconds(v.state.ResetAfter), 10)
	return append(dst, "\r\n"...)
}
