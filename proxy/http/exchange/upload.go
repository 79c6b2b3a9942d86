package exchange

import (
	"time"

	"weir/internal/net/cycle"
)

// A body that is too large to be collected, or open, is streamed: the request is sent with the part
// received so far, and further pieces follow. While the target accepts no data the client is
// not read, so that TCP slows it down.
//
// The client sets the pace, so the exchange is a stream. But when the target has all of the request it
// works on it as on any other. Therefore the last piece is withheld until the target has a place. A target may work
// on each message of a gRPC call. So a call has a place before its head is sent. It becomes a stream when its answer
// begins, or before that when its messages pause, as those of clients that report something now and then and are
// answered only in the end. Then it needs a place again for its end.

// rateSpan is the time over which BodyRateMin is measured.
const rateSpan = 10 * time.Second

// admitted continues with an admitted request. A body that is known to be too large to be
// collected is streamed from the start.
func (x *Exchange) admitted(now time.Time) {
	x.expectsBody()
	x.awaitBody(now)
	if x.body.length > x.env.Settings.BufferBytesMax && !x.outcome.Own {
		x.stream(now)
	}
}

// expectsBody tells a client that waits for it to send the body (RFC 9110 section 10.1.1).
func (x *Exchange) expectsBody() {
	if x.body.expected {
		x.env.fx.Interim = append(x.env.fx.Interim, Response{Status: 100, Length: -1})
	}
}

// awaitBody sets the deadline of the next piece of the body, if the body is not complete.
func (x *Exchange) awaitBody(now time.Time) {
	if !x.InBody() {
		return
	}
	set := x.env.Settings
	if x.body.open && x.answer == answerRelaying {
		x.awaitEither(now)
		return
	}
	x.body.by = now.Add(set.BodyTimeout)
	if x.body.longLived {
		x.body.by = now.Add(set.StreamTimeout)
	} else if set.BodyRateMin > 0 && x.body.rateBy.IsZero() {
		x.body.rateBy, x.body.rateBytes = now.Add(rateSpan), 0
	}
	x.rearm()
}

// awaitEither sets the deadlines of the next piece in both directions, since either side may be silent
// while the other one sends.
func (x *Exchange) awaitEither(now time.Time) {
	by := now.Add(x.env.Settings.StreamTimeout)
	x.body.rateBy = time.Time{}
	if x.uploads() && !x.targetFull {
		x.body.by = by
	}
	if !x.clientFull {
		x.answerBy = by
	}
	x.rearm()
}

// rearm sets the deadline to the earliest one.
func (x *Exchange) rearm() {
	x.deadline = cycle.Earlier(cycle.Earlier(x.body.by, x.body.rateBy), x.answerBy)
}

// bodyPaused removes the deadlines of the body: the client is not read, or has sent all.
func (x *Exchange) bodyPaused() {
	if !x.body.by.IsZero() {
		x.body.by, x.body.rateBy = time.Time{}, time.Time{}
	}
	x.rearm()
}

// bodyLate handles a passed deadline of the body, and reports whether the exchange has ended.
func (x *Exchange) bodyLate(now time.Time) bool {
	set := x.env.Settings
	enough := int64(rateSpan/time.Second) * set.BodyRateMin
	if now.Before(x.body.by) && x.body.rateBytes >= enough {
		x.body.rateBy, x.body.rateBytes = now.Add(rateSpan), 0
		x.rearm()
		return false
	}
	if x.mayBeLongLived() {
		x.env.fx.Stream = true
		return false
	}
	x.answerError(now, 408, bodyOverdue)
	return true
}

const bodyOverdue = "the request body did not arrive in time"

// mayBeLongLived reports whether the request is a call whose messages may pause for longer than those of other
// bodies, as a stream.
func (x *Exchange) mayBeLongLived() bool {
	return x.interacts() && x.uploads() && x.answer <= answerHead && !x.body.longLived
}

// handleLongLived handles whether a call may be a stream.
func (x *Exchange) handleLongLived(now time.Time, ok bool) {
	if !ok {
		x.answerError(now, 408, bodyOverdue)
		return
	}
	x.body.longLived, x.body.rateBy = true, time.Time{}
	x.awaitBody(now)
}

