package exchange

import (
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/decide"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// ask has the limiter decide about a request, which becomes
// refused, collecting, queued, or asked when the answer comes later. ok is false
// when the request is answered: so many rules could apply to it that they cannot
// be decided together.
func (x *Exchange) ask(now time.Time, h *http1.Head) (ok bool) {
	e, c := x.env, &x.env.matched
	x.verdict.Policy = e.Policy()
	d := (*rule.HTTP)(h)
	r := decide.Request{Described: d, Client: x.client, Trusted: x.Trusted, Preflight: e.Settings.PreflightsApart && rule.Preflight(d)}
	if !c.Open(x.verdict.Policy, &r) {
		x.fail(now, 400, "the path can be read in several ways, and too many rules apply to them")
		return false
	}
	x.fx.Matched = c
	switch {
	case c.Exempt >= 0:
		x.outcome.Decision = Exempt
		x.request.become(requestCollecting)
		return true
	case c.Lacks != nil:
		x.lacking(c.Lacks)
		return true
	}
	x.request.become(requestAsked)
	if e.Ask(now, x, &c.Ask, &e.answer) {
		x.decided(now, &e.answer, c.Asked)
		return true
	}
	x.keepAsked(c.Asked)
	return true
}

// keepAsked keeps what was asked beyond the head's life.
func (x *Exchange) keepAsked(asked []decide.Counted) {
	x.asked = append(x.env.takeAsked(), asked...)
	if len(asked) == 1 {
		return // the global rule has no key
	}
	keys := x.env.take()
	for i := range x.asked {
		c := &x.asked[i]
		at := len(keys)
		keys = append(keys, c.Key...)
		c.Key = keys[at:len(keys):len(keys)]
	}
	x.keys = keys
}

// decided notes the store's answer about what was asked.
func (x *Exchange) decided(now time.Time, ans *store.Answer, asked []decide.Counted) {
	d := &x.env.decided
	d.Policy, d.Asked, d.Answer = x.verdict.Policy, asked, ans
	x.fx.Decided = d
	x.verdict.Judge(d)
	o := &x.outcome
	o.Rule, o.Algorithm = x.verdict.Rule.ID, x.verdict.Limit.Algorithm()
	switch {
	case ans.Granted == 0:
		o.Decision = Rejected
		x.request.become(requestRefused)
	case ans.Delay() > 0:
		o.Decision = Forwarded
		x.queue(now, ans, asked)
	default:
		o.Decision = Forwarded
		x.request.become(requestCollecting)
	}
}

// queue has the request wait for its slot.
func (x *Exchange) queue(now time.Time, ans *store.Answer, asked []decide.Counted) {
	x.request.become(requestQueued)
	x.deadline = time.Time{}
	if x.asked == nil {
		x.keepAsked(asked)
	}
	for i := range x.asked {
		x.asked[i].Slot = ans.Decisions[i].Slot
	}
	x.fx.Wake = now.Add(ans.Delay())
}

// HandleWake is told that the time of Effects.Wake has come: the request's slot
// in the queue.
func (x *Exchange) HandleWake(now time.Time) {
	x.env.Begin()
	if x.request != requestQueued {
		return
	}
	x.request.become(requestCollecting)
	x.proceed(now)
}

// leave gives the places back that a request had booked whose client is gone.
func (x *Exchange) leave(asked []decide.Counted, mode store.Mode) {
	x.env.leave = Leave{append(x.env.leave.Places[:0], asked...), mode}
	x.fx.Leave = &x.env.leave
}

// late gives back what was booked for a client that had left before the answer
// came.
func (x *Exchange) late(ans *store.Answer) {
	if len(x.left) == len(ans.Decisions) {
		for i := range x.left {
			x.left[i].Slot = ans.Decisions[i].Slot
		}
		x.leave(x.left, ans.Mode)
	}
	x.left = nil
}

// HandleAnswer is told the store's answer that Env.Ask could not give at once.
// It is called also when the client has gone.
func (x *Exchange) HandleAnswer(now time.Time, ans *store.Answer) {
	x.env.Begin()
	if x.request != requestAsked {
		x.late(ans)
		return
	}
	x.env.asked = append(x.env.asked[:0], x.asked...) // what is reported outlives the exchange
	x.decided(now, ans, x.env.asked)
	switch x.request {
	case requestCollecting:
		x.proceed(now)
	}
}

// proceed goes on with an admitted request whose head was read in an earlier call.
func (x *Exchange) proceed(now time.Time) {
	x.awaitBody(now)
	x.admitted(now)
}

// HandleUnread says that a request that is Refused is not read further: whole says that
// its body was among the bytes that had come. Else the carrier ends with it.
func (x *Exchange) HandleUnread(now time.Time, whole bool) {
	if !whole {
		x.keepAlive = false
	}
	switch {
	case x.outcome.Decision == Undecided:
		x.answerOptions(now)
	case x.verdict.Rule == nil:
		x.answerLacking(now)
	case x.verdict.Mode == store.Closed:
		x.answerError(now, 503, "the rate limiter's store is unavailable")
	default:
		x.answerRefused(now)
	}
}

// answerRefused answers 429 (RFC 6585 section 4) with everything a client
// needs to know in order to come back at the right time.
func (x *Exchange) answerRefused(now time.Time) {
	e, v := x.env, &x.verdict
	e.refusal = Refusal{Rule: v.Rule, Limit: v.Limit, Cost: v.By.Cost, Key: v.By.Key, Client: x.Remote, Version: v.Policy.Version, Request: x.outcome.RequestID, Decision: v.State}
	id := e.Refused(now, &e.refusal)
	x.outcome.ID, x.outcome.Key = id, v.By.Key
	extra := e.appendDate(e.extra[:0], now)
	if after := v.State.RetryAfter; after != limit.Never {
		extra = http1.AppendFieldInt(extra, "Retry-After", wholeSeconds(after))
		if e.Settings.LegacyFields {
			extra = http1.AppendFieldInt(extra, "X-RateLimit-Retry-After", wholeSeconds(after))
		}
	}
	extra = x.appendLimits(extra)
	extra = http1.AppendField(extra, decisionField, id)
	extra = x.appendCORS(extra)
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
	x.dressRefused(&a, id)
	x.finish(now, a)
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
func (x *Exchange) appendLimits(dst []byte) []byte {
	return x.verdict.AppendFields(dst, x.env.Settings.families()&^x.theirs)
}
