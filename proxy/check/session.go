package check

import (
	"fmt"
	"net/netip"
	"time"

	"weir/internal/http1"
	"weir/proxy/asks"
	"weir/proxy/decide"
)

// The times after which a Session ends by itself.
const (
	idleTimeout = 75 * time.Second // between two exchanges; longer than sensible clients keep connections
	headTimeout = 10 * time.Second // from the first byte of a head to its last
	bodyTimeout = 10 * time.Second // for a body
)

// editBytesMax bounds the body of an edit; beyond: 413.
const editBytesMax = 64 << 10

// A state says what a Session waits for.
type state uint8

const (
	idle    state = iota // the first byte of a request
	head                 // the rest of a head
	body                 // the rest of a body, perhaps of none
	asked                // an answer; no byte is read
	queued               // its slot in a queue; no byte is read
	closing              // nothing more: the last answer is given
)

// String names the state.
func (s state) String() string {
	return [...]string{"idle", "head", "body", "asked", "queued", "closing"}[s]
}

// A Session is the state of one connection; see the package comment. The caller applies
// the effects in its Env after every call, before it calls another Session of the loop.
//
// Owned by its loop.
type Session struct {
	Owner any // the rim's

	env    *Env
	reader http1.Reader
	until  time.Time // Deadline

	state  state
	route  route
	rights rights
	method http1.Method
	name   string // of the document wanted
	body   []byte
	// keepAlive says that another request may follow the one under way, sayKeepAlive that
	// its answer must say so: HTTP/1.0 clients do not assume it.
	keepAlive, sayKeepAlive bool
	draining, unread        bool
	gone                    bool // the connection is closed

	remote   netip.Addr
	verified bool // by a client certificate
	tokened  bool // the Authorization field is the asker's
	checked  checked

	limited *limited // the request to Envoy's rate limit service that is under way

	waits int      // asks without an answer
	parts [][]byte // the answers of all asks, as bytes
}

// A Peer is who has opened a connection.
type Peer struct {
	Addr     netip.Addr
	Verified bool // it has shown a certificate that is trusted
}

// New returns the Session of a connection that was opened at now.
func New(now time.Time, env *Env, from Peer) *Session {
	return &Session{env: env, remote: decide.PlainAddr(from.Addr), verified: from.Verified, reader: http1.NewRequestReader(nil), until: now.Add(idleTimeout)}
}

// Deadline returns when HandleExpired is to be called; zero means never.
func (s *Session) Deadline() time.Time { return s.until }

// Unread reports whether bytes are left that HandleData would read now. They are to be
// shown again after an answer.
func (s *Session) Unread() bool { return s.unread && s.state != closing }

