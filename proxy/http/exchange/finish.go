package exchange

import (
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
)

// HandleUnreadable handles bytes that are not a valid request, or not a valid rest of one.
// began is when the first byte arrived. The carrier cannot find the next request.
func (x *Exchange) HandleUnreadable(now, began time.Time, err error) {
	x.outcome.Began = began
	reason := "the request is malformed"
	if e, ok := err.(*http1.Error); ok {
		reason = e.Reason
	}
	x.answerError(now, http1.StatusOf(err), reason)
}

// answerError answers with an error of the proxy itself, and closes, because part of the request
// may be unread.
func (x *Exchange) answerError(now time.Time, status int, reason string) {
	x.keepAlive = false
	x.abortResponse(now, status, reason)
}

// answerFault answers in place of a target. 503 means that the target cannot have executed the request: its
// last piece was not sent. After a request was sent on a connection that closed, it may have been.
func (x *Exchange) answerFault(now time.Time, why Fault) {
	if faults[why].status == 503 && !x.outcome.Sent.IsZero() && x.request != requestWithheld {
		why, x.retryAfter, x.env.shed = FaultClosed, 0, nil
	}
	x.outcome.Fault = why
	if x.request == requestStreaming {
		x.keepAlive = false // part of the request may be unread
	}
	x.abortResponse(now, faults[why].status, faults[why].reason)
}

// abortResponse answers with an error of the proxy itself instead of the target's answer. If part of
// that has been passed on, it cannot be completed, and the client must notice that (RFC 9112
// section 8), so a body that ends with the close is reset.
func (x *Exchange) abortResponse(now time.Time, status int, reason string) {
	x.releaseUpstream(ReleaseDiscard)
	if x.answer != answerRelaying {
		x.outcome.Relayed, x.coding = false, codingPlain // the target's answer is dropped, and how it was to be passed on
		x.finishError(now, status, reason)
		return
	}
	x.outcome.Status = x.status
	end := EndClosed
	if x.coding == codingClose {
		end = EndAbort
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
func (x *Exchange) finish(now time.Time, a http1.Answer) {
	a.Head = x.outcome.Method == http1.HEAD
	a.Close = !x.keepAlive
	if x.env.Settings.RequestID {
		if x.outcome.RequestID == nil { // no head was read
			x.outcome.RequestID = decide.AppendRequestID(x.env.Random, x.env.take())
		}
		a.Extra = x.appendRequestID(a.Extra)
	}
	x.outcome.Bytes = int64(len(a.Body))
	if a.Head {
		x.outcome.Bytes = 0
	}
	if x.keepAlive && x.minor == 0 {
		a.Extra = append(a.Extra, "Connection: keep-alive\r\n"...)
	}
	x.env.answers.Extra = a.Extra
	x.env.out = http1.AppendAnswer(x.env.out, a)
	x.afterAnswer(now, a.Status)
}

// afterAnswer ends an exchange that is answered. If no further request is accepted, bytes that the
// client has sent meanwhile must not cause a reset, which may destroy the answer (RFC 9112
// section 9.6).
func (x *Exchange) afterAnswer(now time.Time, status int) {
	x.outcome.Status = status
	end := EndLinger
	if x.keepAlive && x.coding != codingClose {
		end = EndKeep
	}
	x.endAs(now, end)
}
