package session

import (
	"bytes"
	"cmp"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/refusal"
	"weir/proxy/rule"
)

// accept is in which form the client wants a refusal: of the request in env.head, or of
// that which goes to a target, when its head is gone, or has gone there.
func (s *Session) accept() refusal.Accept {
	switch {
	case s.x.forward == nil && s.x.request > requestRefused:
		return s.x.wants
	case s.x.forward == nil:
		value, _ := s.env.head.Value(http1.FieldAccept)
		return refusal.ParseAccept(value)
	}
	const name = "accept:"
	for rest := s.x.forward; ; {
		_, after, _ := bytes.Cut(rest, []byte("\r\n"))
		line, _, _ := bytes.Cut(after, []byte("\r\n"))
		if len(line) == 0 {
			return refusal.Accept{}
		}
		if len(line) > len(name) && equalFold(line[:len(name)], name) {
			return refusal.ParseAccept(line[len(name):])
		}
		rest = after
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
	page := e.Pages().Pick(template, s.accept())
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
