package session

import "weir/internal/http1"

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

// add appends a piece of the body and returns true, unless the body is too large.
func (o *ownRequest) add(piece []byte) bool {
	if len(o.body)+len(piece) > ownBodyMax {
		return false
	}
	o.body = append(o.body, piece...)
	return true
}

func (o *ownRequest) raw() []byte {
	raw := http1.AppendFieldInt(o.head, "Content-Length", int64(len(o.body)))
	raw = http1.AppendHeadEnd(raw)
	return append(raw, o.body...)
}

// A Reply is the answer of an own endpoint.
type Reply struct {
	Status int
	// Fields are names and values. Those about framing, connection and date are added by the
	// Session and must not be among them.
	Fields [][2]string
	Body   []byte
}
