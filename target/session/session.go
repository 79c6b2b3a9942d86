package session

import (
	"fmt"
	"time"

	"weir/internal/http1"
)

// The times after which a Session ends by itself.
const (
	idleTimeout = 75 * time.Second // between two exchanges
	headTimeout = 10 * time.Second // from the first byte of a head to its last
	bodyTimeout = 15 * time.Second // between two pieces of a body
)

// A state says what a Session waits for.
type state uint8

const (
	idle    state = iota // the first byte of a request
	head                 // the rest of a head
	body                 // the rest of a body, perhaps of none
	asked                // an answer; no byte is read
	closing              // nothing more: the last answer is given
)

// String names the state.
func (s state) String() string {
	return [...]string{"idle", "head", "body", "asked", "closing"}[s]
}

// A Session is the conversation on one connection; see the package comment.
// After every call the effects in its Shared are to be done before another
// Session of the loop is told anything.
//
// Owned by its loop.
type Session struct {
	sh     *Shared
	reader http1.Reader
	began  time.Time   // first byte of the request under way
	until  time.Time   // Deadline
	own    *ownRequest // being gathered

	state  state
	place  Place
	method http1.Method
	// keepAlive says that another request may follow the one under way,
	// sayKeepAlive that its answer must say so: HTTP/1.0 clients do not assume it.
	keepAlive, sayKeepAlive bool
	draining                bool // the one under way is the last
	unread                  bool // bytes have come that were not read
}

// New returns the Session of a connection that was opened at now.
func New(now time.Time, sh *Shared) *Session {
	return &Session{sh: sh, reader: http1.NewRequestReader(nil), until: now.Add(idleTimeout)}
}

// Deadline returns when HandleExpired is to be called; zero means never.
func (s *Session) Deadline() time.Time { return s.until }

// Unread reports whether bytes are left that HandleData would read now. They
// are to be shown again after an answer.
func (s *Session) Unread() bool { return s.unread && s.state != closing }

// HandleData is told the bytes that have come and were not read, and returns how
// many of them are read. It stops at the end of a request that somebody is asked
// to answer.
func (s *Session) HandleData(now time.Time, b []byte) int {
	n := 0
	for s.state < asked {
		event, err := s.reader.Next(b[n:], &s.sh.head)
		if err != nil {
			s.refuse(now, http1.StatusOf(err))
			break
		}
		n += event.N
		s.unread = n < len(b)
		switch event.Kind {
		case http1.NeedMore:
			s.handlePause(now)
			s.unread = false // what is left is a part of a head or of a chunk line
			return n
		case http1.HeadDone:
			s.handleHead(now)
		case http1.Data:
			s.handleBody(now, event.Data)
		case http1.End:
			s.handleEnd(now)
		default:
			panic(fmt.Sprintf("bug: request reader tells event %d", event.Kind))
		}
	}
	if s.state == closing {
		return len(b) // closing discards it
	}
	s.unread = n < len(b)
	return n
}

// handlePause is told that all there is has been read.
func (s *Session) handlePause(now time.Time) {
	switch {
	case s.state == body:
		s.until = now.Add(bodyTimeout)
	case s.state == idle && !s.reader.Idle():
		s.state = head
		s.began = now
		s.until = now.Add(headTimeout)
	}
}

// handleHead is told that the Shared has a head.
func (s *Session) handleHead(now time.Time) {
	h := &s.sh.head
	if s.state == idle {
		s.began = now
	}
	s.state = body
	s.method = h.Method
	s.place = placeOf(h.Path)
	s.keepAlive = h.KeepAlive
	s.sayKeepAlive = h.KeepAlive && h.Minor == 0
	switch {
	case h.Expect == http1.ExpectOther:
		s.refuse(now, 417)
		return
	case s.place == Own && h.Length > ownBodyMax:
		s.refuse(now, 413)
		return
	case s.place == Own:
		s.own = newOwnRequest(h)
	}
	if h.Expect == http1.ExpectContinue && h.Framing != http1.BodyNone && !s.unread {
		// Only to who still waits for it (RFC 9110 section 10.1.1).
		s.sh.Out = append(s.sh.Out, "HTTP/1.1 100 Continue\r\n\r\n"...)
	}
}

// handleBody is told a piece of the body. Only own endpoints want to see it.
func (s *Session) handleBody(now time.Time, piece []byte) {
	if s.own != nil && !s.own.add(piece) {
		s.refuse(now, 413)
	}
}

