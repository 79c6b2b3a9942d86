package exchange

import "time"

// HandleUpstreamClosed handles the close of the upstream connection; complete says that it is the end of
// an answer without a length. Before the first byte of an answer, on a reused connection, it means that
// the target had closed the idle connection when the request arrived; then the request is sent again
// once, if all of it is still there (RFC 9112 section 9.3.1).
func (x *Exchange) HandleUpstreamClosed(now time.Time, complete bool) {
	x.env.Begin()
	if !x.upstream.held() {
		return
	}
	again := x.upstream == upstreamReused && x.replay == replayOnce && x.refused == 0 && x.whole()
	x.upstream.become(upstreamNone)
	switch {
	case again:
		x.replay = replayUnsure
		x.acquire(now, AcquireFresh)
	case complete && x.answer >= answerCollecting:
		x.HandleResponseEnd(now, false)
	default:
		x.answerFault(now, FaultClosed)
	}
}

// whole reports whether all of the request is still there, and nothing of an answer.
func (x *Exchange) whole() bool {
	return x.answer == answerWaiting && x.request == requestWhole && !x.body.inPieces
}

// refusedMax is how often a request that the target has not processed is sent again; then 503.
const refusedMax = 3

// HandleUpstreamReset handles that the target ends the stream of the exchange before its answer is
// complete. If the target says that it has not processed the request, that is sent again, if all of it is
// still there (RFC 9113 section 8.7). A target that ends its connections after a number of requests may do so
// with several of those on which the request is sent.
func (x *Exchange) HandleUpstreamReset(now time.Time, unprocessed bool) {
	x.env.Begin()
	switch {
	case !x.upstream.held():
	case x.callOver(now):
		x.endLateCall(now)
	case !unprocessed || x.answer > answerHead:
		x.answerFault(now, FaultClosed)
	case x.replay != replayUnsure && x.refused < refusedMax && x.whole():
		x.refused++
		x.outcome.Sent, x.outcome.Complete = time.Time{}, time.Time{}
		x.releaseUpstream(ReleaseDiscard)
		x.acquire(now, AcquireFresh)
	default:
		x.answerUnsent(now, FaultUnprocessed)
	}
}

// HandleHeadTooLarge says that the request was not sent on the upstream connection, because the target
// accepts no head of its size.
func (x *Exchange) HandleHeadTooLarge(now time.Time) {
	x.env.Begin()
	if x.upstream.held() {
		x.answerUnsent(now, FaultHead)
	}
}

// answerUnsent answers in place of a target that has not processed the request, unless it may have done so when
// the request was sent before.
func (x *Exchange) answerUnsent(now time.Time, why FailureKind) {
	if x.replay != replayUnsure {
		x.outcome.Sent, x.outcome.Complete = time.Time{}, time.Time{}
	}
	x.answerFault(now, why)
}
