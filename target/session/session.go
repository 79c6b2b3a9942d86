package session

import (
	"fmt"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
)

// times are the timeouts of a Session.
var times = cycle.Timeouts{Idle: 75 * time.Second, Head: 10 * time.Second, Piece: 15 * time.Second}

// A Session is the state of one connection; see the package comment. The caller applies the
// effects in its LoopState after every call, before it calls another Session of the loop.
//
// Owned by its loop.
type Session struct {
	sh       *LoopState
	cycle    cycle.Cycle
	own      *ownRequest // being received
	endpoint Endpoint
	method   http1.Method
}

// New returns the Session of a connection opened at now.
func New(now time.Time, sh *LoopState) *Session {
	return &Session{sh: sh, cycle: cycle.New(now, &times, nil)}
}

// Deadline returns when HandleExpired must be called; zero means never.
func (s *Session) Deadline() time.Time { return s.cycle.Until }

// Unread reports whether there are unread bytes that HandleData would now read. They must be
// passed again after an answer.
func (s *Session) Unread() bool { return s.cycle.More() }

// HandleData processes b, the bytes received and not yet read, and returns how many it has read.
// It stops at the end of a request whose answer Await requests.
func (s *Session) HandleData(now time.Time, b []byte) int {
	return s.cycle.HandleData(now, b, &s.sh.head.Head, s.handle)
}

func (s *Session) handle(now time.Time, event http1.Event, err error) {
	switch {
	case err != nil:
		s.refuse(now, http1.StatusOf(err))
	case event.Kind == http1.HeadDone:
		s.handleHead(now)
	case event.Kind == http1.Data && s.own == nil: // only own endpoints use the body
	case event.Kind == http1.Data:
		if s.own.body = append(s.own.body, event.Data...); len(s.own.body) > ownBodyMax {
			s.refuse(now, 413)
		}
	case event.Kind == http1.End:
		s.handleEnd(now)
	default:
		panic(fmt.Sprintf("bug: request reader returns event %d", event.Kind))
	}
}

func (s *Session) handleHead(now time.Time) {
	h := &s.sh.head.Head
	status := 0
	if s.method, s.endpoint, s.own, status = begin(h); status != 0 {
		s.refuse(now, status)
		return
	}
	s.sh.Out = s.cycle.AppendContinue(s.sh.Out, h)
}

func (s *Session) handleEnd(now time.Time) {
	switch s.endpoint {
	case Service:
		s.ask(AwaitService)
	case Own:
		s.sh.Raw = s.own.raw()
		s.own = nil
		s.ask(AwaitOwn)
	default:
		s.answer(now, 404)
	}
}

func (s *Session) ask(whom Await) {
	s.cycle.Wait()
	s.sh.Await = whom
}

// HandleAnswer answers the request of AwaitService with a status.
func (s *Session) HandleAnswer(now time.Time, status int) {
	s.mustBeAsked()
	if status == 200 && s.cycle.Plain() {
		s.sh.date(now)
		s.sh.Out = append(s.sh.Out, s.sh.ok...)
		s.answered(now, status)
		return
	}
	s.answer(now, status)
}

// HandleReply answers the request of AwaitOwn. fields are names and values, without those of the
// framing, the connection and the date, which the Session adds.
func (s *Session) HandleReply(now time.Time, status int, fields [][2]string, body []byte) {
	s.mustBeAsked()
	s.sh.extra = s.sh.extra[:0]
	for _, f := range fields {
		s.sh.extra = http1.AppendField(s.sh.extra, f[0], f[1])
	}
	s.write(now, http1.LocalResponse{Status: status, Body: body})
}

func (s *Session) mustBeAsked() {
	if s.cycle.State != cycle.AwaitingResponse {
		panic("bug: answer for a session that is " + s.cycle.State.String())
	}
	s.sh.Await, s.sh.Raw = AwaitNone, nil
}

// HandleExpired handles a passed Deadline. If it has not passed at now, it does nothing.
func (s *Session) HandleExpired(now time.Time) {
	switch {
	case !s.cycle.Expired(now):
	case s.cycle.State == cycle.Idle:
		s.sh.Close = s.cycle.Close()
	default:
		s.refuse(now, 408)
	}
}

// HandleDrain starts to close the connection because the program ends. The request in progress, or
// one received and not yet read, is the last. An idle connection is closed at once.
func (s *Session) HandleDrain(time.Time) {
	if s.cycle.Drain() {
		s.sh.Close = s.cycle.Close()
	}
}

// refuse answers a request that is not read to its end. A next request could not be distinguished
// from the rest of it, so the connection ends.
func (s *Session) refuse(now time.Time, status int) {
	if s.cycle.State != cycle.Body { // the head is not complete
		s.endpoint, s.method = UnknownEndpoint, http1.MethodOther
	}
	s.cycle.Refuse(now)
	s.own = nil
	s.answer(now, status)
}

// answer sends a short answer.
func (s *Session) answer(now time.Time, status int) {
	s.sh.body = append(s.sh.body[:0], shortBody(status)...)
	s.sh.extra = s.sh.extra[:0]
	s.write(now, http1.LocalResponse{Status: status, ContentType: okType, Body: s.sh.body})
}

// shortBody returns the body of an answer that says no more than its status.
func shortBody(status int) string {
	if status == 200 {
		return okBody
	}
	return http1.ReasonPhrase(status)
}

// write appends an answer, with the fields in the LoopState's extra.
func (s *Session) write(now time.Time, a http1.LocalResponse) {
	a.Extra = append(s.sh.extra, s.sh.date(now)...)
	s.sh.Out, s.sh.extra = s.cycle.AppendAnswer(s.sh.Out, a)
	s.answered(now, a.Status)
}

func (s *Session) answered(now time.Time, status int) {
	s.sh.Answered = append(s.sh.Answered, Exchange{
		Took: now.Sub(s.cycle.Began), Status: status, Method: s.method, Endpoint: s.endpoint,
	})
	s.sh.Close = s.cycle.End(now)
}

// ownBodyMax bounds the body of a request to an own endpoint; beyond: 413.
const ownBodyMax = 1 << 20

// An ownRequest collects a request to an own endpoint, which is rare.
//
// Owned by its loop.
type ownRequest struct {
	head []byte // without Content-Length
	body []byte
}

// newOwnRequest returns a request with the head h. It leaves out the fields of framing and
// connection; raw adds the length of the decoded body. Fields named by Connection are kept,
// because otherwise a client could hide the fields of proxies that have forwarded the request.
func newOwnRequest(h *http1.Head) *ownRequest {
	o := &ownRequest{head: http1.AppendRequestLine(nil, h)}
	if len(h.Host) > 0 {
		o.head = http1.AppendField(o.head, "Host", h.Host)
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.ID == http1.FieldOther || f.ID > http1.FieldHost {
			o.head = http1.AppendFieldLine(o.head, f)
		}
	}
	return o
}

func (o *ownRequest) raw() []byte {
	raw := http1.AppendFieldInt(o.head, "Content-Length", int64(len(o.body)))
	raw = http1.AppendHeadEnd(raw)
	return append(raw, o.body...)
}
