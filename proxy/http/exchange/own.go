package exchange

import (
	"time"

	"weir/internal/net/http1"
)

// An OwnResponse is the answer of an own endpoint.
type OwnResponse struct {
	Status int
	Fields [][2]string
	Body   []byte
}

// An own says for which own endpoint a request is.
type own uint8

const (
	ownNone   own = iota // it is for the target
	ownPath              // it has one of Settings.OwnPaths
	ownStatus            // it asks about a deferred request
)

// ownOf returns for which own endpoint a path is.
func (set *Settings) ownOf(path []byte) own {
	n := len(set.DeferPath)
	switch {
	case set.OwnPaths.Has(path):
		return ownPath
	case n > 0 && len(path) > n && string(path[:n]) == set.DeferPath:
		return ownStatus
	}
	return ownNone
}

// beginOwn starts a request to an own endpoint.
func (x *Exchange) beginOwn(now time.Time, h *http1.Head, which own) {
	x.request.become(requestCollecting)
	if h.Length > x.bodyMax() {
		x.answerError(now, 413, bodyTooLarge)
		return
	}
	if which == ownStatus { // the endpoints have a fixed path
		h.Path = append([]byte("/deferred/"), h.Path[len(x.env.Settings.DeferPath):]...)
		h.Form = http1.FormAbsolute // so that it is written again
	}
	x.keepReceived(&x.forward, h)
	x.admitted(now)
}

// keepReceived makes m a request as it was received, for own endpoints or to be stored, but with the id
// that it has here.
func (x *Exchange) keepReceived(m *Request, h *http1.Head) {
	m.begin(x.env.take(), h, h.Host)
	for i := range h.Fields {
		if f := &h.Fields[i]; forOwn(f.ID) && !x.replacesID(f) {
			m.Head = http1.AppendFieldLine(m.Head, f)
		}
	}
	m.Head = x.appendRequestID(m.Head)
}

// forOwn reports whether own endpoints get a field: all do except those of the framing and
// the connection. Fields named by Connection are kept, because otherwise the client could
// hide which proxies have forwarded the request.
func forOwn(id http1.FieldID) bool { return !id.Hop() && id != http1.FieldExpect }

// endOwn passes the request on, with the length of its body.
func (x *Exchange) endOwn() {
	x.forward.Framing, x.forward.Length = http1.BodyLength, x.body.collected
	x.deadline = time.Time{}
	x.env.fx.Own = &OwnRequest{Request: &x.forward, From: x.client}
}

// HandleOwn handles the answer of an own endpoint. It does nothing if the client has disconnected.
func (x *Exchange) HandleOwn(now time.Time, r *OwnResponse) {
	x.env.Begin()
	if !x.outcome.Own || x.request != requestWhole {
		return
	}
	extra := x.answers(now).Extra
	for _, f := range r.Fields {
		if f[0] != "Content-Length" && f[0] != "Date" {
			extra = http1.AppendField(extra, f[0], f[1])
		}
	}
	x.finish(now, http1.LocalResponse{Status: r.Status, Body: r.Body, Extra: extra})
}
