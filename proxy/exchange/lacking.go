package exchange

import (
	"time"

	"weir/internal/http1"
	"weir/proxy/rule"
)

// lacking notes that a rule refuses a request that lacks a part of its key. The store is
// not asked: nothing is charged.
func (x *Exchange) lacking(h *rule.Hit) {
	o := &x.outcome
	o.Rule, o.Algorithm, o.Decision = h.Rule.ID, h.Limit.Algorithm(), Rejected
	x.env.matched.Lacks = h
	x.request.become(requestRefused)
}

// answerLacking answers 400: the request will not do later either.
func (x *Exchange) answerLacking(now time.Time) {
	e := x.env
	e.body = e.matched.Lacks.AppendLack(e.body[:0])
	e.extra = x.appendCORS(e.appendDate(e.extra[:0], now))
	x.finish(now, http1.Answer{Status: 400, ContentType: "application/json", Body: e.body, Extra: e.extra})
}
