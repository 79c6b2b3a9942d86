package session

import (
	"time"

	"weir/internal/http1"
)

// A body that is larger than what is collected is streamed: the request goes
// out with what has come of it, and each further piece follows. While the
// target takes nothing the client is not read, and TCP holds it back.

// rateSpan is over which a body must keep BodyRateMin.
const rateSpan = 10 * time.Second

// awaitBody expects the next piece of a body, if there is to be one.
func (s *Session) awaitBody(now time.Time) {
	if !s.reader.InBody() {
		return
	}
	set := s.env.Settings
	s.x.bodyBy = now.Add(set.BodyTimeout)
	if set.BodyRateMin > 0 && s.x.rateBy.IsZero() {
		s.x.rateBy, s.x.rateBytes = now.Add(rateSpan), 0
	}
	s.rearm()
}

// rearm sets the deadline to the first thing that is due.
func (s *Session) rearm() {
	s.deadline = time.Time{}
	for _, at := range [...]time.Time{s.x.bodyBy, s.x.rateBy, s.x.answerBy} {
		if !at.IsZero() && (s.deadline.IsZero() || at.Before(s.deadline)) {
			s.deadline = at
		}
	}
}

// bodyPaused forgets what is due of the body: the client is not read, or has
// sent it all.
func (s *Session) bodyPaused() {
	if !s.x.bodyBy.IsZero() {
		s.x.bodyBy, s.x.rateBy = time.Time{}, time.Time{}
	}
	s.rearm()
}

// bodyLate is told that the next piece, or enough of the body, is overdue.
func (s *Session) bodyLate(now time.Time) {
	set := s.env.Settings
	enough := int64(rateSpan/time.Second) * set.BodyRateMin
	if now.Before(s.x.bodyBy) && s.x.rateBytes >= enough {
		s.x.rateBy, s.x.rateBytes = now.Add(rateSpan), 0
		s.rearm()
		return
	}
	s.fail(now, 408, "the request body did not arrive in time")
}

// handleBody is told of a piece of the request's body.
func (s *Session) handleBody(now time.Time, p []byte) {
	s.x.collected += int64(len(p))
	s.x.rateBytes += int64(len(p))
	if s.x.collected > s.bodyMax() {
		s.fail(now, 413, bodyTooLarge)
		return
	}
	if s.x.own && s.x.collected > s.env.Settings.BufferBytesMax && s.overloaded() {
		s.fail(now, 503, shortOfMemory) // the only bodies that are collected whole however large they are
		return
	}
	s.awaitBody(now)
	to := &s.x.forward
	if s.x.uploads() {
		s.sentRequest()
		to = &s.env.up
	}
	if s.x.chunked == codingChunks {
		before := len(*to)
		*to = http1.AppendChunk(*to, p)
		s.x.framing += int64(len(*to) - before - len(p))
	} else {
		*to = append(*to, p...)
	}
	most := s.env.Settings.BufferBytesMax
	if s.x.request == requestCollecting && !s.x.own && (s.x.collected > most || s.x.framing > most) {
		s.stream(now)
	}
}

// stream goes on without waiting for the rest of the body.
func (s *Session) stream(now time.Time) {
	s.x.request.become(requestStreaming)
	s.bodyPaused()
	s.acquire(now, AcquireAny)
}

// sentRequest forgets the part of a streamed request that is gone.
func (s *Session) sentRequest() {
	if s.x.forward != nil {
		s.x.wants = s.accept()
		s.env.give(s.x.forward)
		s.x.forward = nil
	}
}

// uploads reports whether the request's body is passed on to the target's
// connection held as it comes.
func (x *exchange) uploads() bool { return x.request == requestStreaming && x.link.held() }

// handleBodyEnd is told that the request is complete.
func (s *Session) handleBodyEnd(now time.Time) {
	streamed := s.x.request == requestStreaming
	s.x.request.become(requestWhole)
	switch {
	case s.x.own:
		s.endOwn()
	case streamed:
		if s.x.chunked == codingChunks {
			s.env.up = http1.AppendLastChunk(s.env.up)
		}
		s.x.outcome.Complete = now
		s.bodyPaused()
		if s.x.answer != answerRelaying { // its head may have come early: the rest is due all the same
			s.awaitAnswer(now)
		}
	default:
		if s.x.chunked == codingChunks {
			s.x.forward = http1.AppendLastChunk(s.x.forward)
		}
		s.x.bodyBy, s.x.rateBy = time.Time{}, time.Time{}
		s.acquire(now, AcquireAny)
	}
}

// endMessage counts what is not passed on of a request or answer that is
// complete.
func (s *Session) endMessage(end *http1.Event) {
	if end.Trailer {
		s.x.outcome.Trailers++
	}
}

// HandleTargetFull is told whether the target's connection held takes nothing
// for the moment.
func (s *Session) HandleTargetFull(now time.Time, full bool) {
	s.begin()
	s.targetFull = full
	if s.state == stateTunnel {
		s.awaitTunnel(now)
	}
	if !s.x.uploads() {
		return
	}
	if full {
		s.bodyPaused() // it is not the client that is slow
		return
	}
	s.awaitBody(now)
}

// HandleClientFull is told whether the client takes nothing for the moment:
// meanwhile no more of a streamed answer is wanted.
func (s *Session) HandleClientFull(now time.Time, full bool) {
	s.begin()
	s.clientFull = full
	if s.state == stateTunnel {
		s.awaitTunnel(now)
	}
	if s.x.answer == answerRelaying {
		s.awaitRelayed(now)
	}
}

// awaitRelayed expects the next piece of an answer that is streamed.
func (s *Session) awaitRelayed(now time.Time) {
	s.x.answerBy = time.Time{} // it is not the target that is slow
	if !s.clientFull {
		s.x.answerBy = now.Add(s.env.Settings.StreamTimeout)
	}
	s.rearm()
}
