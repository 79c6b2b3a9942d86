package check

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// A route is what a path is for.
type route uint8

const (
	routeNone        route = iota // nothing: 404
	routeHealth                   // for load balancers
	routeCheck                    // a described request
	routeJSON                     // a request of Envoy's rate limit service
	routeDecide                   // asks of a sidecar
	routeMarks                    // marks of documents and edits
	routeDocument                 // one document
	routeEdit                     // an edit of a key
	routeLimit                    // a call of Envoy's rate limit service
	routeHealthCheck              // a call of gRPC's health service
	routeHealthWatch              // one that lasts
)

// routes describes the routes.
var routes = [...]struct {
	path    string // if it ends with /, also what is below
	method  http1.Method
	api     API
	bodyMax int // in bytes
}{
	routeNone:     {"", http1.GET, OtherAPI, 0},
	routeHealth:   {"/healthcheck", http1.GET, OtherAPI, 0},
	routeCheck:    {"/check/", http1.GET, Check, 0}, // any method is allowed
	routeJSON:     {"/json", http1.POST, JSON, jsonBytesMax},
	routeDecide:   {"/v1/decide", http1.POST, Sidecar, asks.BatchBytesMax},
	routeMarks:    {"/v1/marks", http1.GET, Sidecar, 0},
	routeDocument: {"/v1/documents/", http1.GET, Sidecar, 0},
	routeEdit:     {"/v1/edit", http1.POST, Sidecar, editBytesMax},
	routeLimit: {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", http1.POST, GRPC,
		messageHead + jsonBytesMax},
	routeHealthCheck: {"/grpc.health.v1.Health/Check", http1.POST, GRPC, messageHead + serviceBytesMax},
	routeHealthWatch: {"/grpc.health.v1.Health/Watch", http1.POST, GRPC, messageHead + serviceBytesMax},
}

func (r route) wants() http1.Method { return routes[r].method }
func (r route) api() API            { return routes[r].api }

// health reports whether the route is for everybody.
func (r route) health() bool {
	return r == routeHealth || r == routeHealthCheck || r == routeHealthWatch
}

// find sets the route of a request.
func (s *Session) find(h *http1.Head) {
	s.route = routeNone
	for r := routeHealth; int(r) < len(routes); r++ {
		path := routes[r].path
		if n := len(path); len(h.Path) >= n && string(h.Path[:n]) == path && (len(h.Path) == n || path[n-1] == '/') {
			s.route = r
			break
		}
	}
	if s.call.is && s.route.api() != GRPC {
		s.route = routeNone
	}
	if s.route == routeDocument {
		s.name = string(h.Path[len(routes[routeDocument].path):])
	}
}

func (s *Session) handleEnd(now time.Time) {
	s.cycle.Unread = false
	switch {
	case s.route == routeNone:
		s.fail(now, 404, nothingHere)
	case s.route == routeCheck: // answered when its head was read
	case s.route == routeHealth:
		s.health(now)
	case s.call.is && !s.hasMessage(now):
	case s.route == routeJSON || s.route == routeLimit:
		s.limit(now)
	case s.route == routeHealthCheck:
		s.checkHealth(now)
	case s.route == routeHealthWatch:
		s.watchHealth(now)
	case s.route == routeDecide:
		s.decide(now)
	case s.route == routeEdit:
		s.edit(now)
	default:
		s.show(now)
	}
}

// health answers like envoyproxy/ratelimit.
func (s *Session) health(now time.Time) {
	a := http1.LocalResponse{Status: 200, ContentType: "text/plain", Body: []byte("OK")}
	if s.cycle.Draining || !s.env.Healthy() {
		a.Status, a.Body = 500, nil
	}
	s.write(now, a)
}

