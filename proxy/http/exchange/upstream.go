package exchange

import (
	"errors"
	"io"
	"time"

	"weir/internal/net/http1"
)

// acquire requests a connection to a target. TargetTimeout covers all attempts to connect.
func (x *Exchange) acquire(now time.Time, how Acquire) {
	x.upstream.become(upstreamWanted)
	x.fx.Acquire, x.fx.Partial = how, x.request == requestStreaming
	x.fx.Long = x.Private || x.fx.Partial || x.upgrade != ""
	if x.answerBy.IsZero() {
		x.answerBy = now.Add(x.env.Settings.TargetTimeout)
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
	x.fx.Acquire = AcquireCancel
	if x.deadline.Before(x.answerBy) {
		x.answerFault(now, FaultBusy)
		return
	}
	x.answerFault(now, FaultConnectTime)
}

// answerLate gives up an answer of which the head or the next piece is overdue.
func (x *Exchange) answerLate(now time.Time) {
	if x.request == requestWithheld {
		x.answerFault(now, FaultGate) // the target is not to blame: it waits for the last piece
		return
	}
	if x.answer == answerCollecting && x.size > x.env.Settings.BufferBytesMax {
		x.answerFault(now, FaultUnstreamed) // it was collected only because it could not be streamed
		return
	}
	x.answerFault(now, FaultTimeout)
}

// HandleAcquired provides an upstream connection. host is the target's host and port; reused
// says that the connection has served other exchanges and is not private, so that another
// could replace it. It reports whether the exchange takes the connection.
func (x *Exchange) HandleAcquired(now time.Time, host string, reused bool) bool {
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
	x.outcome.Retried = x.replay == replayDone || x.failed != FaultNone
	x.reader.ResponseTo(x.outcome.Method)
	x.fx.Upstream = x.forward
	if at := x.hostAt; at > 0 {
		up := append(x.env.up[:0], x.forward[:at]...)
		up = http1.AppendField(up, "Host", host)
		x.env.up = append(up, x.forward[at:]...)
	}
	if x.request == requestStreaming {
		x.answerBy = time.Time{}
		x.awaitBody(now)
		return true
	}
	x.outcome.Complete = now
	x.awaitAnswer(now)
	return true
}

// awaitAnswer sets the deadline of the head or the next piece of the answer.
func (x *Exchange) awaitAnswer(now time.Time) {
	x.answerBy = now.Add(x.env.Settings.TargetTimeout)
	x.deadline = x.answerBy
}

// HandleUnavailable says that there is no connection to the chosen target. If it cannot be
// reached, the exchange requests another one: nothing was sent, so any request may be sent
// elsewhere.
func (x *Exchange) HandleUnavailable(now time.Time, why Fault) {
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

// HandleShed says that the chosen target is overloaded and the request is refused; its last piece was
// not sent. What it was charged is given back if nothing was sent. id is that of the decision, and borrowed.
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
	x.answerFault(now, FaultGate)
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

// HandleUpstream handles bytes from the upstream connection, and returns how many it has
// consumed. If there are more bytes than the answer has, the connection is discarded. While
// the client accepts no data, a relayed answer is not consumed, and the owner passes the
// bytes again later.
func (x *Exchange) HandleUpstream(now time.Time, b []byte) int {
	x.env.Begin()
	if !x.upstream.held() || x.Holds() {
		return 0
	}
	if x.answer == answerWaiting {
		x.answer.become(answerHead)
	}
	mark := len(x.env.out)
	n := 0
	for {
		ev, err := x.reader.Next(b[n:], &x.env.response)
		if err != nil {
			x.garbled(now, mark, err)
			return n
		}
		n += ev.N
		switch ev.Kind {
		case http1.NeedMore:
			x.keep(now, mark)
			return n
		case http1.HeadDone:
			mark = x.handleAnswerHead(now, mark)
		case http1.Data:
			x.handleAnswerBody(ev.Data)
		case http1.End:
			if ev.Trailer { // it is not passed on
				x.outcome.Trailers++
			}
			x.answered(now, n == len(b))
			return n
		case http1.Upgraded:
			x.upgraded(now, mark)
			return n
		}
	}
}

// garbled handles an answer that is not valid HTTP. The part collected since mark is dropped.
func (x *Exchange) garbled(now time.Time, mark int, why error) {
	x.outcome.Garbled = why
	if x.answer != answerRelaying {
		x.env.out = x.env.out[:mark]
	}
	x.answerFault(now, FaultGarbled)
}

// upgraded handles a switch of protocols: the exchange becomes a tunnel. A switch that was not
// requested is not a valid answer.
func (x *Exchange) upgraded(now time.Time, mark int) {
	h := &x.env.response
	if err := h.CheckSwitch([]byte(x.upgrade)); x.upgrade == "" || err != nil {
		x.garbled(now, mark, err)
		return
	}
	protocol, _ := h.Value(http1.FieldUpgrade)
	out := x.appendAnswerHead(now, x.env.out, h)
	out = x.appendLimits(out)
	out = append(out, "Connection: upgrade\r\n"...)
	out = http1.AppendField(out, "Upgrade", protocol)
	x.env.out = http1.AppendHeadEnd(out)
	x.outcome.Status, x.outcome.Relayed, x.outcome.Answered = 101, true, now
	x.report()
	x.sentRequest()
	x.env.give(x.origin) // no refusal follows
	x.origin = nil
	x.answer.become(answerDone)
	x.end, x.endedAt = EndTunnel, now
}

// keep handles an answer that is not complete within one call. If its length is known and
// small it is collected, since it may still be cut off. Others, and one that takes longer
// than TargetTimeout, are passed on as they arrive.
func (x *Exchange) keep(now time.Time, mark int) {
	switch x.answer {
	case answerRelaying:
		x.awaitRelayed(now)
		return
	case answerCollecting:
		x.fx.Stream = x.size > x.env.Settings.BufferBytesMax || x.answersLong(now)
		if x.request != requestStreaming {
			x.awaitAnswer(now)
		}
	}
	if x.response != nil || len(x.env.out) == mark {
		return
	}
	x.response = append(x.env.take(), x.env.out[mark:]...)
	x.env.out = x.env.out[:mark]
}

// answersLong reports whether an answer takes so long that it is streamed.
func (x *Exchange) answersLong(now time.Time) bool {
	return now.Sub(x.outcome.Answered) >= x.env.Settings.TargetTimeout
}

// OutcomeSoFar returns the outcome of an exchange whose answer has begun, as if it ended now.
func (x *Exchange) OutcomeSoFar() Outcome {
	o := x.outcome
	o.Status = x.status
	return o
}

// Method returns the method of the request.
func (x *Exchange) Method() http1.Method { return x.outcome.Method }

// HandleStream reports whether the current answer may be streamed. While no more streams are
// allowed it is collected, as far as time and BufferBytesMax permit.
func (x *Exchange) HandleStream(now time.Time, ok bool) {
	x.env.Begin()
	if x.answer != answerCollecting {
		return
	}
	if !ok {
		if x.answersLong(now) || int64(len(x.response)) > x.env.Settings.BufferBytesMax {
			x.answerFault(now, FaultUnstreamed)
		}
		return
	}
	x.answer.become(answerRelaying)
	if x.request == requestWithheld {
		x.sendLast(now)
	}
	x.env.out = append(x.env.out, x.response...)
	x.env.give(x.response)
	x.response = nil
	x.awaitRelayed(now)
}

// buffer returns the buffer for the answer: that of the loop during the first call, then
// one of its own.
func (x *Exchange) buffer() *[]byte {
	if x.response != nil {
		return &x.response
	}
	return &x.env.out
}

// handleAnswerHead appends the head in env.response for the client. It returns where the
// final answer begins in the loop's buffer: an interim answer before it is sent immediately
// (RFC 9110 section 15.2).
func (x *Exchange) handleAnswerHead(now time.Time, mark int) int {
	h := &x.env.response
	if h.Status < 200 {
		if h.Status == 100 || h.Status == 101 || x.minor == 0 {
			return mark // the proxy sends 100 itself; upgraded handles 101
		}
		x.env.out = x.appendAnswerHead(now, x.env.out, h)
		x.env.out = http1.AppendHeadEnd(x.env.out)
		return len(x.env.out)
	}
	x.answer.become(answerCollecting)
	x.status, x.outcome.Relayed, x.outcome.Answered = h.Status, true, now
	if h.KeepAlive {
		x.after = ReleaseKeep
	}
	x.theirs = x.verdict.Tighter(h)
	if x.request == requestStreaming {
		x.keepAlive = false // the rest of the request may never be read
	}
	out := x.appendAnswerHead(now, x.env.out, h)
	out = x.appendLimits(out)
	x.size = h.Size()
	switch {
	case h.Framing == http1.BodyChunked || h.Framing == http1.BodyUntilClose:
		x.coding = codingClose
		if x.minor > 0 {
			x.coding = codingChunks
			out = http1.AppendField(out, "Transfer-Encoding", "chunked")
		}
	case h.Length >= 0:
		out = http1.AppendFieldInt(out, "Content-Length", h.Length)
	}
	switch {
	case !x.keepAlive || x.coding == codingClose:
		out = http1.AppendField(out, "Connection", "close")
	case x.minor == 0:
		out = http1.AppendField(out, "Connection", "keep-alive")
	}
	x.env.out = http1.AppendHeadEnd(out)
	return mark
}

// appendAnswerHead appends the status line and the fields except those of the framing.
func (x *Exchange) appendAnswerHead(now time.Time, dst []byte, h *http1.Head) []byte {
	dst = http1.AppendStatusLine(dst, h.Status, h.Reason)
	dated, ours := h.Status < 200, x.families()
	for i := range h.Fields {
		f := &h.Fields[i]
		x.noticeLogin(f)
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
	return x.appendVia(x.appendRequestID(dst), h.Minor)
}

func (x *Exchange) handleAnswerBody(p []byte) {
	x.outcome.Bytes += int64(len(p))
	to := x.buffer()
	if x.coding == codingChunks {
		*to = http1.AppendChunk(*to, p)
		return
	}
	*to = append(*to, p...)
}

// answered ends an exchange whose answer is complete; clean says that nothing followed it.
func (x *Exchange) answered(now time.Time, clean bool) {
	x.env.out = append(x.env.out, x.response...)
	if x.coding == codingChunks {
		x.env.out = http1.AppendLastChunk(x.env.out)
	}
	how := ReleaseDiscard
	if x.after == ReleaseKeep && clean && x.request == requestWhole {
		how = ReleaseKeep
		if x.Private {
			how = ReleasePrivate
		}
	}
	x.releaseUpstream(how)
	x.afterAnswer(now, x.status)
}

// HandleUpstreamClosed handles the close of the upstream connection. It is the end of an
// answer without a length. Before the first byte of an answer, on a reused connection, it
// means that the target had closed the idle connection when the request arrived; then the
// request is sent again once, if all of it is still there (RFC 9112 section 9.3.1).
func (x *Exchange) HandleUpstreamClosed(now time.Time, err error) {
	x.env.Begin()
	if !x.upstream.held() {
		return
	}
	again := x.upstream == upstreamReused && x.answer == answerWaiting && x.replay == replayOnce &&
		x.request == requestWhole && x.forward != nil
	x.upstream.become(upstreamNone)
	if again {
		x.replay = replayDone
		x.acquire(now, AcquireFresh)
		return
	}
	if x.answer >= answerCollecting && errors.Is(err, io.EOF) {
		if ev, err := x.reader.EOF(); err == nil && ev.Kind == http1.End {
			x.answered(now, false)
			return
		}
	}
	x.answerFault(now, FaultClosed)
}
