package exchange

import (
	"time"

	"weir/internal/net/http1"
)

// acquire requests a connection to a target. TargetTimeout covers all attempts to connect.
func (x *Exchange) acquire(now time.Time, how Acquire) {
	x.upstream.become(upstreamWanted)
	streams := x.request == requestStreaming
	x.env.fx.Acquire, x.env.fx.Partial = how, streams && !x.interacts()
	x.env.fx.Long = x.Private || streams || x.forward.Upgrade != ""
	if x.answerBy.IsZero() {
		x.answerBy = x.env.answerBy(now)
	}
	x.deadline = x.answerBy
}

// HandleWaits says that all connections to the chosen target are in use, and the exchange
// waits for one of them.
func (x *Exchange) HandleWaits(now time.Time) {
	x.env.Begin()
	if by := now.Add(x.env.Settings.WaitTimeout); by.Before(x.deadline) {
		x.deadline = by
	}
}

// acquireLate gives up waiting for a connection; nothing was sent. Only a wait for a busy
// connection ends before the time for all attempts.
func (x *Exchange) acquireLate(now time.Time) {
	x.env.fx.Acquire = AcquireCancel
	if x.deadline.Before(x.answerBy) {
		x.answerFault(now, FaultBusy)
		return
	}
	x.answerFault(now, FaultConnectTime)
}

// answerLate gives up an answer of which the head or the next piece is overdue.
func (x *Exchange) answerLate(now time.Time) {
	if x.request == requestWithheld {
		x.answerFault(now, FaultShed) // the target is not to blame: it waits for the last piece
		return
	}
	if x.answer == answerCollecting && x.received.size > x.env.Settings.BufferBytesMax {
		x.answerFault(now, FaultUnstreamed) // it was collected only because it could not be streamed
		return
	}
	x.answerFault(now, FaultTimeout)
}

// HandleAcquired provides an upstream connection. reused says that it has served other exchanges and is
// not private, so that another could replace it. It reports whether the exchange takes the connection.
func (x *Exchange) HandleAcquired(now time.Time, reused bool) bool {
	x.env.Begin()
	if x.upstream != upstreamWanted {
		return false
	}
	if reused {
		x.upstream.become(upstreamReused)
	} else {
		x.upstream.become(upstreamHeld)
	}
	x.outcome.Sent = now
	x.dropAsked()
	x.outcome.Retried = x.refused > 0 || x.replay == replayUnsure || x.failed != FaultNone
	x.env.fx.Forward = &x.forward
	if x.request == requestStreaming {
		x.answerBy = time.Time{}
		x.awaitBody(now)
		return true
	}
	x.env.fx.Uploaded, x.env.fx.UploadTrailers, x.outcome.Complete = true, x.body.trailers, now
	x.awaitAnswer(now)
	return true
}

// awaitAnswer sets the deadline of the head or the next piece of the answer.
func (x *Exchange) awaitAnswer(now time.Time) {
	x.answerBy = x.env.answerBy(now)
	x.deadline = x.answerBy
}

// answerBy returns when an answer to what is sent now is due. Most requests are sent in the turn in which
// they arrive, so that it is asked twice at the same time.
func (e *Env) answerBy(now time.Time) time.Time {
	if now != e.now {
		e.now, e.due = now, now.Add(e.Settings.TargetTimeout)
	}
	return e.due
}

// HandleUnavailable says that there is no connection to the chosen target. If it cannot be
// reached, the exchange requests another one: nothing was sent, so any request may be sent
// elsewhere.
func (x *Exchange) HandleUnavailable(now time.Time, why FailureKind) {
	x.env.Begin()
	if x.upstream != upstreamWanted {
		return
	}
	if why == FaultRefused || why == FaultConnect || why == FaultConnectTime {
		x.failed = why
		x.acquire(now, AcquireOther)
		return
	}
	x.answerFault(now, why)
}

// HandleShed says that the chosen target is overloaded, so the request is refused; its last piece
// was not sent. If nothing was sent, its charge is refunded. id is that of the decision, and
// borrowed.
func (x *Exchange) HandleShed(now time.Time, id []byte) {
	x.env.Begin()
	if x.upstream != upstreamWanted && x.request != requestWithheld {
		return
	}
	// another store may have decided about a delivery
	if x.outcome.Sent.IsZero() && x.chargedAt != 0 && !x.env.Delivery {
		x.refund(x.asked, x.verdict.Mode, x.chargedAt)
	}
	x.env.shed = id
	x.answerFault(now, FaultShed)
	x.env.shed = nil
}

