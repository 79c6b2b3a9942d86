package exchange

import (
	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
)

// keepRequestID sets the id of the request in h: that of a trusted proxy or of a stored request if
// it is valid, otherwise a new one.
func (x *Exchange) keepRequestID(h *http1.Head) {
	if !x.env.Settings.RequestID {
		return
	}
	id := x.env.take()
	if x.Trusted || x.env.Delivery {
		theirs, _ := h.Value(http1.FieldXRequestID)
		for i := range h.Fields {
			if f := &h.Fields[i]; f.ID == http1.FieldXRequestID && x.env.Delivery {
				theirs = f.Value // older proxies stored the client's before their own
			}
		}
		if decide.ValidRequestID(theirs) {
			x.outcome.RequestID = append(id, theirs...)
			return
		}
	}
	x.outcome.RequestID = decide.AppendRequestID(x.env.Random, id)
}

// RequestID returns the id of the current request, or nil. It is borrowed.
func (x *Exchange) RequestID() []byte { return x.outcome.RequestID }

// replacesID reports whether the proxy writes that field itself.
func (x *Exchange) replacesID(f *http1.Field) bool {
	return f.ID == http1.FieldXRequestID && x.outcome.RequestID != nil
}

// appendRequestID appends the request's id, if it has one.
func (x *Exchange) appendRequestID(dst []byte) []byte {
	if id := x.outcome.RequestID; id != nil {
		return http1.AppendField(dst, decide.RequestIDField, id)
	}
	return dst
}
