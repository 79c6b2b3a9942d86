package exchange

import (
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
)

// HandleBadRequest handles bytes that are not a valid request, or not a valid rest of one.
// began is when the first byte arrived. The carrier cannot find the next request.
func (x *Exchange) HandleBadRequest(now, began time.Time, err error) {
	x.outcome.Began = began
	reason := "the request is malformed"
	if e, ok := err.(*http1.Error); ok {
		reason = e.Reason
	}
	x.answerError(now, http1.StatusOf(err), reason)
}

// HandleBadHead is HandleBadRequest for a head that is not valid, of which the method is known.
func (x *Exchange) HandleBadHead(now time.Time, method http1.Method, err error) {
	x.outcome.Method = method
	x.HandleBadRequest(now, now, err)
}

// answerError answers with an error of the proxy itself. Part of the request may be unread.
func (x *Exchange) answerError(now time.Time, status int, reason string) {
	x.unread = true
	x.abortResponse(now, status, reason)
}

// answerFault answers in place of a target. 503 means that the target cannot have executed the request: its
// last piece was not sent. After a request was sent on a connection that closed, it may have been.
func (x *Exchange) answerFault(now time.Time, why FailureKind) {
	if faults[why].status == 503 && !x.outcome.Sent.IsZero() && x.request != requestWithheld {
		why, x.retryAfter, x.env.shed = FaultClosed, 0, nil
	}
	x.outcome.Fault = why
	if x.request == requestStreaming {
		x.unread = true
	}
	x.abortResponse(now, faults[why].status, faults[why].reason)
}

// abortResponse answers with an error of the proxy itself instead of the target's answer. If part of
// that has been passed on, it cannot be completed, and the client must notice that (RFC 9112
// section 8).
func (x *Exchange) abortResponse(now time.Time, status int, reason string) {
	x.releaseUpstream(ReleaseDiscard)
	if fx := x.env.fx; fx.Forward != nil { // it was about to be sent
		fx.Forward, fx.Upload, fx.Uploaded = nil, nil, false
	}
	if x.answer != answerRelaying {
		x.outcome.Relayed = false // the target's answer is dropped
		x.env.fx.Body = nil
		x.finishError(now, status, reason)
		return
	}
	x.outcome.Status = x.received.status
	end := EndIncomplete
	if x.callOver(now) {
		end = EndTimedOut
	}
	x.endAs(now, end)
}

// finishError answers with an error of the proxy itself.
func (x *Exchange) finishError(now time.Time, status int, reason string) {
	failure := decide.Failure{Status: status, Reason: reason, RetryAfter: x.retryAfter, ID: x.env.shed}
	if x.env.shed != nil {
		x.outcome.ID = x.env.shed
	}
	var standing *decide.Verdict
	if x.outcome.Decision == Forwarded {
		standing = &x.verdict
	}
	x.finish(now, x.answers(now).Fail(&failure, standing, x.families(), x.asReader()))
}

// finish sends an answer of the proxy itself, whose Extra is the memory of x.answers, and
// ends the exchange.
func (x *Exchange) finish(now time.Time, a http1.LocalResponse) {
	if x.env.Settings.RequestID {
		if x.outcome.RequestID == nil { // no head was read
			x.outcome.RequestID = decide.AppendRequestID(x.env.Random, x.env.take())
		}
		a.Extra = x.appendRequestID(a.Extra)
	}
	status := a.Status
	if x.callType != "" {
		a = x.env.responder.EndCall(a, x.callType)
	}
	x.env.responder.Extra = a.Extra
	r := &x.env.final
	*r = Response{Status: a.Status, ContentType: a.ContentType, Fields: a.Extra, Length: -1, Unread: x.unread}
	if !a.Bodiless() && (x.callType == "" || !x.HTTP2) {
		r.Length = int64(len(a.Body))
		if x.outcome.Method != http1.HEAD {
			r.Framing = http1.BodyLength
			x.env.down.add(&x.env.fx.Body, a.Body)
			x.outcome.Bytes = r.Length
		}
	}
	x.env.fx.Response = r
	x.afterAnswer(now, status)
}

// afterAnswer ends an exchange that is answered.
func (x *Exchange) afterAnswer(now time.Time, status int) {
	x.outcome.Status = status
	x.env.fx.Complete = true
	x.endAs(now, EndAnswered)
}
