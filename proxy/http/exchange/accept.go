package exchange

import (
	"weir/internal/net/http1"
	"weir/proxy/rules/refusal"
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
	for value := range http1.Values(x.forward, "accept") {
		return refusal.ParseAccept(value)
	}
	return refusal.Accept{}
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
