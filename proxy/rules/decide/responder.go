package decide

import (
	"cmp"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/limit"
	"weir/proxy/rules/refusal"
	"weir/proxy/rules/rule"
)

// The fields that carry the ids of decisions and requests, and why the proxy answered 503.
const (
	DecisionField  = "X-Weir-Decision"
	ReasonField    = "X-Weir-Reason"
	RequestIDField = "X-Request-Id"
)

// Allow is the Allow field of a 405 and of the answer to OPTIONS.
const Allow = "Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS\r\n"

// A RefusalStyle says what refusals look like unless their rule overrides it.
type RefusalStyle struct {
	LimitFields LimitFields // families of fields that show the client's standing
	Status      int         // 429 or 503; 0: 429
	Fields      []byte      // further field lines, also for every 503
}

// ResponseOptions are what an answer depends on besides the decision. They are borrowed.
type ResponseOptions struct {
	Accept    refusal.Accept // the forms that it accepts
	Origin    []byte         // origin of the requesting page; nil: not to be exposed
	RequestID []byte         // nil: none
}

// A Responder writes the responses of the limiter and errors of the proxy. Each overwrites the one
// before. A caller starts Extra with the fields that come first.
//
// Owned by its loop.
type Responder struct {
	Style *RefusalStyle
	Pages *atomic.Pointer[refusal.Pages] // templates in force; nil: refusals are JSON
	Extra []byte                         // field lines
	// Deferred is why the request that is refused next could not be stored. It is empty
	// if it was not to be stored.
	Deferred string
	body     []byte
	end      callEnd // of the last answer, see EndCall
}

// A Failure is an error of the proxy or of a target.
type Failure struct {
	Status     int
	Reason     string        // contains no bytes from client or target
	RetryAfter time.Duration // of a 503 or 409
	ID         []byte        // id of the decision, if a gate has shed the request
}

// Refuse answers a request that a verdict refuses, by default with 429 (RFC 6585 section
// 4), with everything that a client needs to come back at the right time. id is the id of
// the decision, or nil if none is kept.
func (a *Responder) Refuse(v *Verdict, id []byte, to *ResponseOptions) http1.LocalResponse {
	values := refusal.Values{Error: "rate limit exceeded", Rule: v.Rule.ID, Limit: v.State.Limit,
		Remaining: v.State.Remaining, RetryAfter: -1, Decision: id}
	body := append(a.body[:0], `{"error":"rate limit exceeded","rule":`...)
	body = appendID(body, v.Rule.ID)
	if after := v.State.RetryAfter; after == limit.Never {
		body = append(body, `,"reason":"the limit can never hold this request's cost"`...)
	} else {
		values.RetryAfter = retrySeconds(after)
		a.Extra = http1.AppendFieldInt(a.Extra, "Retry-After", values.RetryAfter)
		if a.Style.LimitFields&XRateLimit != 0 {
			a.Extra = http1.AppendFieldInt(a.Extra, "X-RateLimit-Retry-After", values.RetryAfter)
		}
		body = append(body, `,"retryAfter":`...)
		body = appendSeconds(body, after)
	}
	a.end = callEnd{grpcResourceExhausted, values.Error, v.State.RetryAfter}
	a.Extra = v.AppendFields(a.Extra, a.Style.LimitFields)
	if id != nil {
		a.Extra = http1.AppendField(a.Extra, DecisionField, id)
		body = append(append(append(body, `,"decision":"`...), id...), '"')
	}
	if a.Deferred != "" {
		body = append(append(append(body, `,"deferred":"`...), a.Deferred...), '"')
		a.Deferred = ""
	}
	a.appendCORS(to)
	a.body = append(body, "}\n"...)
	return a.format(cmp.Or(v.Rule.Refusal.Status, a.Style.Status, 429), &v.Rule.Refusal, &values, to)
}

// RefuseMissingKey answers 400 to a request that a rule refuses because it lacks a part of the key.
// Retrying would not help.
func (a *Responder) RefuseMissingKey(h *rule.MatchedRule, to *ResponseOptions) http1.LocalResponse {
	a.body = h.AppendMissing(a.body[:0])
	a.end = callEnd{status: GRPCStatus(400), message: h.MissingMessage()}
	a.appendCORS(to)
	return a.json(400)
}

