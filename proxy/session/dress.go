package session

import (
	"cmp"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/refusal"
	"weir/proxy/rule"
)

// keepAccept keeps in which form the client wants a refusal.
func (s *Session) keepAccept(h *http1.Head) {
	if accept, ok := h.Value(http1.FieldAccept); ok {
		s.x.accept = refusal.ParseAccept(accept)
	}
}

// dress gives a refusal the form that its client wants, and what the operator has added.
// own is what the rule that refuses says of it; nil: there is none. The answer has the
// JSON that API clients get already.
func (s *Session) dress(a *http1.Answer, own *rule.Refusal, v *refusal.Values) {
	e := s.env
	fields := e.Settings.RefusalFields
	var template string
	if own != nil && own.Template != "" {
		template = own.Template
	}
	if own != nil && own.Lines() != nil {
		fields = own.Lines()
	}
	a.Extra = append(a.Extra, fields...)
	if e.Pages == nil {
		e.extra = a.Extra
		return
	}
	v.Status, v.RequestID = a.Status, s.x.outcome.RequestID
	page := e.Pages().Pick(template, s.x.accept)
	if page.Varies || fields != nil {
		a.Extra = append(a.Extra, "Vary: Accept\r\n"...)
	}
	if page.Template != nil {
		e.body = page.Template.Append(e.body[:0], v)
		a.ContentType, a.Body = page.ContentType, e.body
	}
	e.extra = a.Extra
}

// dressRefused is dress for the refusal of a rule, named by id.
func (s *Session) dressRefused(a *http1.Answer, id []byte) {
	v := &s.x.verdict
	values := refusal.Values{Error: "rate limit exceeded", Rule: v.Rule.ID, Limit: v.State.Limit, Remaining: v.State.Remaining, RetryAfter: -1, Decision: id}
	if after := v.State.RetryAfter; after != limit.Never {
		values.RetryAfter = wholeSeconds(after)
	}
	a.Status = cmp.Or(v.Rule.Refusal.Status, s.env.Settings.RefusalStatus, a.Status)
	s.dress(a, &v.Rule.Refusal, &values)
}
