package decide

import (
	"bytes"
	"strconv"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/deferred"
)

// A StoredRequest is a stored request that will be delivered.
type StoredRequest struct {
	Stored  *deferred.PutResult
	Path    string // path of the status URL, before the id
	Applied string // the client's preferences (Prefer) that were applied
}

// Accept answers 202 for a refused request that was stored: where to see its state, and
// the earliest time at which its limit would admit it if only its own line counted. If the same
// request was stored before and is in a final state, it answers with the target's answer, or 409 if
// there is none that is complete.
func (a *Responder) Accept(now time.Time, p *StoredRequest, v *Verdict, to *ResponseOptions) http1.LocalResponse {
	s := p.Stored
	if s.State == deferred.Done && s.Result != nil && !s.Result.Truncated {
		return a.repeat(s.Result)
	}
	status := 202
	if s.State.Final() {
		status = 409
	}
	id := s.ID.String()
	a.Extra = http1.AppendField(a.Extra, "Location", p.Path+id)
	a.Extra = append(a.Extra, "Cache-Control: no-store\r\n"...)
	body := append(a.body[:0], `{"id":"`...)
	body = append(append(append(body, id...), `","state":"`...), s.State.String()...)
	body = appendID(append(body, `","rule":`...), v.Rule.ID)
	if s.State == deferred.Waiting {
		at := v.earliest(now, s)
		a.Extra = http1.AppendFieldInt(a.Extra, "Retry-After", retrySeconds(at.Sub(now)))
		body = strconv.AppendInt(append(body, `,"position":`...), int64(s.Position), 10)
		body = appendTime(append(body, `,"notBefore":`...), at)
	}
	if p.Applied != "" && status == 202 {
		a.Extra = http1.AppendField(a.Extra, "Preference-Applied", p.Applied)
	}
	body = appendTime(append(body, `,"expires":`...), s.Expires)
	body = strconv.AppendQuote(append(body, `,"durability":`...), s.Durability)
	if s.Scope != "" {
		body = strconv.AppendQuote(append(body, `,"scope":`...), s.Scope)
	}
	a.body = append(body, "}\n"...)
	a.appendCORS(to)
	return a.json(status)
}

// repeat answers with a stored answer of the target. Its fields follow the line of the request, see
// deferred.Result.
func (a *Responder) repeat(r *deferred.Result) http1.LocalResponse {
	_, lines, _ := bytes.Cut(r.Head, []byte("\r\n"))
	for line := range bytes.Lines(lines) {
		if name, _, ok := bytes.Cut(line, []byte(":")); ok && !isOwn(name) {
			a.Extra = append(a.Extra, line...)
		}
	}
	return http1.LocalResponse{Status: r.Status, Body: r.Body, Extra: a.Extra}
}

// isOwn reports whether each answer has a field of that name of its own.
func isOwn(name []byte) bool {
	for _, own := range [...]string{"Content-Length", "Date", RequestIDField} {
		if http1.EqualFold(name, own) {
			return true
		}
	}
	return false
}

// earliest returns when a request may be delivered, by its place in its line.
func (v *Verdict) earliest(now time.Time, s *deferred.PutResult) time.Time {
	at := s.Due
	if at.Before(now) {
		at = now
	}
	if rate := v.Limit.Rate(); rate > 0 && s.Position > 1 {
		wait := float64(s.Position-1) * float64(v.By.Cost) / rate * float64(time.Second)
		at = at.Add(time.Duration(min(wait, float64(s.Expires.Sub(now)))))
	}
	return at
}

// WhyNotStored says why a refused request could not be stored. If the queue is full, it names
// the time when the first request of its line is due, which makes room.
func (v *Verdict) WhyNotStored(now time.Time, s *deferred.PutResult) (why string) {
	switch {
	case s.Outcome != deferred.Full:
		return "queue cannot be written"
	case s.Bound == deferred.BoundRate:
		return "too many requests are being stored"
	case s.Due.After(now):
		v.State.RetryAfter = s.Due.Sub(now)
	}
	return "queue is full"
}

// appendTime appends a time in JSON.
func appendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000Z")
	return append(dst, '"')
}
