package session

import "weir/internal/http1"

// ownBodyMax bounds the body of a request to an own endpoint; beyond: 413.
const ownBodyMax = 1 << 20

// An ownRequest gathers a request to an own endpoint. It exists while such a
// request comes in, which is rare.
//
// Owned by its loop.
type ownRequest struct {
	head []byte // without the field that says the length
	body []byte
}

// newOwnRequest begins with the head h. The fields of the framing and the
// connection stay behind; the length is written anew, as the body arrives without its
// coding. Fields that Connection names are passed on, as the client could hide by
// it who has passed the request on.
func newOwnRequest(h *http1.Head) *ownRequest {
	o := &ownRequest{head: http1.AppendForwardLine(nil, h)}
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

// add takes a piece of the body, unless there is too much of it.
func (o *ownRequest) add(piece []byte) bool {
	if len(o.body)+len(piece) > ownBodyMax {
		return false
	}
	o.body = append(o.body, piece...)
	return true
}

// raw is the whole request.
func (o *ownRequest) raw() []byte {
	raw := http1.AppendFieldInt(o.head, "Content-Length", int64(len(o.body)))
	raw = http1.AppendHeadEnd(raw)
	return append(raw, o.body...)
}

// A Reply is what an own endpoint answers.
type Reply struct {
	Status int
	// Fields are names and values. Those about framing, connection and date are
	// the Session's own and must not be among them.
	Fields [][2]string
	Body   []byte
}
