package check

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/refusal"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A checked is a described request that waits for the store, or for its slot in a queue.
//
// Owned by its loop.
type checked struct {
	form   *form
	deny   int // status of a refusal; 0: the refusal's own
	policy *decide.Policy
	client netip.Addr
	reader decide.ResponseOptions
	asked  []decide.ChargedCounter // with copied keys
	keys   []byte
	fields []byte // fields of the answer when its slot is due
}

// deny403 is the query of an asker that supports no other status for refusals.
const deny403 = "deny=403"

// renew returns the session's checked for another request.
func (s *Session) renew() *checked {
	c := &s.checked
	*c = checked{asked: c.asked[:0], keys: c.keys[:0], fields: c.fields[:0]}
	s.env.Answers.Extra = s.env.Answers.Extra[:0]
	return c
}

// targetOf returns the target of a malformed head.
func targetOf(head []byte) []byte {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\r\n"))
	_, target, _ := bytes.Cut(line, []byte(" "))
	target, _, _ = bytes.Cut(target, []byte(" "))
	return target
}

// describing reports whether target, that of a malformed head, is one of /check. If so, it begins the session's
// checked.
func (s *Session) describing(target []byte) bool {
	path, query, _ := bytes.Cut(target, []byte("?"))
	f, known := formOf(path)
	if known {
		c := s.renew()
		c.form, s.route = f, routeCheck
		if f != &formPath && string(query) == deny403 {
			c.deny = 403
		}
	}
	return known
}

// check decides about the request described by h.
func (s *Session) check(now time.Time, h *http1.Head) {
	if !s.describe(now, h) {
		return
	}
	e, c, d := s.env, &s.checked, &s.env.described
	accept, _ := h.Value(http1.FieldAccept)
	c.client = d.client
	c.policy, c.reader = e.Policy(), decide.ResponseOptions{Accept: refusal.ParseAccept(accept)}
	request := (*keys.Request)(&d.head)
	preflight := e.PreflightsApart && rule.IsPreflight(request)
	r := decide.Request{Described: request, Client: d.client, Preflight: preflight, MaxDelay: e.HoldMax}
	if !e.matched.Begin(c.policy, &r) {
		s.denyFor(now, 400, "the request can be read in several ways, and too many rules apply to them")
		return
	}
	m := &e.matched
	switch {
	case m.Exempt >= 0:
		s.allow(now, nil)
		return
	case m.RefusedBy != nil:
		s.deny(now, e.Answers.RefuseMissingKey(m.RefusedBy, &c.reader))
		return
	}
	for i := range m.Shadows {
		e.shadow.Counters = append(e.shadow.Counters[:0], m.Shadows[i].Counter)
		e.shadow.N = 1
		e.Ask(now, &e.shadow, &e.answer, func(time.Time, *store.Answer) {})
	}
	p := e.take(s, 0)
	s.waits = 0
	if e.Ask(now, &m.Ask, &e.answer, p.done) {
		e.give(p)
		c.asked = append(c.asked, m.Asked...)
		s.judge(now, &e.answer)
		return
	}
	s.keep(m.Asked)
	s.waits = 1
	s.wait()
}

// describe reads the request that h describes, and reports whether there is one. Otherwise the question is
// answered.
func (s *Session) describe(now time.Time, h *http1.Head) bool {
	c := s.renew()
	var known bool
	if c.form, known = formOf(h.Path); !known {
		s.fail(now, 404, "unknown form; allowed: /check/forwarded, /check/original, /check/path/…")
		return false
	}
	if c.form != &formPath && len(h.Query) > 0 {
		if string(h.Query) != deny403 {
			s.fail(now, 400, "the only allowed parameter is deny=403")
			return false
		}
		c.deny = 403
	}
	if s.tokened { // the field is the asker's, not the client's
		h.Fields = slices.DeleteFunc(h.Fields, func(f http1.Field) bool { return f.ID == http1.FieldAuthorization })
	}
	switch err := s.env.described.read(c.form, h, s.remote, s.env.Trusted); err {
	case nil:
	case errMalformed:
		s.undescribed(now, 400, err.Error())
		return false
	default:
		s.denyFor(now, 400, err.Error())
		return false
	}
	return true
}

// keep copies what was asked, which outlives the head.
func (s *Session) keep(asked []decide.ChargedCounter) {
	c := &s.checked
	for _, one := range asked {
		at := len(c.keys)
		c.keys = append(c.keys, one.Key...)
		one.Key = c.keys[at:len(c.keys):len(c.keys)]
		c.asked = append(c.asked, one)
	}
}

// judge answers according to the store's answer.
func (s *Session) judge(now time.Time, ans *store.Answer) {
	e, c := s.env, &s.checked
	v := &e.verdict
	v.Judge(&decide.CounterResults{Policy: c.policy, Asked: c.asked, Answer: ans})
	e.Answers.Extra = e.Answers.Extra[:0]
	switch {
	case ans.Granted > 0:
		e.extra = v.AppendFields(e.extra[:0], e.Answers.Style.LimitFields)
		if ans.Delay() > 0 {
			s.hold(now, ans.Delay())
			return
		}
		s.allow(now, e.extra)
	case v.Mode == store.Closed:
		s.denyFor(now, 503, "the rate limiter's store is unavailable")
	default:
		e.refusal = v.Refusal(c.client, nil)
		s.deny(now, e.Answers.Refuse(v, e.Refused(now, &e.refusal), &c.reader))
	}
}

// hold holds the answer until the request's slots are due, with the Env's extra as its fields. An asker
// that disconnects meanwhile may have admitted the request, so that its places stay taken.
func (s *Session) hold(now time.Time, delay time.Duration) {
	s.checked.fields = append(s.checked.fields, s.env.extra...)
	s.cycle.Wait()
	s.held, s.cycle.Until = true, now.Add(delay)
}

// allow admits the described request.
func (s *Session) allow(now time.Time, fields []byte) {
	s.send(now, http1.LocalResponse{Status: s.checked.form.allow, Extra: fields})
}

// undescribed admits or refuses a request that cannot be described. Clients can cause that with requests that the
// application may answer.
func (s *Session) undescribed(now time.Time, status int, reason string) {
	s.env.Undescribed(now, reason)
	if s.env.AdmitUndescribed {
		s.allow(now, nil)
		return
	}
	s.denyFor(now, status, reason)
}

// denyFor refuses the described request because of an error.
func (s *Session) denyFor(now time.Time, status int, reason string) {
	s.deny(now, s.env.Answers.Fail(&decide.Failure{Status: status, Reason: reason}, nil, 0, &s.checked.reader))
}

// deny refuses the described request. For an asker that supports only 403 the status is replaced,
// and a field has the original one. Such an answer has no body: nginx does not read one, and closes the
// connection if there is one.
func (s *Session) deny(now time.Time, a http1.LocalResponse) {
	if e := s.env; s.checked.deny != 0 {
		e.extra = http1.AppendFieldInt(append(e.extra[:0], a.Extra...), "X-Weir-Status", int64(a.Status))
		a.Extra, a.Status, a.ContentType, a.Body = e.extra, s.checked.deny, "", nil
	}
	s.send(now, a)
}
