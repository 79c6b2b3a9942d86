package exchange

import (
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/proxy/refusal"
)

// HandleUnreadable says that what came is no request, or that the rest of it cannot be
// read. began is when its first byte came. The carrier cannot find the next request.
func (x *Exchange) HandleUnreadable(now, began time.Time, err error) {
	x.outcome.Began = began
	x.unreadable(now, err)
}

func (x *Exchange) unreadable(now time.Time, err error) {
	reason := "the request is malformed"
	if e, ok := err.(*http1.Error); ok {
		reason = e.Reason
	}
	x.fail(now, http1.StatusOf(err), reason)
}

// fail answers with an error of the proxy's own and closes: something of the
// request may be unread.
func (x *Exchange) fail(now time.Time, status int, reason string) {
	x.letGo(ReleaseDiscard)
	if x.answer == answerRelaying {
		x.abort(now)
		return
	}
	x.keepAlive = false
	x.outcome.Relayed = false
	x.answerError(now, status, reason)
}

// abort ends an exchange whose answer has begun and cannot be completed: the
// client must notice (RFC 9112 section 8). A body that the close would end as
// if it were whole is reset.
func (x *Exchange) abort(now time.Time) {
	end := EndClosed
	if x.coding == codingClose {
		end = EndAbort
	}
	x.outcome.Status = x.status
	x.ends(now, end)
}

// answerError answers with a small JSON body. It never repeats bytes of client
// or target.
func (x *Exchange) answerError(now time.Time, status int, reason string) {
	body := append(x.env.body[:0], `{"error":"`...)
	body = append(body, reason...)
	extra := x.env.appendDate(x.env.extra[:0], now)
	if status == 503 {
		extra = http1.AppendFieldInt(extra, "Retry-After", wholeSeconds(x.retryAfter))
		extra = x.appendCORS(extra)
	}
	if id := x.env.shed; id != nil {
		x.outcome.ID = id
		extra = http1.AppendField(extra, decisionField, id)
		body = append(body, `","reason":"gate","retryAfter":`...)
		body = strconv.AppendInt(body, wholeSeconds(x.retryAfter), 10)
		body = append(body, `,"decision":"`...)
		body = append(body, id...)
	}
	body = append(body, "\"}\n"...)
	x.env.body = body
	if status == 405 {
		extra = append(extra, allow...)
	}
	if x.outcome.Decision == Forwarded {
		extra = x.appendLimits(extra)
	}
	x.env.extra = extra
	a := http1.Answer{Status: status, ContentType: "application/json", Body: body, Extra: extra}
	if status == 503 {
		x.dress(&a, nil, &refusal.Values{Error: reason, RetryAfter: wholeSeconds(x.retryAfter), Decision: x.env.shed})
	}
	x.finish(now, a)
}

// finish sends an answer of our own and ends the exchange.
func (x *Exchange) finish(now time.Time, a http1.Answer) {
	a.Head = x.outcome.Method == http1.HEAD
	a.Close = !x.keepAlive
	if x.env.Settings.RequestID {
		if x.outcome.RequestID == nil { // no head was read
			x.outcome.RequestID = appendRequestID(x.env.Random, x.env.take())
		}
		a.Extra = x.appendRequestID(a.Extra)
		x.env.extra = a.Extra
	}
	x.outcome.Bytes = int64(len(a.Body))
	if a.Head {
		x.outcome.Bytes = 0
	}
	if x.keepAlive && x.minor == 0 {
		a.Extra = append(a.Extra, "Connection: keep-alive\r\n"...)
		x.env.extra = a.Extra
	}
	x.env.out = http1.AppendAnswer(x.env.out, a)
	x.ended(now, a.Status)
}

// ended ends an exchange that is answered. Where no further request is taken, bytes that
// the client has sent meanwhile must not reset the connection under the answer (RFC 9112
// section 9.6).
func (x *Exchange) ended(now time.Time, status int) {
	x.outcome.Status = status
	end := EndLinger
	if x.keepAlive && x.coding != codingClose {
		end = EndKeep
	}
	x.ends(now, end)
}

// fault answers for a target that did not. Where its answer has begun to be
// passed on the client must notice instead.
func (x *Exchange) fault(now time.Time, why Fault) {
	x.outcome.Fault = why
	status, reason := why.answer()
	if x.answer == answerRelaying || x.request == requestStreaming {
		x.fail(now, status, reason) // some of the request is unread
		return
	}
	x.letGo(ReleaseDiscard)
	x.outcome.Relayed = false
	x.answerError(now, status, reason)
}

// answer is what the client is told about a fault.
func (f Fault) answer() (status int, reason string) {
	switch f {
	case FaultRefused:
		return 502, "the target refuses connections"
	case FaultConnect:
		return 502, "the target cannot be reached"
	case FaultConnectTime:
		return 504, "the target did not accept a connection in time"
	case FaultBusy:
		return 503, "all connections to the target are taken"
	case FaultGate:
		return 503, "the target is overloaded"
	case FaultStreams:
		return 503, "all connections to the target that may carry tunnels and streams are taken"
	case FaultTimeout:
		return 504, "the target did not answer in time"
	case FaultGarbled:
		return 502, "the target's answer is not proper HTTP"
	case FaultNoTarget:
		return 503, "no target can be reached"
	}
	return 502, "the target closed the connection before its answer was complete"
}
