package session

import (
	"errors"
	"io"
	"math"
	"time"

	"weir/internal/http1"
)

// acquire wants a connection to a target for the request as far as it has
// come. All attempts to connect together have TargetTimeout.
func (s *Session) acquire(now time.Time, how Acquire) {
	s.x.link.become(linkWanted)
	s.fx.Acquire, s.fx.Long = how, s.private || s.x.request == requestStreaming || s.x.upgrade != ""
	if s.x.answerBy.IsZero() {
		s.x.answerBy = now.Add(s.env.Settings.TargetTimeout)
	}
	s.deadline = s.x.answerBy
}

// HandleWaits is told that all connections to the target chosen are taken and
// that the session waits for one of them to become free.
func (s *Session) HandleWaits(now time.Time) {
	s.begin()
	if by := now.Add(s.env.Settings.WaitTimeout); by.Before(s.deadline) {
		s.deadline = by
	}
}

// acquireLate gives the attempt to get a connection up: nothing was sent. Only
// a wait for a busy connection ends before the time for all attempts.
func (s *Session) acquireLate(now time.Time) {
	s.fx.Acquire = AcquireCancel
	if s.deadline.Before(s.x.answerBy) {
		s.fault(now, FaultBusy)
		return
	}
	s.fault(now, FaultConnectTime)
}

// answerLate gives up a target whose answer, or whose next piece of it, is
// overdue.
func (s *Session) answerLate(now time.Time) {
	if s.x.answer == answerCollecting && s.x.size > s.env.Settings.BufferBytesMax {
		s.fault(now, FaultStreams) // it is collected for want of a place
		return
	}
	s.fault(now, FaultTimeout)
}

// HandleAcquired is told that a connection to a target is the session's: host
// is the target's host and port, reused says that the connection has served
// before and is not the session's private one: another would do as well. It
// reports whether the session still wants it; otherwise the owner keeps it.
func (s *Session) HandleAcquired(now time.Time, host string, reused bool) bool {
	s.begin()
	if s.x.link != linkWanted {
		return false
	}
	if reused {
		s.x.link.become(linkReused)
	} else {
		s.x.link.become(linkHeld)
	}
	s.x.outcome.Sent = now
	s.x.outcome.Retried = s.x.replay == replayDone || s.x.failed != FaultNone
	s.x.reader = http1.NewResponseReader(&s.env.Settings.ResponseHead)
	s.x.reader.ResponseTo(s.x.outcome.Method)
	s.fx.Upstream = s.x.forward
	if at := s.x.hostAt; at > 0 {
		up := append(s.env.up[:0], s.x.forward[:at]...)
		up = http1.AppendFieldString(up, "Host", host)
		s.env.up = append(up, s.x.forward[at:]...)
	}
	if s.x.request == requestStreaming {
		s.x.answerBy = time.Time{}
		s.awaitBody(now)
		return true
	}
	s.x.outcome.Complete = now
	s.awaitAnswer(now)
	return true
}

// awaitAnswer expects the head of the answer, or its next piece.
func (s *Session) awaitAnswer(now time.Time) {
	s.x.answerBy = now.Add(s.env.Settings.TargetTimeout)
	s.deadline = s.x.answerBy
}

// HandleUnavailable is told that there is no connection to the target chosen.
// When it cannot be reached another one is wanted: nothing was sent, so any
// request may go elsewhere.
func (s *Session) HandleUnavailable(now time.Time, why Fault) {
	s.begin()
	if s.x.link != linkWanted {
		return
	}
	if why == FaultRefused || why == FaultConnect || why == FaultConnectTime {
		s.x.failed = why
		s.acquire(now, AcquireOther)
		return
	}
	s.fault(now, why)
}

// HandleShed is told that the target chosen is overloaded and the request is given
// up. id, which is borrowed, names that decision.
func (s *Session) HandleShed(now time.Time, id []byte) {
	s.begin()
	if s.x.link != linkWanted {
		return
	}
	s.env.shed = id
	s.fault(now, FaultGate)
	s.env.shed = nil
}

// HandleExhausted is told that there is no (other) target to be tried; several
// says that there is more than one, and after when one may be tried again. What
// the only one suffers from is told to the client as it is.
func (s *Session) HandleExhausted(now time.Time, several bool, after time.Duration) {
	s.begin()
	if s.x.link != linkWanted {
		return
	}
	if s.x.failed != FaultNone && !several {
		s.fault(now, s.x.failed)
		return
	}
	s.x.retryAfter = after
	s.fault(now, FaultNoTarget)
}