// decide asks the store about the question of a sidecar.
func (s *Session) decide(now time.Time) {
	e, q := s.env, &s.env.question
	if err := q.Parse(s.body); err != nil {
		status, path := 409, ""
		if fault, ok := errors.AsType[*asks.MessageError](err); ok {
			status, path = 400, "byte "+strconv.Itoa(fault.Offset)
		}
		s.failAt(now, status, err.Error(), path)
		return
	}
	for i := range q.Refunds {
		r := &q.Refunds[i]
		e.Refund(now, &r.Counter, r.Instant, store.Exact)
	}
	s.parts = slices.Grow(s.parts[:cap(s.parts)], max(0, len(q.Asks)-cap(s.parts)))[:len(q.Asks)]
	s.size = 0
	if s.askAll(now, q.Asks, s.part) {
		s.decided(now)
	}
}

// askAll asks the store. It calls take for the answers that the store returns at once, and
// reports whether these are all.
func (s *Session) askAll(now time.Time, asks []store.Ask, take func(index int, ans *store.Answer)) bool {
	e := s.env
	s.waits = 0
	for i := range asks {
		p := e.take(s, i)
		if e.Ask(now, &asks[i], &e.answer, p.done) {
			take(i, &e.answer)
			e.give(p)
		} else {
			s.waits++
		}
	}
	if s.waits > 0 {
		s.wait()
	}
	return s.waits == 0
}

// forgetParts frees most of the memory for answers. It also looks at parts beyond those
// of the last call, since an earlier one may have had more asks.
func (s *Session) forgetParts() {
	const header = 24 // bytes of a slice header
	all := s.parts[:cap(s.parts)]
	kept := header * len(all)
	for i := range all {
		if kept += cap(all[i]); kept > partBytesKept {
			s.parts = nil
			return
		}
	}
}

// handleAnswer handles the store's answer to one of several asks, and reports whether the
// exchange has ended.
func (s *Session) handleAnswer(now time.Time, index int, ans *store.Answer) bool {
	s.waits--
	switch s.route {
	case routeCheck:
		s.judge(now, ans)
		return true
	case routeJSON, routeLimit:
		s.limited.AddAnswer(index, ans)
	default:
		s.part(index, ans)
	}
	switch {
	case s.waits > 0:
		return false
	case s.limited != nil:
		s.respond(now)
	default:
		s.decided(now)
	}
	return true
}

// part encodes the answer to one of several asks. Logs of keys are large: an ask whose
// states would make the whole answer too large is answered as undecided.
func (s *Session) part(index int, ans *store.Answer) {
	p := asks.AppendAnswer(s.parts[index][:0], ans)
	if s.size+len(p) > asks.AnswerBytesMax {
		p = asks.AppendAnswer(nil, &store.Answer{Mode: store.Closed})
	}
	s.parts[index], s.size = p, s.size+len(p)
}

func (s *Session) decided(now time.Time) {
	e := s.env
	e.body = asks.AppendHead(e.body[:0], e.Mode(), len(s.parts))
	for _, part := range s.parts {
		e.body = append(e.body, part...)
	}
	s.forgetParts()
	s.send(now, http1.LocalResponse{Status: 200, ContentType: asks.ContentType, Body: e.body})
	if cap(e.body) > outBytesKept {
		e.body = nil
	}
}

// show answers with a document, or with all marks.
func (s *Session) show(now time.Time) {
	e := s.env
	docs := e.Documents()
	if docs == nil {
		s.fail(now, 503, "the documents of the store have not been read yet")
		return
	}
	if s.route == routeMarks {
		s.write(now, http1.LocalResponse{Status: 200, ContentType: "application/json", Body: docs.Marks})
		return
	}
	doc, ok := docs.Named[s.name]
	switch {
	case !ok:
		s.fail(now, 404, "there is no document of this name")
	case doc.Version == 0:
		s.write(now, http1.LocalResponse{Status: 204})
	default:
		e.extra = http1.AppendField(e.extra[:0], "ETag", strconv.Quote(strconv.FormatInt(doc.Version, 10)))
		s.write(now, http1.LocalResponse{Status: 200, ContentType: "application/json", Body: doc.Body, Extra: e.extra})
	}
}
