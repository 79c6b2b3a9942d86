package exchange

import (
	"bytes"
	"cmp"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/refusal"
	"weir/proxy/rule"
)

// keepAccept keeps in which form the client wants a refusal. It is not needed of a request
// that is collected, as that has the field.
func (x *Exchange) keepAccept(h *http1.Head) {
	value, _ := h.Value(http1.FieldAccept)
	x.wants = refusal.ParseAccept(value)
}

// accept is in which form the client wants a refusal.
func (x *Exchange) accept() refusal.Accept {
	if x.forward == nil {
		return x.wants
	}
	const name = "accept:"
	for rest := x.forward; ; {
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
func (x *Exchange) dress(a *http1.Answer, own *rule.Refusal, v *refusal.Values) {
	e := x.env
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
	v.Status, v.RequestID = a.Status, x.outcome.RequestID
	page := e.Pages.Load().Pick(template, x.accept())
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
func (x *Exchange) dressRefused(a *http1.Answer, id []byte) {
	v := &x.verdict
	values := refusal.Values{Error: "rate limit exceeded", Rule: v.Rule.ID, Limit: v.State.Limit, Remaining: v.State.Remaining, RetryAfter: -1, Decision: id}
	if after := v.State.RetryAfter; after != limit.Never {
		values.RetryAfter = wholeSeconds(after)
	}
	a.Status = cmp.Or(v.Rule.Refusal.Status, x.env.Settings.RefusalStatus, a.Status)
	x.dress(a, &v.Rule.Refusal, &values)
}