// HandleExhausted says that there is no target left to try. several says that there is more
// than one, and after when one may be tried again. The fault of a single target is reported
// to the client.
func (x *Exchange) HandleExhausted(now time.Time, several bool, after time.Duration) {
	x.env.Begin()
	if x.upstream != upstreamWanted {
		return
	}
	if x.failed != FaultNone && !several {
		x.answerFault(now, x.failed)
		return
	}
	x.retryAfter = after
	x.answerFault(now, FaultNoTarget)
}

// HandleBytes says that bytes of the answer have arrived. It reports whether they are read now.
func (x *Exchange) HandleBytes() bool {
	x.env.Begin()
	if !x.Held() || x.Holds() {
		return false
	}
	if x.answer == answerWaiting {
		x.answer.become(answerHead)
	}
	return true
}

// HandleBadResponse handles an answer that is not valid; why is nil if the reason is unknown. A
// collected part of the answer is dropped.
func (x *Exchange) HandleBadResponse(now time.Time, why error) {
	x.outcome.Garbled = why
	x.answerFault(now, FaultGarbled)
}

// HandleSwitch handles the head of an answer that switches the protocol: the exchange becomes a tunnel. A
// switch that was not requested is not a valid answer.
func (x *Exchange) HandleSwitch(now time.Time, h *http1.Head) {
	asked := x.forward.Upgrade
	if err := h.CheckSwitch([]byte(asked)); asked == "" || err != nil {
		x.HandleBadResponse(now, err)
		return
	}
	protocol, _ := h.Value(http1.FieldUpgrade)
	start := len(x.env.fields) // those before are of interim responses
	r := x.beginResponse(now, h)
	x.env.fields = x.appendLimits(x.env.fields)
	r.Fields, r.Upgrade = x.env.fields[start:], protocol
	x.env.fx.Response = r
	x.outcome.Status, x.outcome.Relayed, x.outcome.Answered = 101, true, now
	x.report()
	x.forward.drop(x.env)
	x.env.give(x.origin) // no refusal follows
	x.origin = nil
	x.answer.become(answerDone)
	x.end, x.endedAt = EndTunnel, now
}

// HandlePause is called when everything that has arrived of an incomplete answer was handled. An
// answer whose length is known and small is collected, since it may still be cut off. Others, and
// one that takes longer than TargetTimeout, are passed on as they arrive.
func (x *Exchange) HandlePause(now time.Time) {
	r := &x.received
	switch x.answer {
	case answerRelaying:
		x.awaitRelayed(now)
	case answerCollecting:
		x.env.fx.Stream = r.size > x.env.Settings.BufferBytesMax || x.answersLong(now)
		if x.request != requestStreaming {
			x.awaitAnswer(now)
		}
		if r.head == nil {
			r.head = append(append(x.env.take(), x.env.final.Reason...), x.env.final.Fields...)
			r.fields = len(x.env.final.Reason)
		}
		x.collect()
	}
}

// collect keeps the pieces of the answer's body that came in this call.
func (x *Exchange) collect() {
	r, p := &x.received, x.env.fx.Body
	x.env.fx.Body = nil
	if len(p) > 0 && r.body == nil {
		r.body = x.env.take()
	}
	r.body = append(r.body, p...)
}

// answersLong reports whether an answer takes so long that it is streamed.
func (x *Exchange) answersLong(now time.Time) bool {
	return now.Sub(x.outcome.Answered) >= x.env.Settings.TargetTimeout
}

// OutcomeSoFar returns the outcome of an exchange whose answer has begun, as if it ended now.
func (x *Exchange) OutcomeSoFar() Outcome {
	o := x.outcome
	o.Status = x.received.status
	return o
}

// Method returns the method of the request.
func (x *Exchange) Method() http1.Method { return x.outcome.Method }

// HandleStream reports whether the current answer may be streamed. While no more streams are
// allowed it is collected, as far as time and BufferBytesMax permit. Before an answer it reports whether the messages
// of a call may pause.
func (x *Exchange) HandleStream(now time.Time, ok bool) {
	x.env.Begin()
	if x.mayBeLongLived() {
		x.handleLongLived(now, ok)
		return
	}
	if x.answer != answerCollecting {
		return
	}
	if !ok {
		if x.answersLong(now) || int64(len(x.received.body)) > x.env.Settings.BufferBytesMax {
			x.answerFault(now, FaultUnstreamed)
		}
		return
	}
	x.answer.become(answerRelaying)
	if x.request == requestWithheld {
		x.sendLast(now)
	}
	x.passOn()
	x.awaitRelayed(now)
}

