package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/cycle"
	"weir/internal/net/http1"
)

// times are the timeouts of a Session.
var times = cycle.Timeouts{Idle: 75 * time.Second, Head: 10 * time.Second, Body: 10 * time.Second}

// editBytesMax bounds the body of an edit; beyond: 413.
const editBytesMax = 64 << 10

// A Session is the state of one connection of HTTP/1.1, or of one stream of HTTP/2; see the package comment. The
// caller applies the effects in its Env after every call, before it calls another Session of the loop.
//
// Owned by its loop.
type Session struct {
	Owner any // set by the rim
	// Access is that of the Env, unless the rim sets another one before the first call.
	Access *AccessPolicy

	env    *Env
	cycle  cycle.Cycle // of a stream only its state and its deadline
	stream stream
	call   call
	held   bool // the answer is held until a slot in a queue is due
	route  route
	rights rights
	name   string // name of the requested document
	body   []byte

	remote   netip.Addr
	verified bool // by a client certificate
	tokened  bool // the Authorization field is the asker's
	checked  checked

	limited *limited // the current request to Envoy's rate limit service

	editing bool      // an edit has no result yet
	waits   int       // asks without an answer
	stale   int       // those that were forgotten before, and edits likewise
	late    time.Time // when the exchange no longer waits for asks and edits; zero: it waits as long as the store does
	turn    uint32    // changes when asks and edits are forgotten: their later results are ignored
	parts   [][]byte  // encoded answers of all asks
	size    int       // total size of parts
}

// New returns the Session of a connection opened at now by the given address. verified says that
// a trusted certificate was presented.
func New(now time.Time, env *Env, from netip.Addr, verified bool) *Session {
	return &Session{env: env, Access: env.Access, remote: peer(from), verified: verified,
		cycle: cycle.New(now, &times, env.Head)}
}

// Deadline returns when HandleExpired must be called; zero means never.
func (s *Session) Deadline() time.Time { return s.cycle.Until }

// Unread reports whether there are unread bytes that HandleData would now read. They must
// be passed again after an answer.
func (s *Session) Unread() bool { return s.cycle.More() }

// Full reports whether HandleData has left bytes unread because enough is to be sent. They
// must be passed again.
func (s *Session) Full() bool { return s.cycle.Full && s.cycle.More() }

// HandleData processes b, the bytes received and not yet read, and returns how many it has read.
// It stops at the end of a request whose answer comes later, and when the answers to requests
// that came together have become large: see Full.
func (s *Session) HandleData(now time.Time, b []byte) int {
	return s.cycle.HandleData(now, b, &s.env.head, s.handle)
}

// handle handles an event of the request reader.
func (s *Session) handle(now time.Time, event http1.Event, err error) {
	switch {
	case err != nil:
		s.handleMalformed(now, targetOf(s.cycle.Faulty), err)
	case event.Kind == http1.HeadDone:
		s.handleHead(now, &s.env.head)
	case event.Kind == http1.Data:
		s.handleBody(now, event.Data)
	case event.Kind == http1.End:
		s.handleEnd(now)
	default:
		panic(fmt.Sprintf("bug: request reader returns event %d", event.Kind))
	}
}

// handleMalformed handles a malformed request. target is that of its head, or empty if the head was read.
func (s *Session) handleMalformed(now time.Time, target []byte, err error) {
	s.cycle.Refuse(now)
	if s.describing(target) {
		s.undescribed(now, http1.StatusOf(err), "the head of the question is too large or malformed")
		return
	}
	s.route = routeNone
	s.fail(now, http1.StatusOf(err), "the request is malformed")
}

