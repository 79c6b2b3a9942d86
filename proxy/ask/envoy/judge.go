package envoy

import (
	"bytes"
	"math"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rls"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// Respond makes the response after all calls of AddAnswer. The request must not change between Begin
// and Respond.
func (c *Evaluation) Respond(now time.Time) {
	r := &c.Response
	*r = rls.Response{Statuses: r.Statuses[:0], Headers: r.Headers[:0], OverallCode: rls.OK}
	over, quotas, overQuotas := false, 0, 0
	tightest, least, overQuota := -1, uint32(math.MaxUint32), -1
	for i := range c.asked {
		a := &c.asked[i]
		c.tally(a)
		s := a.status(now)
		r.Statuses = append(r.Statuses, s)
		if s.Limit.Given && s.Remaining < least {
			tightest, least = i, s.Remaining
		}
		quota := !a.unlimited() && (c.settings.Quota || a.limits() && a.limit.Quota)
		if quota {
			quotas++
		}
		switch {
		case s.Code != rls.OverLimit:
		case quota:
			overQuotas++
			overQuota = i
		default:
			over, tightest, least = true, i, 0
		}
	}
	switch {
	case over:
		r.OverallCode = rls.OverLimit
	case quotas > 0 && quotas == overQuotas:
		r.OverallCode, tightest = rls.OverLimit, overQuota
	}
	if r.OverallCode == rls.OverLimit && c.settings.Shadow {
		r.OverallCode = rls.OK
		c.counts.GlobalShadow.Add(1)
	}
	if tightest >= 0 && c.settings.LimitFields != 0 {
		c.describe(now, tightest)
	}
	if c.settings.Metadata {
		r.Metadata = c.metadata()
	}
}

// status returns the status of a descriptor. If the store did not answer, it has no limit.
func (a *asked) status(now time.Time) rls.Status {
	s := rls.Status{Code: rls.OK}
	switch {
	case a.unlimited():
		s.Remaining = math.MaxUint32
	case a.known:
		s.Limit, s.Remaining = a.limit.Shown, rls.ClampUint32(a.decision.Remaining)
		if !a.decision.Allowed && !a.limit.Shadow {
			s.Code = rls.OverLimit
		}
		s.UntilReset = a.untilReset(now, s.Code)
	}
	return s
}

// untilReset returns, in whole seconds, the time until a refused request would be admitted. If the request was
// charged although the limit can never admit it, that is the time until a look is admitted. For an admitted
// request it is the time until the key is as new, which for a window is its end even if nothing was charged.
// For one that can never be admitted it is at least the time in which all is regained, so that a caller does
// not ask in vain every second.
func (a *asked) untilReset(now time.Time, code rls.Code) time.Duration {
	l, wait := &a.limit.Limit, a.decision.RetryAfter
	span, window := a.decision.ResetAfter, l.Algorithm() == limit.Fixed
	switch {
	case wait > 0 && wait != limit.Never && (window || code == rls.OverLimit): // also a remembered refusal
		span = wait
	case window:
		at := a.at
		if at == 0 {
			at = now.UnixMicro()
		}
		span = time.Duration(l.Window().Microseconds()-at%l.Window().Microseconds()) * time.Microsecond
	case wait == limit.Never:
		span = max(span, time.Duration(float64(l.Burst())/l.Rate()*float64(time.Second)))
	}
	return time.Duration(decide.Seconds(span)) * time.Second
}

// A clientFields is reused memory for describe.
type clientFields struct {
	responder decide.Responder
	verdict   decide.Verdict
	rule      rule.Rule
	policy    decide.Policy
	style     decide.RefusalStyle
	refusal   decide.Refusal
	lines     []byte
}

// describe adds the fields for the client, about descriptor i, and the body of a refusal. With the
// family of envoyproxy/ratelimit it adds only the fields that that program sends. It is not
// called without a family, as that program then adds nothing.
func (c *Evaluation) describe(now time.Time, i int) {
	a, t, r := &c.asked[i], &c.fields, &c.Response
	l := &a.limit.Limit
	d := a.decision
	d.ResetAfter = r.Statuses[i].UntilReset
	t.rule.ID = a.limit.Rule
	t.verdict = decide.Verdict{Policy: &t.policy, Rule: &t.rule, Limit: l, State: d, Mode: store.Exact}
	limitFields := c.settings.LimitFields
	if r.OverallCode == rls.OverLimit && limitFields&decide.Envoy == 0 {
		t.style.LimitFields = limitFields
		t.responder.Style, t.responder.Extra = &t.style, t.responder.Extra[:0]
		var id []byte
		if c.Refused != nil {
			t.refusal = decide.Refusal{Rule: &t.rule, Limit: l, Cost: a.hits, Key: c.keyOf(a), Decision: d}
			id = c.Refused(now, &t.refusal)
		}
		answer := t.responder.Refuse(&t.verdict, id, &decide.ResponseOptions{})
		t.lines = append(t.lines[:0], answer.Extra...)
		t.lines = http1.AppendField(t.lines, "Content-Type", answer.ContentType)
		r.RawBody = answer.Body
	} else {
		t.lines = t.verdict.AppendFields(t.lines[:0], limitFields)
	}
	for lines := t.lines; len(lines) > 0; {
		line, rest, _ := bytes.Cut(lines, []byte("\r\n"))
		key, value, _ := bytes.Cut(line, []byte(": "))
		r.Headers, lines = append(r.Headers, rls.Header{Key: c.settings.nameOf(key), Value: value}), rest
	}
}

// nameOf returns the name that a field for the client has.
func (s *Settings) nameOf(field []byte) []byte {
	for i, name := range [...]string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
		if s.Fields[i] != "" && string(field) == name {
			return []byte(s.Fields[i])
		}
	}
	return field
}
