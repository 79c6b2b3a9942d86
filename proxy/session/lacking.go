package session

import (
	"time"

	"weir/internal/http1"
	"weir/proxy/rule"
)

// lacking notes that a rule refuses a request that lacks a part of its key. The store is
// not asked: nothing is charged.
func (s *Session) lacking(h *rule.Hit) {
	o := &s.x.outcome
	o.Rule, o.Algorithm, o.Decision = h.Rule.ID, h.Limit.Algorithm(), Rejected
	s.env.matched.Lacks = h
	s.x.request.become(requestRefused)
}

// answerLacking answers 400: the request will not do later either.
func (s *Session) answerLacking(now time.Time) {
	e := s.env
	e.body = e.matched.Lacks.AppendLack(e.body[:0])
	e.extra = s.appendCORS(e.appendDate(e.extra[:0], now))
	s.finish(now, http1.Answer{Status: 400, ContentType: "application/json", Body: e.body, Extra: e.extra})
}