// HandleUpstream is told of bytes from the target's connection held, and
// returns how many of them are done with. What goes beyond the answer cannot
// be trusted: the connection is discarded. While the client is full nothing of
// a streamed answer is wanted; the bytes are to be shown again afterwards.
func (s *Session) HandleUpstream(now time.Time, b []byte) int {
	s.begin()
	if !s.x.link.held() || s.holds() {
		return 0
	}
	if s.state == stateTunnel {
		return s.tunnelDown(now, b)
	}
	if s.x.answer == answerWaiting {
		s.x.answer.become(answerHead)
	}
	mark := len(s.env.out)
	n := 0
	for {
		ev, err := s.x.reader.Next(b[n:], &s.env.response)
		if err != nil {
			s.garbled(now, mark)
			return n
		}
		n += ev.N
		switch ev.Kind {
		case http1.NeedMore:
			s.keep(now, mark)
			return n
		case http1.HeadDone:
			mark = s.handleAnswerHead(now, mark)
		case http1.Data:
			s.handleAnswerBody(ev.Data)
		case http1.End:
			s.endMessage(&ev)
			s.answered(now, n == len(b))
			return n
		case http1.Upgraded:
			return n + s.upgraded(now, mark, b[n:])
		}
	}
}

// garbled answers for a target that does not speak HTTP as it should. What was
// collected of it since mark is dropped.
func (s *Session) garbled(now time.Time, mark int) {
	if s.x.answer != answerRelaying {
		s.env.out = s.env.out[:mark]
	}
	s.fault(now, FaultGarbled)
}

// upgraded is told that the target has switched protocols; b are the first
// bytes of the new one. It returns how many of them are done with.
func (s *Session) upgraded(now time.Time, mark int, b []byte) int {
	if !s.switched(now, &s.env.response) {
		s.garbled(now, mark)
		return 0
	}
	return s.tunnelDown(now, b)
}

// keep looks after an answer that is not complete within one call. One whose
// length is known, and small, is collected: it may still break off. Others, and
// one that takes longer than TargetTimeout, are passed on as they come.
func (s *Session) keep(now time.Time, mark int) {
	switch s.x.answer {
	case answerRelaying:
		s.awaitRelayed(now)
		return
	case answerCollecting:
		s.fx.Stream = s.x.size > s.env.Settings.BufferBytesMax || s.answersLong(now)
		if s.x.request != requestStreaming {
			s.awaitAnswer(now)
		}
	}
	if s.x.response != nil || len(s.env.out) == mark {
		return
	}
	s.x.response = append(s.env.take(), s.env.out[mark:]...)
	s.env.out = s.env.out[:mark]
}

// answersLong reports whether an answer takes so long that it is streamed.
func (s *Session) answersLong(now time.Time) bool {
	return now.Sub(s.x.outcome.Answered) >= s.env.Settings.TargetTimeout
}

// HandleStream is told whether the answer under way may be streamed. While there
// is no place for one more stream it is collected on, as long as there is time and
// room for that.
func (s *Session) HandleStream(now time.Time, ok bool) {
	s.begin()
	if s.x.answer != answerCollecting {
		return
	}
	if !ok {
		if s.answersLong(now) || int64(len(s.x.response)) > s.env.Settings.BufferBytesMax {
			s.fault(now, FaultStreams)
		}
		return
	}
	s.x.answer.become(answerRelaying)
	s.env.out = append(s.env.out, s.x.response...)
	s.env.give(s.x.response)
	s.x.response = nil
	s.awaitRelayed(now)
}

// collected is where the answer is collected: in the loop's buffer as long as
// it may be complete within one call, then in one of its own.
func (s *Session) collected() *[]byte {
	if s.x.response != nil {
		return &s.x.response
	}
	return &s.env.out
}

