package session

import (
	"strconv"
	"time"

	"weir/internal/http1"
)

// A Reply is an own endpoint's answer.
type Reply struct {
	Status int
	Fields [][2]string
	Body   []byte
}

// beginOwn starts a request to an own endpoint: its head is written anew, with
// the length to follow when the body is known.
func (s *Session) beginOwn(now time.Time) {
	h := &s.env.head
	s.x.own = true
	s.x.request.become(requestCollecting)
	if h.Length > s.bodyMax() {
		s.fail(now, 413, bodyTooLarge)
		return
	}
	dst := http1.AppendForwardLine(s.env.take(), h)
	dst = http1.AppendField(dst, "Host", h.Host)
	for i := range h.Fields {
		if f := &h.Fields[i]; forOwn(f.ID) {
			dst = http1.AppendFieldLine(dst, *f)
		}
	}
	s.x.forward = dst
	s.awaitBody(now)
	s.x.response = s.env.take()
	s.continueBody()
}

// forOwn reports whether a field is passed on to own endpoints: all but those of
// the framing and the connection. Fields that Connection names are among them, as
// the client could hide by it who has passed the request on.
func forOwn(id http1.FieldID) bool { return !id.Hop() && id != http1.FieldExpect }

// endOwn passes the request on. The body has been collected behind the head;
// its length goes between the two.
func (s *Session) endOwn() {
	head := len(s.x.forward) - int(s.x.collected)
	body := append(s.x.response[:0], s.x.forward[head:]...)
	s.x.forward = append(s.x.forward[:head], "Content-Length: "...)
	s.x.forward = strconv.AppendInt(s.x.forward, s.x.collected, 10)
	s.x.forward = append(s.x.forward, "\r\n\r\n"...)
	s.x.forward = append(s.x.forward, body...)
	s.x.response = body
	s.deadline = time.Time{}
	s.fx.Own = s.x.forward
}

// HandleOwn is told an own endpoint's answer. It does nothing when the client
// has gone.
func (s *Session) HandleOwn(now time.Time, r *Reply) {
	s.begin()
	if !s.x.own || s.x.request != requestWhole {
		return
	}
	extra := s.env.appendDate(s.env.extra[:0], now)
	for _, f := range r.Fields {
		if f[0] != "Content-Length" && f[0] != "Date" {
			extra = http1.AppendFieldString(extra, f[0], f[1])
		}
	}
	s.env.extra = extra
	s.finish(now, http1.Answer{Status: r.Status, Body: r.Body, Extra: extra})
}