// handleHead handles the request's head.
func (s *Session) handleHead(now time.Time, h *http1.Head) {
	s.body, s.late = s.body[:0], s.call.by
	s.find(h)
	authorization, _ := h.Value(http1.FieldAuthorization)
	s.rights, s.tokened = s.Access.of(authorization, s.verified)
	status, problem := s.admit(h)
	if s.route == routeCheck { // its body is never read
		if h.Framing != http1.BodyNone && h.Length != 0 {
			s.cycle.Refuse(now)
		}
		if status != 0 {
			s.fail(now, status, problem)
			return
		}
		s.check(now, h)
		return
	}
	if status != 0 {
		s.refuse(now, status, problem)
		return
	}
	if s.stream.conn == nil {
		s.env.Out = s.cycle.AppendContinue(s.env.Out, h)
	}
}

// admit returns the status and the reason if the request is refused without reading its
// body; status 0 means it is not.
func (s *Session) admit(h *http1.Head) (status int, problem string) {
	switch {
	case s.route == routeCheck:
		if s.tokened {
			return 0, ""
		}
		if problem = s.untrusted(h); problem != "" {
			status = 403
		}
		return status, problem
	case s.route != routeNone && !s.route.health() && s.rights == nothing:
		return 401, "needs Authorization: Bearer with the DECISION_TOKEN of this proxy, or a certificate that its " +
			"DECISION_TLS_CLIENT_CA trusts"
	case s.route.api() == GRPC && !s.call.is:
		return 415, "the Content-Type must be application/grpc, over HTTP/2"
	case (s.route.api() == Sidecar || s.route == routeJSON) && s.protocol() != H2C && !s.tokened && s.Access.page(h):
		return 401, "was made by a web page, or for a host that is not a loopback name: set DECISION_TOKEN here, and " +
			"REMOTE_TOKEN at the sidecar"
	case s.route == routeEdit && s.rights != editing:
		return 403, "needs Authorization: Bearer with the ADMIN_TOKEN of this proxy"
	case s.route != routeNone && h.Method != s.route.wants() && (h.Method != http1.HEAD || s.route.wants() != http1.GET):
		return 405, "the method must be " + s.route.wants().String()
	case s.route == routeNone && h.Framing != http1.BodyNone:
		return 404, nothingHere
	case h.Expect == http1.ExpectOther:
		return 417, "the expectation is unknown"
	case s.route.wants() != http1.GET && h.Framing == http1.BodyNone:
		return 411, "the body is missing"
	case h.Framing == http1.BodyLength && h.Length > int64(s.bodyMax()):
		return 413, fmt.Sprintf("the body must be at most %d bytes", s.bodyMax())
	}
	return 0, ""
}

const nothingHere = "not found"

func (s *Session) bodyMax() int { return routes[s.route].bodyMax }

func (s *Session) handleBody(now time.Time, piece []byte) {
	if len(s.body)+len(piece) > s.bodyMax() {
		s.refuse(now, 413, fmt.Sprintf("the body must be at most %d bytes", s.bodyMax()))
		return
	}
	s.body = append(s.body, piece...)
	if s.stream.conn != nil {
		s.stream.conn.held += len(piece)
	}
}

// HandleExpired handles a Deadline that has passed at now. Called earlier, it does
// nothing.
func (s *Session) HandleExpired(now time.Time) {
	switch {
	case !s.cycle.Expired(now):
	case s.cycle.State == cycle.Idle:
		s.env.Close = s.cycle.Close()
	case s.call.watches:
		s.watch(now)
	case s.held:
		s.allow(now, s.checked.fields)
		s.env.Answered(now, s)
	case s.cycle.State == cycle.AwaitingResponse:
		s.handleLate(now)
		s.env.Answered(now, s)
	default:
		s.refuse(now, 408, "the request did not arrive in time")
	}
}

// HandleDrain starts closing the connection because the program is about to end: the next
// answer is the last. An idle connection is closed after a grace period, so that a
// request on its way is still answered: a sidecar does not repeat requests.
func (s *Session) HandleDrain(now time.Time) {
	if s.cycle.Drain() {
		s.cycle.Until = now.Add(s.env.DrainGrace)
	}
}