// HandleBody handles a piece of the request's body. It is borrowed until the effects were carried out.
func (x *Exchange) HandleBody(now time.Time, p []byte) {
	b, most := &x.body, x.env.Settings.BufferBytesMax
	b.collected += int64(len(p))
	b.rateBytes += int64(len(p))
	if b.collected > x.bodyMax() {
		x.answerError(now, 413, bodyTooLarge)
		return
	}
	if x.outcome.Own && b.collected > most && x.overloaded() {
		x.answerError(now, 503, ShortOfMemory) // only these bodies are collected regardless of BufferBytesMax
		return
	}
	x.awaitBody(now)
	switch {
	case x.request == requestDeferring:
		x.keepBody(now, p)
	case !x.uploads():
		if x.forward.add(x.env, p); x.request == requestCollecting && !x.outcome.Own && b.collected > most {
			x.stream(now)
		}
	case b.collected == b.length:
		x.sent()
		b.last = append(x.env.take(), p...)
	default:
		x.sent()
		x.env.up.add(&x.env.fx.Upload, p)
	}
}

// HandleBodyPause says that what was received of a body of unknown length was handled, and the rest may come
// only after a part of the answer, as in calls of gRPC that stream in both directions. So it is not
// collected.
func (x *Exchange) HandleBodyPause(now time.Time) {
	if x.body.open || x.body.length >= 0 || x.outcome.Own {
		return
	}
	switch x.request {
	case requestCollecting:
		x.body.open = true
		x.stream(now)
	case requestStreaming:
		if x.body.open = true; x.answer == answerRelaying {
			x.awaitRelayed(now)
		}
	}
}

// interacts reports whether the target may work on the request before the end of its body: on the messages of a
// call of gRPC. So the request has a place from the start.
func (x *Exchange) interacts() bool { return x.callType != "" && x.body.length < 0 }

// sent frees the part of a streamed request that was sent.
func (x *Exchange) sent() {
	x.body.inPieces = true
	if x.env.fx.Forward == nil { // otherwise it is about to be
		x.forward.drop(x.env)
	}
}

// stream continues without waiting for the end of the body.
func (x *Exchange) stream(now time.Time) {
	x.request.become(requestStreaming)
	x.bodyPaused()
	x.acquire(now, AcquireAny)
}

// uploads reports whether the request's body is passed on to the target as it arrives.
func (x *Exchange) uploads() bool { return x.request == requestStreaming && x.upstream.held() }

// HandleBodyEnd handles the end of the request.
func (x *Exchange) HandleBodyEnd(now time.Time) {
	if x.request == requestDeferring {
		x.store()
		return
	}
	if x.request == requestStreaming {
		x.withhold(now)
		return
	}
	x.request.become(requestWhole)
	switch {
	case x.outcome.Own:
		x.endOwn()
	default:
		x.body.by, x.body.rateBy = time.Time{}, time.Time{}
		x.acquire(now, AcquireAny)
	}
}

// withhold keeps the last piece of a streamed request until the target has a place. A target that
// answers already does not wait for it.
func (x *Exchange) withhold(now time.Time) {
	x.request.become(requestWithheld)
	x.sent()
	x.bodyPaused()
	if x.interacts() && !x.body.longLived || x.answer == answerRelaying {
		x.sendLast(now)
		return
	}
	x.env.fx.Admit = true
	x.awaitAnswer(now)
}

// sendLast sends the last piece of a streamed request. If the head of the answer came early, its body is still due.
func (x *Exchange) sendLast(now time.Time) {
	x.request.become(requestWhole)
	x.env.up.add(&x.env.fx.Upload, x.body.last)
	x.env.fx.Uploaded, x.env.fx.UploadTrailers = true, x.body.trailers
	x.env.give(x.body.last)
	x.body.last = nil
	x.outcome.Complete = now
	if x.answer != answerRelaying {
		x.awaitAnswer(now)
	}
}

// HandleAdmitted says that the target has a place for the request, whose last piece is sent.
func (x *Exchange) HandleAdmitted(now time.Time) {
	x.env.Begin()
	if x.request == requestWithheld {
		x.sendLast(now)
	}
}

// HandleTargetFull reports whether the upstream connection currently accepts no data.
func (x *Exchange) HandleTargetFull(now time.Time, full bool) {
	x.env.Begin()
	x.targetFull = full
	if !x.uploads() {
		return
	}
	if full {
		x.bodyPaused() // the client is not at fault
		return
	}
	x.awaitBody(now)
}

// HandleClientFull reports whether the client currently accepts no data. Meanwhile a relayed
// answer is not read.
func (x *Exchange) HandleClientFull(now time.Time, full bool) {
	x.env.Begin()
	x.clientFull = full
	if x.answer == answerRelaying {
		x.awaitRelayed(now)
	}
}

// awaitRelayed sets the deadline of the next piece of a relayed answer.
func (x *Exchange) awaitRelayed(now time.Time) {
	x.answerBy = time.Time{} // the target is not at fault
	if !x.clientFull {
		x.answerBy = now.Add(x.env.Settings.StreamTimeout)
	}
	if x.body.open {
		x.awaitEither(now)
		return
	}
	x.rearm()
}