// handleEnd is told that the request is complete.
func (s *Session) handleEnd(now time.Time) {
	switch s.place {
	case Service:
		s.ask(AskService)
	case Own:
		s.sh.Raw = s.own.raw()
		s.own = nil
		s.ask(AskOwn)
	default:
		s.answer(now, 404)
	}
}

func (s *Session) ask(whom Ask) {
	s.state = asked
	s.until = time.Time{}
	s.sh.Ask = whom
}

// HandleAnswer is told the status that answers the request given with
// AskService.
func (s *Session) HandleAnswer(now time.Time, status int) {
	s.mustBeAsked()
	if status == 200 && s.method != http1.HEAD && s.keepAlive && !s.sayKeepAlive && !s.draining {
		s.sh.date(now)
		s.sh.Out = append(s.sh.Out, s.sh.ok...)
		s.answered(now, status)
		return
	}
	s.answer(now, status)
}

// HandleReply is told the reply to the request given with AskOwn.
func (s *Session) HandleReply(now time.Time, r Reply) {
	s.mustBeAsked()
	s.sh.extra = s.sh.extra[:0]
	for _, f := range r.Fields {
		s.sh.extra = http1.AppendFieldString(s.sh.extra, f[0], f[1])
	}
	s.write(now, http1.Answer{Status: r.Status, Body: r.Body})
}

func (s *Session) mustBeAsked() {
	if s.state != asked {
		panic("bug: answer for a session that is " + s.state.String())
	}
	s.sh.Ask, s.sh.Raw = AskNone, nil
}

// HandleExpired is told that the time is now. Before the Deadline it does nothing.
func (s *Session) HandleExpired(now time.Time) {
	if s.until.IsZero() || now.Before(s.until) {
		return
	}
	if s.state == idle {
		s.close(CloseDrained)
		return
	}
	s.refuse(now, 408)
}

// HandleDrain is told that the program is about to end: the request under way, or
// that which has come and was not read, is the last one, and an idle connection
// closes at once.
func (s *Session) HandleDrain(time.Time) {
	s.draining = true
	if s.state == idle && !s.unread {
		s.close(CloseDrained)
	}
}

// refuse answers a request that is not read to its end. What may follow cannot
// be told from the rest of it: the connection ends here.
func (s *Session) refuse(now time.Time, status int) {
	if s.state != body { // no head was read: nothing is known of it
		if s.state == idle {
			s.began = now
		}
		s.place, s.method = Elsewhere, http1.MethodOther
	}
	s.keepAlive, s.sayKeepAlive = false, false
	s.unread = true
	s.own = nil
	s.answer(now, status)
}

// answer gives a small answer: the body OK, or the reason phrase.
func (s *Session) answer(now time.Time, status int) {
	text := okBody
	if status != 200 {
		text = http1.ReasonPhrase(status)
	}
	s.sh.body = append(s.sh.body[:0], text...)
	s.sh.extra = s.sh.extra[:0]
	s.write(now, http1.Answer{Status: status, ContentType: okType, Body: s.sh.body})
}

// write appends an answer; the Shared's extra has its fields so far.
func (s *Session) write(now time.Time, a http1.Answer) {
	s.keepAlive = s.keepAlive && !s.draining
	s.sh.extra = append(s.sh.extra, s.sh.date(now)...)
	if s.keepAlive && s.sayKeepAlive {
		s.sh.extra = append(s.sh.extra, "Connection: keep-alive\r\n"...)
	}
	a.Extra = s.sh.extra
	a.Close = !s.keepAlive
	a.Head = s.method == http1.HEAD
	s.sh.Out = http1.AppendAnswer(s.sh.Out, a)
	s.answered(now, a.Status)
}

// answered ends an exchange.
func (s *Session) answered(now time.Time, status int) {
	s.sh.Answered = append(s.sh.Answered, Exchange{
		Took: now.Sub(s.began), Status: status, Method: s.method, Place: s.place,
	})
	switch {
	case s.keepAlive:
		s.state = idle
		s.until = now.Add(idleTimeout)
	case s.unread:
		s.close(CloseLinger) // closing with unread bytes resets, and the answer is lost
	default:
		s.close(CloseDrained)
	}
}

func (s *Session) close(how Close) {
	s.state = closing
	s.until = time.Time{}
	s.sh.Close = how
}