// Fail answers with a small JSON body. If standing is not nil, fields of the given
// families show the client's standing.
func (a *Responder) Fail(f *Failure, standing *Verdict, limitFields LimitFields,
	to *ResponseOptions) http1.LocalResponse {
	a.end = callEnd{GRPCStatus(f.Status), f.Reason, f.RetryAfter}
	body := append(a.body[:0], `{"error":"`...)
	body = append(body, f.Reason...)
	after := retrySeconds(f.RetryAfter)
	if f.Status == 503 || f.Status == 409 {
		a.Extra = http1.AppendFieldInt(a.Extra, "Retry-After", after)
		a.appendCORS(to)
	}
	if f.ID != nil {
		a.Extra = append(http1.AppendField(a.Extra, DecisionField, f.ID), ReasonField+": gate\r\n"...)
		body = append(body, `","reason":"gate","retryAfter":`...)
		body = strconv.AppendInt(body, after, 10)
		body = append(body, `,"decision":"`...)
		body = append(body, f.ID...)
	}
	a.body = append(body, "\"}\n"...)
	if f.Status == 405 {
		a.Extra = append(a.Extra, Allow...)
	}
	if standing != nil {
		a.Extra = standing.AppendFields(a.Extra, limitFields)
	}
	if f.Status != 503 {
		return a.json(f.Status)
	}
	return a.format(503, nil, &refusal.Values{Error: f.Reason, RetryAfter: after, Decision: f.ID}, to)
}

// json returns the answer with the current body.
func (a *Responder) json(status int) http1.LocalResponse {
	return http1.LocalResponse{Status: status, ContentType: "application/json", Body: a.body, Extra: a.Extra}
}

// format gives a refusal the form that its client accepts and the fields that the operator
// has configured. own is the configuration of the refusing rule, or nil. The body so far
// is that for API clients.
func (a *Responder) format(status int, own *rule.RefusalStyle, v *refusal.Values,
	to *ResponseOptions) http1.LocalResponse {
	fields, template := a.Style.Fields, ""
	if own != nil {
		template = own.Template
		if own.Lines() != nil {
			fields = own.Lines()
		}
	}
	a.Extra = append(a.Extra, fields...)
	if a.Pages == nil {
		return a.json(status)
	}
	v.Status, v.RequestID = status, to.RequestID
	page := a.Pages.Load().Pick(template, to.Accept)
	if page.Varies || fields != nil {
		a.Extra = append(a.Extra, "Vary: Accept\r\n"...)
	}
	answer := a.json(status)
	if page.Template != nil {
		a.body = page.Template.Append(a.body[:0], v)
		answer.ContentType, answer.Body = page.ContentType, a.body
	}
	return answer
}

// appendCORS appends the fields that let a browser show a refusal to the page that made
// the request (Fetch standard, section 3.3). Without them the page only sees a network
// error. Pages of any origin may read it, but without Access-Control-Allow-Credentials.
func (a *Responder) appendCORS(to *ResponseOptions) {
	if to.Origin == nil {
		return
	}
	dst := http1.AppendField(a.Extra, "Access-Control-Allow-Origin", to.Origin)
	dst = append(dst, "Vary: Origin\r\nAccess-Control-Expose-Headers: "+
		"Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Retry-After, "+
		DecisionField...)
	if to.RequestID != nil {
		dst = append(dst, ", "+RequestIDField...)
	}
	a.Extra = append(dst, "\r\n"...)
}

// appendID appends the id of a rule in quotes. It has no characters to escape.
func appendID(dst []byte, id string) []byte { return append(append(append(dst, '"'), id...), '"') }

// appendSeconds appends a duration in seconds, with as many digits as it needs.
func appendSeconds(dst []byte, span time.Duration) []byte {
	dst = strconv.AppendInt(dst, int64(span/time.Second), 10)
	rest := span % time.Second
	if rest > 0 {
		dst = append(dst, '.')
	}
	for ; rest > 0; rest %= time.Second {
		rest *= 10
		dst = append(dst, '0'+byte(rest/time.Second))
	}
	return dst
}

// retrySeconds rounds up, so that a client that waits this long is not too early. It is
// at least 1, since 0 would invite an immediate retry.
func retrySeconds(d time.Duration) int64 { return max(1, Seconds(d)) }
