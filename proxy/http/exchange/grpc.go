package exchange

import (
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
)

// A call of gRPC is a request like others. Only what the proxy itself answers has another form, and the client
// says how long it waits.

// noticeCall records whether the request is a call of gRPC, and until when its client waits.
func (x *Exchange) noticeCall(now time.Time, h *http1.Head) {
	if h.Method != http1.POST || x.outcome.Own {
		return
	}
	kind, _ := h.Value(http1.FieldContentType)
	if x.callType = decide.GRPCContentType(kind); x.callType == "" {
		return
	}
	value, _ := h.Field("grpc-timeout")
	if timeout, ok := decide.GRPCTimeout(value); ok {
		x.callBy = now.Add(timeout)
	}
}

// callWaits reports whether callBy applies now: the head of the answer has not arrived. While the limiter or the
// store is asked, it does not apply, because that has a short timeout of its own.
func (x *Exchange) callWaits() bool {
	if x.callBy.IsZero() || x.answer > answerHead {
		return false
	}
	switch x.request {
	case requestQueued, requestCollecting, requestStreaming, requestWhole, requestWithheld:
		return true
	}
	return false
}

// callOver reports whether the client of a call waits no longer.
func (x *Exchange) callOver(now time.Time) bool { return !x.callBy.IsZero() && !now.Before(x.callBy) }

// endLateCall ends a call whose client waits no longer. The target may have been first to do so: it counts down the
// same time.
func (x *Exchange) endLateCall(now time.Time) {
	x.unread = x.InBody()
	x.abortResponse(now, 504, "the time that the client waits has passed")
}

// callLate ends a call whose client waits no longer. That says nothing about the target, which goes on working on
// a call that is complete, as if the client had disconnected.
func (x *Exchange) callLate(now time.Time) {
	if x.request == requestQueued {
		x.refund(x.asked, x.verdict.Mode, 0)
	}
	if x.upstream == upstreamWanted {
		x.env.fx.Acquire = AcquireCancel
	}
	x.releaseUpstream(x.abandon())
	x.endLateCall(now)
}
