package exchange

import (
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// ask asks the limiter about a request, which becomes refused, collecting, queued, or, if
// the answer comes later, asked. It returns false if it has answered the request, because
// too many rules could apply to decide them together.
func (x *Exchange) ask(now time.Time, h *http1.Head) (ok bool) {
	e, c := x.env, &x.env.matched
	x.verdict.Policy = e.Policy()
	d := (*keys.Request)(h)
	r := decide.Request{Described: d, Client: x.client, Trusted: x.Trusted, Preflight: e.Settings.PreflightsApart &&
		rule.IsPreflight(d), Delivery: e.Delivery}
	if !c.Begin(x.verdict.Policy, &r) {
		x.answerError(now, 400, "the request can be read in several ways, and too many rules apply to them")
		return false
	}
	x.env.fx.Matched = c
	switch {
	case c.Exempt >= 0:
		x.outcome.Decision = Exempt
		x.request.become(requestCollecting)
		return true
	case c.RefusedBy != nil:
		x.lacking(c.RefusedBy)
		return true
	}
	x.request.become(requestAsked)
	if c.Defers && e.Defers {
		x.mayDefer(h, c)
	}
	if e.Ask(now, x, &c.Ask, &e.answer) {
		x.decided(now, &e.answer, c.Asked)
		return true
	}
	x.keepAsked(c.Asked)
	return true
}

// lacking handles a request that a rule refuses because it lacks a part of the rule's key.
// The store is not asked, and nothing is charged.
func (x *Exchange) lacking(h *rule.MatchedRule) {
	o := &x.outcome
	o.Rule, o.Algorithm, o.Decision = h.Rule.ID, h.Limit.Algorithm(), Rejected
	x.env.matched.RefusedBy = h
	x.request.become(requestRefused)
}

// keepAsked copies what was asked, because the head does not last as long.
func (x *Exchange) keepAsked(asked []decide.ChargedCounter) {
	if len(asked) == 1 { // the global rule has no key
		x.one[0] = asked[0]
		x.asked = x.one[:]
		return
	}
	x.asked = append(takeFree(&x.env.spares, store.CountersMax), asked...)
	keys := x.env.take()
	for i := range x.asked {
		c := &x.asked[i]
		at := len(keys)
		keys = append(keys, c.Key...)
		c.Key = keys[at:len(keys):len(keys)]
	}
	x.keys = keys
}

// decided handles the store's answer about what was asked.
func (x *Exchange) decided(now time.Time, ans *store.Answer, asked []decide.ChargedCounter) {
	d := &x.env.decided
	d.Policy, d.Asked, d.Answer = x.verdict.Policy, asked, ans
	d.Postponed = ans.Granted == 0 && x.deferral != deferralNone && d.Defers(x.deferral == deferralWanted)
	x.env.fx.Decided = d
	x.verdict.Judge(d)
	o := &x.outcome
	o.Rule, o.Algorithm = x.verdict.Rule.ID, x.verdict.Limit.Algorithm()
	switch {
	case d.Postponed:
		o.Decision, o.Postponed = Rejected, true // until it is stored
		x.postpone(ans, asked)
	case ans.Granted == 0:
		o.Decision = Rejected
		x.request.become(requestRefused)
	case ans.Delay() > 0:
		o.Decision = Forwarded
		x.queue(now, ans, asked)
	default:
		o.Decision = Forwarded
		x.pass()
		if (x.env.Sheds || x.request == requestLooking) && x.asked == nil {
			x.keepAsked(asked)
		}
	}
	x.chargedAt = ans.At
}

// queue makes the request wait for its slot.
func (x *Exchange) queue(now time.Time, ans *store.Answer, asked []decide.ChargedCounter) {
	x.request.become(requestQueued)
	x.deadline = time.Time{}
	if x.asked == nil {
		x.keepAsked(asked)
	}
	for i := range x.asked {
		x.asked[i].Slot = ans.Decisions[i].Slot
	}
	x.env.fx.Wake = now.Add(ans.Delay())
}

// HandleWake is called at the time of Effects.Wake, the request's slot in the queue.
func (x *Exchange) HandleWake(now time.Time) {
	x.env.Begin()
	if x.request != requestQueued {
		return
	}
	x.pass()
	x.proceed(now)
}

// refund gives back the places that the request has booked, because its client has disconnected,
// or if at is not 0 what it was charged then.
func (x *Exchange) refund(asked []decide.ChargedCounter, mode store.Mode, at int64) {
	x.env.refund = Refund{append(x.env.refund.Asked[:0], asked...), mode, at}
	x.env.fx.Refund = &x.env.refund
}

// dropAsked frees the memory of what was asked.
func (x *Exchange) dropAsked() {
	if len(x.asked) > 1 {
		x.env.give(x.keys)
		if len(x.env.spares) < buffersKept {
			clear(x.asked)
			x.env.spares = append(x.env.spares, x.asked[:0])
		}
	}
	x.asked, x.keys = nil, nil
}

// refundLate gives back what was booked for a client that has left before the store's answer.
func (x *Exchange) refundLate(ans *store.Answer) {
	if len(x.left) == len(ans.Decisions) {
		for i := range x.left {
			x.left[i].Slot = ans.Decisions[i].Slot
		}
		x.refund(x.left, ans.Mode, 0)
	}
	x.left = nil
}

// HandleDecision handles the store's answer that Env.Ask did not return immediately. It is
// called even if the client has disconnected.
func (x *Exchange) HandleDecision(now time.Time, ans *store.Answer) {
	x.env.Begin()
	if x.request != requestAsked {
		x.refundLate(ans)
		return
	}
	x.env.asked = append(x.env.asked[:0], x.asked...) // the effects outlive the exchange
	x.decided(now, ans, x.env.asked)
	if x.request == requestRefused { // the carrier may read the body before HandleUnread
		for i := range x.asked {
			if x.verdict.By == &x.env.asked[i] {
				x.verdict.By = &x.asked[i]
			}
		}
	}
	x.proceed(now)
}

// HandleUnread answers a request that is Refused. whole reports whether all of its body has
// been received; if not, the carrier ends with this exchange.
func (x *Exchange) HandleUnread(now time.Time, whole bool) {
	x.unread = !whole
	switch {
	case x.outcome.Decision == Undecided: // the last recipient of OPTIONS
		x.finish(now, http1.LocalResponse{Status: 200, Extra: append(x.answers(now).Extra, decide.Allow...)})
	case x.verdict.Rule == nil:
		x.finish(now, x.answers(now).RefuseMissingKey(x.env.matched.RefusedBy, x.asReader()))
	case x.verdict.Mode == store.Closed:
		x.finishError(now, 503, "the rate limiter's store is unavailable")
	default:
		x.answerRefused(now)
	}
}

// answerRefused answers a request that the limiter refuses.
func (x *Exchange) answerRefused(now time.Time) {
	e, v := x.env, &x.verdict
	e.refusal = v.Refusal(x.Remote, x.outcome.RequestID)
	id := e.Refused(now, &e.refusal)
	x.outcome.ID, x.outcome.Key = id, v.By.Key
	x.finish(now, x.answers(now).Refuse(v, id, x.asReader()))
}

// answers begins an answer of the proxy itself with its first fields.
func (x *Exchange) answers(now time.Time) *decide.Responder {
	a := &x.env.responder
	a.Style, a.Pages = &x.env.Settings.Style, x.env.Pages
	date, _ := x.env.date.At(now)
	a.Extra = append(a.Extra[:0], date...)
	return a
}

// asReader returns the client as the reader of an answer.
func (x *Exchange) asReader() *decide.ResponseOptions {
	x.env.reader = decide.ResponseOptions{Accept: x.wants, Origin: x.origin, RequestID: x.outcome.RequestID}
	return &x.env.reader
}

// families returns the families of rate limit fields to send, without those that the target
// sends itself.
func (x *Exchange) families() decide.LimitFields { return x.env.Settings.Style.LimitFields &^ x.theirs }

// appendLimits appends the rate limit fields, except those that the target sends itself.
func (x *Exchange) appendLimits(dst []byte) []byte {
	return x.verdict.AppendFields(dst, x.families())
}