// passOn passes on what was collected of the answer, in earlier calls and in this one.
func (x *Exchange) passOn() {
	r, f := &x.received, &x.env.final
	if r.head != nil {
		*f = Response{Status: r.status, Reason: r.head[:r.fields], Fields: r.head[r.fields:], Framing: r.framing,
			Length: r.length}
		x.collect()
		x.env.down.add(&x.env.fx.Body, r.body)
		x.env.give(r.head)
		x.env.give(r.body)
		r.head, r.body = nil, nil
	}
	f.Unread = x.unread
	x.env.fx.Response = f
}

// beginResponse makes a response from the head of an answer. Its fields, to which the caller may append,
// are at the end of those in env.
func (x *Exchange) beginResponse(now time.Time, h *http1.Head) *Response {
	r := &x.env.final
	*r = Response{Status: h.Status, Reason: h.Reason, Framing: h.Framing, Length: h.Length}
	x.env.fields = x.appendAnswerFields(now, x.env.fields, h)
	return r
}

// HandleResponseHead handles the head of an answer. An interim one is passed on at once (RFC 9110 section
// 15.2), except 100, which the proxy sends itself.
func (x *Exchange) HandleResponseHead(now time.Time, h *http1.Head) {
	start := len(x.env.fields)
	if h.Status == 100 || h.Status == 101 { // HandleSwitch follows
		return
	}
	r := x.beginResponse(now, h)
	if h.Status < 200 {
		r.Fields = x.env.fields[start:]
		x.env.fx.Interim = append(x.env.fx.Interim, *r)
		return
	}
	x.answer.become(answerCollecting)
	x.outcome.Relayed, x.outcome.Answered = true, now
	x.received = received{status: h.Status, size: h.Size(), framing: h.Framing, length: h.Length}
	if h.Framing == http1.BodyChunked {
		x.received.hops = h.AppendHopNames(nil)
	}
	if h.KeepAlive {
		x.received.after = ReleaseKeep
	}
	if x.request == requestStreaming {
		x.unread = true // the rest of the request may never be read
	}
	x.env.fields = x.appendLimits(x.env.fields)
	r.Fields = x.env.fields[start:]
}

// appendAnswerFields appends the fields of an answer, except those of its connection and framing.
func (x *Exchange) appendAnswerFields(now time.Time, dst []byte, h *http1.Head) []byte {
	if h.Status >= 200 {
		x.theirs = x.verdict.Tighter(h)
	}
	dated, ours, fields := h.Status < 200, x.families(), h.Fields
	for i := range fields {
		f := &fields[i]
		if http1.IsConnectionAuth(f) {
			x.Private = true
		}
		if f.Hop || x.replacesID(f) || f.ID == http1.FieldOther && x.verdict.Replaces(f.Name, ours) {
			continue
		}
		dated = dated || f.ID == http1.FieldDate
		dst = http1.AppendFieldLine(dst, f)
	}
	if !dated { // RFC 9110 section 6.6.1
		date, _ := x.env.date.At(now)
		dst = append(dst, date...)
	}
	return x.appendVia(x.appendRequestID(dst), x.AnswerHTTP2, h.Minor)
}

// HandleResponseBody handles a piece of the answer's body. It is borrowed until the effects were carried
// out.
func (x *Exchange) HandleResponseBody(p []byte) {
	x.outcome.Bytes += int64(len(p))
	x.env.down.add(&x.env.fx.Body, p)
}

// HandleResponseEnd ends an exchange whose answer is complete. clean says that nothing followed it, so that its
// connection can be used again.
func (x *Exchange) HandleResponseEnd(now time.Time, clean bool) {
	if x.answer != answerRelaying {
		x.passOn()
	}
	how := ReleaseDiscard
	if x.received.after == ReleaseKeep && clean && x.request == requestWhole {
		how = ReleaseKeep
		if x.Private {
			how = ReleasePrivate
		}
	}
	x.releaseUpstream(how)
	x.afterAnswer(now, x.received.status)
}
