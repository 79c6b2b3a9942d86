package exchange

import (
	"bytes"
	"iter"

	"weir/internal/http1"
	"weir/proxy/refusal"
)

// keepAccept keeps the form in which the client wants a refusal, for the states in which forward is
// not the head for a target.
func (x *Exchange) keepAccept(h *http1.Head) {
	value, _ := h.Value(http1.FieldAccept)
	x.wants = refusal.ParseAccept(value)
}

// accept returns the form in which the client wants a refusal.
func (x *Exchange) accept() refusal.Accept {
	if x.forward == nil || x.outcome.Own { // an own endpoint's body follows its head without an empty line
		return x.wants
	}
	for value := range values(x.forward, "accept") {
		return refusal.ParseAccept(value)
	}
	return refusal.Accept{}
}

// values yields the values of the fields of a name in a head, which an empty line may follow.
func values(b []byte, name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			_, after, _ := bytes.Cut(b, []byte("\r\n"))
			line, _, _ := bytes.Cut(after, []byte("\r\n"))
			if len(line) == 0 {
				return
			}
			if n := len(name); len(line) > n && line[n] == ':' && http1.EqualFold(line[:n], name) && !yield(bytes.TrimSpace(line[n+1:])) {
				return
			}
			b = after
		}
	}
}

// originBytesMax bounds the Origin that refusals repeat; browsers send none that is longer.
const originBytesMax = 512

// keepOrigin keeps the origin of the requesting page, for a refusal.
func (x *Exchange) keepOrigin(h *http1.Head) {
	if !x.env.Settings.CORS {
		return
	}
	if origin, ok := h.Value(http1.FieldOrigin); ok && len(origin) > 0 && len(origin) <= originBytesMax {
		x.origin = append(x.env.take(), origin...)
	}
}
