package exchange

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"weir/internal/http1"
	"weir/proxy/decide"
)

// RequestIDMax bounds the request ids that are accepted, in bytes.
const RequestIDMax = 64

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
		if validRequestID(theirs) {
			x.outcome.RequestID = append(id, theirs...)
			return
		}
	}
	x.outcome.RequestID = appendRequestID(x.env.Random, id)
}

// RequestID returns the id of the current request, or nil. It is borrowed.
func (x *Exchange) RequestID() []byte { return x.outcome.RequestID }

// validRequestID reports whether an id consists of characters without a special meaning, so
// that it can be written anywhere.
func validRequestID(id []byte) bool {
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.' && c != '=' && c != ':' && c != '@' {
			return false
		}
	}
	return len(id) > 0 && len(id) <= RequestIDMax
}

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

// appendRequestID appends 128 random bits.
func appendRequestID(random *rand.ChaCha8, dst []byte) []byte {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], random.Uint64())
	binary.LittleEndian.PutUint64(id[8:], random.Uint64())
	return hex.AppendEncode(dst, id[:])
}