// handleAnswerHead appends the head in env.response as it goes to the client,
// and returns from where the loop's buffer holds the final answer: an interim
// one before it goes out at once (RFC 9110 section 15.2).
func (s *Session) handleAnswerHead(now time.Time, mark int) int {
	h := &s.env.response
	if h.Status < 200 {
		if h.Status == 100 || h.Status == 101 || s.x.minor == 0 {
			return mark // 100 is the proxy's own business, 101 that of upgraded
		}
		s.env.out = s.appendAnswerHead(now, s.env.out, h)
		s.env.out = http1.AppendHeadEnd(s.env.out)
		return len(s.env.out)
	}
	s.x.answer.become(answerCollecting)
	s.x.status, s.x.outcome.Relayed, s.x.outcome.Answered = h.Status, true, now
	s.x.canReuse = h.KeepAlive
	s.x.theirs = s.tighter(h)
	if s.x.request == requestStreaming {
		s.x.keepAlive = false // the rest of the request may never be read
	}
	out := s.appendAnswerHead(now, s.env.out, h)
	out = s.appendLimits(out)
	switch {
	case h.Framing == http1.BodyChunked || h.Framing == http1.BodyUntilClose:
		s.x.size, s.x.coding = math.MaxInt64, codingClose
		if s.x.minor > 0 {
			s.x.coding = codingChunks
			out = http1.AppendFieldString(out, "Transfer-Encoding", "chunked")
		}
	case h.Length >= 0:
		out = http1.AppendFieldInt(out, "Content-Length", h.Length)
		if h.Framing == http1.BodyLength {
			s.x.size = h.Length
		}
	}
	switch {
	case !s.x.keepAlive || s.x.coding == codingClose:
		out = http1.AppendFieldString(out, "Connection", "close")
	case s.x.minor == 0:
		out = http1.AppendFieldString(out, "Connection", "keep-alive")
	}
	s.env.out = http1.AppendHeadEnd(out)
	return mark
}

// appendAnswerHead appends status line and fields without framing.
func (s *Session) appendAnswerHead(now time.Time, dst []byte, h *http1.Head) []byte {
	dst = http1.AppendStatusLineReason(dst, h.Status, h.Reason)
	dated := h.Status < 200
	for i := range h.Fields {
		f := &h.Fields[i]
		s.noticeLogin(f)
		if f.Hop || s.replacesID(f) || f.ID == http1.FieldOther && s.replaces(f.Name) {
			continue
		}
		dated = dated || f.ID == http1.FieldDate
		dst = http1.AppendFieldLine(dst, *f)
	}
	if !dated { // RFC 9110 section 6.6.1
		dst = s.env.appendDate(dst, now)
	}
	return s.appendVia(s.appendRequestID(dst), h.Minor)
}

func (s *Session) handleAnswerBody(p []byte) {
	s.x.outcome.Bytes += int64(len(p))
	to := s.collected()
	if s.x.coding == codingChunks {
		*to = http1.AppendChunk(*to, p)
		return
	}
	*to = append(*to, p...)
}

// answered is told that the answer is complete; clean says that nothing came
// behind it.
func (s *Session) answered(now time.Time, clean bool) {
	s.env.out = append(s.env.out, s.x.response...)
	if s.x.coding == codingChunks {
		s.env.out = http1.AppendLastChunk(s.env.out)
	}
	how := ReleaseDiscard
	if s.x.canReuse && clean && s.x.request == requestWhole {
		how = ReleaseKeep
		if s.private {
			how = ReleasePrivate
		}
	}
	s.letGo(how)
	s.ended(now, s.x.status)
}

// HandleUpstreamClosed is told that the target's connection held is gone. The
// close is the end of an answer without a length; before the first byte of an
// answer on a connection that had served before it means that the target had
// closed the idle connection when the request arrived: that is tried once more
// (RFC 9112 section 9.3.1).
func (s *Session) HandleUpstreamClosed(now time.Time, err error) {
	s.begin()
	if !s.x.link.held() {
		return
	}
	again := s.x.link == linkReused && s.x.answer == answerWaiting && s.x.replay == replayOnce
	s.x.link.become(linkNone)
	if s.state == stateTunnel {
		how := CloseDrained
		if err != nil && !errors.Is(err, io.EOF) && !s.targetEnded {
			how = CloseAbort // else what it had said before it ended is still sent
		}
		s.endTunnel(how)
		return
	}
	if again {
		s.x.replay = replayDone
		s.acquire(now, AcquireFresh)
		return
	}
	if s.x.answer >= answerCollecting && errors.Is(err, io.EOF) {
		if ev, err := s.x.reader.EOF(); err == nil && ev.Kind == http1.End {
			s.answered(now, false)
			return
		}
	}
	s.fault(now, FaultClosed)
}
