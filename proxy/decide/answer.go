package decide

import (
	"cmp"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/refusal"
	"weir/proxy/rule"
)

// The fields that carry ids: of a decision, and of a request.
const (
	DecisionField  = "X-Weir-Decision"
	RequestIDField = "X-Request-Id"
)

// Allow is the field of a 405 and of the answer to OPTIONS.
const Allow = "Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS\r\n"

// A Style is how refusals look unless their rule says otherwise.
type Style struct {
	Families Families // of fields that say where a client stands
	Status   int      // 429 or 503; 0: 429
	Fields   []byte   // further field lines, also of every 503
}

// A Reader is the client that an answer is for. It is borrowed.
type Reader struct {
	Accept    refusal.Accept // the forms that it wants
	Origin    []byte         // of the page that makes the request; nil: it is not to be named
	RequestID []byte         // nil: there is none
}

// Answers writes answers of the limiter and errors of the proxy, one after another: the
// next overwrites the last. A caller begins Extra with the fields that come first.
//
// Owned by its loop.
type Answers struct {
	Style *Style
	Pages *atomic.Pointer[refusal.Pages] // templates in force; nil: refusals are JSON
	Extra []byte                         // field lines, and their memory
	// Deferred is why the request refused next could not be stored; empty: it was not to be.
	Deferred string
	body     []byte
}

// A Failure is an error of the proxy's own, or of a target.
type Failure struct {
	Status     int
	Reason     string        // free of bytes of client or target
	RetryAfter time.Duration // of a 503 or 409
	ID         []byte        // of the decision, when a gate has shed the request; else nil
}

// Refuse answers a request that a verdict refuses, by default with 429 (RFC 6585 section
// 4), and says everything that a client needs in order to come back at the right time. id
// is the decision's; nil: nobody can be asked about it.
func (a *Answers) Refuse(v *Verdict, id []byte, to *Reader) http1.Answer {
	values := refusal.Values{Error: "rate limit exceeded", Rule: v.Rule.ID, Limit: v.State.Limit, Remaining: v.State.Remaining, RetryAfter: -1, Decision: id}
	body := append(a.body[:0], `{"error":"rate limit exceeded","rule":`...)
	body = strconv.AppendQuote(body, v.Rule.ID)
	if after := v.State.RetryAfter; after == limit.Never {
		body = append(body, `,"reason":"the limit can never hold this request's cost"`...)
	} else {
		values.RetryAfter = retrySeconds(after)
		a.Extra = http1.AppendFieldInt(a.Extra, "Retry-After", values.RetryAfter)
		if a.Style.Families&Legacy != 0 {
			a.Extra = http1.AppendFieldInt(a.Extra, "X-RateLimit-Retry-After", values.RetryAfter)
		}
		body = append(body, `,"retryAfter":`...)
		body = appendSeconds(body, after)
	}
	a.Extra = v.AppendFields(a.Extra, a.Style.Families)
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
	return a.dress(cmp.Or(v.Rule.Refusal.Status, a.Style.Status, 429), &v.Rule.Refusal, &values, to)
}

// Lack answers a request that a rule refuses because it lacks a part of the key: 400, as
// it will not do later either.
func (a *Answers) Lack(h *rule.Hit, to *Reader) http1.Answer {
	a.body = h.AppendLack(a.body[:0])
	a.appendCORS(to)
	return a.json(400)
}

// Fail answers with a small JSON body. standing are the fields, in families, that say where
// the client stands; nil: no permit was taken.
func (a *Answers) Fail(f *Failure, standing *Verdict, families Families, to *Reader) http1.Answer {
	body := append(a.body[:0], `{"error":"`...)
	body = append(body, f.Reason...)
	after := retrySeconds(f.RetryAfter)
	if f.Status == 503 || f.Status == 409 {
		a.Extra = http1.AppendFieldInt(a.Extra, "Retry-After", after)
		a.appendCORS(to)
	}
	if f.ID != nil {
		a.Extra = http1.AppendField(a.Extra, DecisionField, f.ID)
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
		a.Extra = standing.AppendFields(a.Extra, families)
	}
	if f.Status != 503 {
		return a.json(f.Status)
	}
	return a.dress(503, nil, &refusal.Values{Error: f.Reason, RetryAfter: after, Decision: f.ID}, to)
}

// json is the answer with the body as it is.
func (a *Answers) json(status int) http1.Answer {
	return http1.Answer{Status: status, ContentType: "application/json", Body: a.body, Extra: a.Extra}
}

// dress gives a refusal the form that its client wants, and what the operator has added.
// own is what the rule that refuses says of it; nil: there is none. The body is that for
// API clients so far.
func (a *Answers) dress(status int, own *rule.Refusal, v *refusal.Values, to *Reader) http1.Answer {
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

// appendCORS appends what has a browser show a refusal to the page that made the
// request (Fetch standard, section 3.3). Without it the page learns of a network error
// only. Pages of any origin may read it, but without Access-Control-Allow-Credentials.
func (a *Answers) appendCORS(to *Reader) {
	if to.Origin == nil {
		return
	}
	dst := http1.AppendField(a.Extra, "Access-Control-Allow-Origin", to.Origin)
	dst = append(dst, "Vary: Origin\r\nAccess-Control-Expose-Headers: "+
		"Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Retry-After, "+DecisionField...)
	if to.RequestID != nil {
		dst = append(dst, ", "+RequestIDField...)
	}
	a.Extra = append(dst, "\r\n"...)
}

// appendSeconds appends a span in seconds, with its own digits: Duration.Seconds rounds
// twice, and 2.989333 becomes 2.9893330000000002.
func appendSeconds(b []byte, span time.Duration) []byte {
	return strconv.AppendFloat(b, float64(span)/float64(time.Second), 'f', -1, 64)
}

// retrySeconds rounds up, so that a client that waits so long is not too early;
// at least 1, as 0 would ask for an immediate retry.
func retrySeconds(d time.Duration) int64 { return max(1, Seconds(d)) }