// HandleClosed ends the session after its connection has closed. Later answers are
// dropped. What was charged stays charged.
func (s *Session) HandleClosed(now time.Time) {
	s.held = false
	s.forgetAsked()
	if s.limited != nil {
		s.limitEnds(now, "the asker has gone")
	}
}

// wait makes the exchange wait for the store.
func (s *Session) wait() {
	s.cycle.Wait()
	s.cycle.Until = s.late
}

// refuse answers a request that is not read to its end, and closes the connection.
func (s *Session) refuse(now time.Time, status int, problem string) {
	s.cycle.Refuse(now)
	s.fail(now, status, problem)
}

func (s *Session) fail(now time.Time, status int, problem string) {
	s.failAt(now, status, problem, "")
}

// faulty answers with 400 and the first fault of the request's body.
func (s *Session) faulty(now time.Time, err error) {
	fault, _ := errors.AsType[strict.Fault](err)
	s.failAt(now, 400, fault.Message, fault.Path)
}

// failAt answers with an error about a part of the request.
func (s *Session) failAt(now time.Time, status int, problem, path string) {
	if s.call.is {
		s.failCall(now, codeOf(status), strict.Fault{Path: path, Message: problem}.Error())
		return
	}
	fields := s.env.extra[:0]
	switch status {
	case 503:
		fields = append(fields, "Retry-After: 1\r\n"...)
	case 401:
		fields = append(fields, "WWW-Authenticate: Bearer\r\n"...) // RFC 9110 section 11.6.1
	case 405:
		fields = http1.AppendField(fields, "Allow", s.route.wants().String())
	}
	body, _ := json.Marshal(struct { // texts always can be encoded
		Error string `json:"error"`
		Path  string `json:"path,omitempty"`
	}{problem, path})
	s.write(now, http1.LocalResponse{Status: status, ContentType: "application/json", Body: append(body, '\n'),
		Extra: fields})
}

// policy are the fields that service.SetCSP gives the other own answers.
const policy = "Content-Security-Policy: frame-ancestors 'none'\r\nX-Frame-Options: " +
	"DENY\r\nX-Content-Type-Options: nosniff\r\n"

// write writes an own answer, which a browser may show. Its fields may be in the Env's extra.
func (s *Session) write(now time.Time, a http1.LocalResponse) {
	s.env.extra = append(append(s.env.extra[:0], a.Extra...), policy...)
	a.Extra = s.env.extra
	s.send(now, a)
}

// send writes an answer for another program: the decision of a sidecar, or that about a described
// request, whose fields a reverse proxy may forward to the client. Its fields may be in the Env's extra.
func (s *Session) send(now time.Time, a http1.LocalResponse) {
	e := s.env
	date, _ := e.date.At(now)
	a.Extra = append(append(e.extra[:0], a.Extra...), date...)
	api := s.route.api()
	if api == GRPC {
		api = OtherAPI // but not a call
	}
	e.Count(api, a.Status, s.protocol())
	s.held = false
	if m := s.stream.conn; m != nil {
		a.Head, e.extra = s.cycle.OnlyHead, a.Extra
		m.answer(now, s, a)
		return
	}
	s.releaseBody()
	e.Out, e.extra = s.cycle.AppendAnswer(e.Out, a)
	e.Close = s.cycle.End(now)
	s.cycle.Full = len(e.Out) > outMax
}

// releaseBody frees most of the memory of a body that is not used any more.
func (s *Session) releaseBody() {
	if s.stream.conn != nil {
		s.stream.conn.held -= len(s.body)
	}
	if s.body = s.body[:0]; cap(s.body) > bodyBytesKept {
		s.body = nil
	}
}

// outMax is how much a call of HandleData answers before it leaves further requests unread:
// the answer to a short request may be a large document.
const outMax = 64 << 10

// Bounds of the memory that an idle connection keeps for bodies and for the answers to asks.
const (
	bodyBytesKept = 4 << 10
	partBytesKept = 32 << 10
)
