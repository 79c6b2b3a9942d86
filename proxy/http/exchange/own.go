package exchange

import (
	"strconv"
	"time"

	"weir/internal/net/http1"
)

// A Reply is the answer of an own endpoint.
type Reply struct {
	Status int
	Fields [][2]string
	Body   []byte
}

// beginOwn starts a request to an own endpoint. Its head is written again, and the length of
// the body is added when that is known.
func (x *Exchange) beginOwn(now time.Time, h *http1.Head) {
	x.request.become(requestCollecting)
	x.keepAccept(h)
	if h.Length > x.bodyMax() {
		x.answerError(now, 413, bodyTooLarge)
		return
	}
	if set := x.env.Settings; set.isDeferred(h.Path) { // the endpoints have a fixed path
		h.Path = append([]byte("/deferred/"), h.Path[len(set.DeferPath):]...)
		h.Form = http1.FormAbsolute // so that it is written again
	}
	x.forward = x.appendReceived(x.env.take(), h)
	x.response = x.env.take()
	x.admitted(now)
}

// appendReceived appends a head as it was received, for own endpoints or to be stored, without
// the empty line and the length of the body, but with the id that the request has here.
func (x *Exchange) appendReceived(dst []byte, h *http1.Head) []byte {
	dst = http1.AppendForwardLine(dst, h)
	dst = http1.AppendField(dst, "Host", h.Host)
	for i := range h.Fields {
		if f := &h.Fields[i]; forOwn(f.ID) && !x.replacesID(f) {
			dst = http1.AppendFieldLine(dst, f)
		}
	}
	return x.appendRequestID(dst)
}

// forOwn reports whether own endpoints get a field: all do except those of the framing and
// the connection. Fields named by Connection are kept, because otherwise the client could
// hide which proxies have forwarded the request.
func forOwn(id http1.FieldID) bool { return !id.Hop() && id != http1.FieldExpect }

// endOwn passes the request on. The body was collected after the head; its length is
// inserted between the two.
func (x *Exchange) endOwn() {
	head := len(x.forward) - int(x.collected)
	body := append(x.response[:0], x.forward[head:]...)
	x.forward = append(x.forward[:head], "Content-Length: "...)
	x.forward = strconv.AppendInt(x.forward, x.collected, 10)
	x.forward = append(x.forward, "\r\n\r\n"...)
	x.forward = append(x.forward, body...)
	x.response = body
	x.deadline = time.Time{}
	x.fx.Own, x.fx.OwnFrom = x.forward, x.client
}

// HandleOwn handles the answer of an own endpoint. It does nothing if the client has disconnected.
func (x *Exchange) HandleOwn(now time.Time, r *Reply) {
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
	x.finish(now, http1.Answer{Status: r.Status, Body: r.Body, Extra: extra})
}