// HandleData reads b, the bytes received and not yet read, and returns how many it has
// read. It stops at the end of a request whose answer comes later.
func (s *Session) HandleData(now time.Time, b []byte) int {
	n := 0
	for s.state < asked {
		event, err := s.reader.Next(b[n:], &s.env.head)
		if err != nil {
			s.route, s.method = routeNone, http1.MethodOther
			s.refuse(now, http1.StatusOf(err), "the request is malformed")
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

// handlePause handles the end of the bytes received so far.
func (s *Session) handlePause(now time.Time) {
	if s.state == idle && !s.reader.Idle() {
		s.state, s.until = head, now.Add(headTimeout)
	}
}

// handleHead handles the request's head in the Env.
func (s *Session) handleHead(now time.Time) {
	h := &s.env.head
	s.state, s.until = body, now.Add(bodyTimeout)
	s.method, s.keepAlive, s.sayKeepAlive = h.Method, h.KeepAlive, h.KeepAlive && h.Minor == 0
	s.body = s.body[:0]
	s.find(h)
	authorization, _ := h.Value(http1.FieldAuthorization)
	s.rights, s.tokened = s.env.Access.of(authorization, s.verified)
	if status, problem := s.admit(h); status != 0 {
		s.refuse(now, status, problem)
		return
	}
	if s.route == routeCheck { // its body is never read
		s.keepAlive = s.keepAlive && h.Framing == http1.BodyNone
		s.unread = s.unread || h.Framing != http1.BodyNone
		s.check(now, h)
		return
	}
	if h.Expect == http1.ExpectContinue && h.Framing != http1.BodyNone && !s.unread {
		s.env.Out = append(s.env.Out, "HTTP/1.1 100 Continue\r\n\r\n"...)
	}
}

// admit says how a request is refused whose body is not read; 0: it is not.
func (s *Session) admit(h *http1.Head) (status int, problem string) {
	switch {
	case s.route == routeCheck:
		if !s.tokened && !s.verified && !s.env.Access.describes(s.remote) && !s.env.Trusted(s.remote) {
			return 403, "asker is not trusted"
		}
		return 0, ""
	case s.route != routeNone && s.route != routeHealth && s.rights == nothing:
		return 401, "needs Authorization: Bearer with the DECISION_TOKEN of this proxy, or a certificate that its DECISION_TLS_CLIENT_CA trusts"
	case (s.route.api() == Remote || s.route == routeJSON) && !s.tokened && s.env.Access.page(h):
		return 401, "is made by a web page, or for a host that is no loopback name: set DECISION_TOKEN here, and REMOTE_TOKEN at the sidecar"
	case s.route == routeEdit && s.rights != editing:
		return 403, "needs Authorization: Bearer with the ADMIN_TOKEN of this proxy"
	case s.route != routeNone && h.Method != s.route.wants() && (h.Method != http1.HEAD || s.route.wants() != http1.GET):
		return 405, "the method must be " + s.route.wants().String()
	case h.Expect == http1.ExpectOther:
		return 417, "the expectation is unknown"
	case s.route.wants() != http1.GET && h.Framing == http1.BodyNone:
		return 411, "there is no body"
	case h.Framing == http1.BodyLength && h.Length > int64(s.bodyMax()):
		return 413, fmt.Sprintf("the body must be at most %d bytes", s.bodyMax())
	}
	return 0, ""
}

// bodyMax bounds the body.
func (s *Session) bodyMax() int {
	switch s.route {
	case routeDecide:
		return asks.QuestionBytesMax
	case routeEdit:
		return editBytesMax
	case routeJSON:
		return jsonBytesMax
	}
	return 0
}

// handleBody handles a piece of the body.
func (s *Session) handleBody(now time.Time, piece []byte) {
	if len(s.body)+len(piece) > s.bodyMax() {
		s.refuse(now, 413, fmt.Sprintf("the body must be at most %d bytes", s.bodyMax()))
		return
	}
	s.body = append(s.body, piece...)
}

// HandleExpired handles a Deadline that has passed at now. Before it, it does nothing.
func (s *Session) HandleExpired(now time.Time) {
	if s.until.IsZero() || now.Before(s.until) {
		return
	}
	switch s.state {
	case idle:
		s.close(CloseDrained)
		return
	case queued:
		s.allow(now, s.checked.fields)
		s.env.Answered(now, s)
		return
	}
	s.refuse(now, 408, "the request did not come in time")
}

// HandleDrain begins to close the connection, as the program is about to end: the next
// answer is the last. An idle connection is closed after a grace, so that a request on its
// way is still answered: a sidecar sends none twice.
func (s *Session) HandleDrain(now time.Time) {
	s.draining = true
	if s.state == idle && !s.unread {
		s.until = now.Add(s.env.DrainGrace)
	}
}

// HandleClosed ends the session after its connection was closed. Answers to what was
// asked are dropped.
func (s *Session) HandleClosed(now time.Time) {
	s.gone = true
	if s.state == queued {
		s.leave(now)
	}
}

// wait has the exchange wait for an answer.
func (s *Session) wait() { s.state, s.until = asked, time.Time{} }

// refuse answers a request that is not read to its end: the connection ends here.
func (s *Session) refuse(now time.Time, status int, problem string) {
	s.keepAlive, s.sayKeepAlive, s.unread = false, false, true
	s.fail(now, status, problem)
}

// fail answers an error.
func (s *Session) fail(now time.Time, status int, problem string) {
	s.failAt(now, status, problem, "")
}

// failAt answers an error at a place of the request.
func (s *Session) failAt(now time.Time, status int, problem, path string) {
	e := s.env
	e.extra = e.extra[:0]
	if status == 503 {
		e.extra = append(e.extra, "Retry-After: 1\r\n"...)
	}
	if status == 405 {
		e.extra = append(append(append(e.extra, "Allow: "...), s.route.wants().String()...), "\r\n"...)
	}
	e.body = appendError(e.body[:0], problem, path)
	s.write(now, http1.Answer{Status: status, ContentType: "application/json", Body: e.body})
}

// write answers; the Env's extra has the fields so far.
func (s *Session) write(now time.Time, a http1.Answer) {
	e := s.env
	s.keepAlive = s.keepAlive && !s.draining
	date, _ := e.date.At(now)
	e.extra = append(e.extra, date...)
	if s.keepAlive && s.sayKeepAlive {
		e.extra = append(e.extra, "Connection: keep-alive\r\n"...)
	}
	a.Extra, a.Close, a.Head = e.extra, !s.keepAlive, s.method == http1.HEAD
	e.Out = http1.AppendAnswer(e.Out, a)
	e.Count(s.route.api(), a.Status)
	if cap(s.body) > bodyBytesKept {
		s.body = nil
	}
	switch {
	case s.keepAlive:
		s.state, s.until = idle, now.Add(idleTimeout)
	case s.unread:
		s.close(CloseLinger) // closing with unread bytes resets, and the answer is lost
	default:
		s.close(CloseDrained)
	}
}

// bodyBytesKept is how much memory for bodies an idle connection keeps.
const bodyBytesKept = 4 << 10

func (s *Session) close(how Close) {
	s.state, s.until, s.env.Close = closing, time.Time{}, how
}
