package exchange

import "weir/internal/http1"

// originBytesMax bounds the Origin that refusals repeat; a longer one is none of a
// browser's.
const originBytesMax = 512

// keepOrigin keeps the origin of the page that makes the request, for a refusal.
func (x *Exchange) keepOrigin(h *http1.Head) {
	if !x.env.Settings.CORS {
		return
	}
	if origin, ok := h.Value(http1.FieldOrigin); ok && len(origin) > 0 && len(origin) <= originBytesMax {
		x.origin = append(x.env.take(), origin...)
	}
}

// appendCORS appends to a refusal what has a browser show it to the page that made the
// request (Fetch standard, section 3.3). Without it the page learns of a network error
// only. It tells pages of any origin, but without Access-Control-Allow-Credentials.
func (x *Exchange) appendCORS(dst []byte) []byte {
	if x.origin == nil {
		return dst
	}
	dst = http1.AppendField(dst, "Access-Control-Allow-Origin", x.origin)
	dst = append(dst, "Vary: Origin\r\nAccess-Control-Expose-Headers: "+
		"Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Retry-After, "+decisionField...)
	if x.outcome.RequestID != nil {
		dst = append(dst, ", "+requestIDField...)
	}
	return append(dst, "\r\n"...)
}
