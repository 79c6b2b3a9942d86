package exchange

import (
	"net/netip"
	"time"
)

// ShortOfMemory is the reason in a 503 of an overloaded proxy.
const ShortOfMemory = "the proxy is short of memory"

func (x *Exchange) overloaded() bool {
	return x.env.Overloaded != nil && x.env.Overloaded(x.client)
}

// ClientAddr returns the address of the client of the current request. Behind trusted proxies
// that is the last address that is not theirs. Without a request it is Remote.
func (x *Exchange) ClientAddr() netip.Addr {
	if x.client.IsValid() {
		return x.client
	}
	return x.Remote
}

// Memory returns how many bytes the exchange keeps of its request and its answer.
func (x *Exchange) Memory() int64 {
	n := x.forward.bytes() + x.kept.bytes() + cap(x.body.last) + cap(x.body.trailers) + cap(x.body.hops)
	n += cap(x.received.head) + cap(x.received.body) + cap(x.received.hops)
	return int64(n + cap(x.keys) + cap(x.origin) + cap(x.from))
}

// HandleShortage says that the exchange must free its memory. It reports whether it has
// answered; otherwise the carrier ends it by HandleClientClosed, because its answer has begun or
// others still work on the request.
func (x *Exchange) HandleShortage(now time.Time) bool {
	x.env.Begin()
	switch x.request {
	case requestCollecting, requestStreaming, requestDeferring, requestWhole, requestWithheld:
	default:
		return false
	}
	if x.answer == answerRelaying {
		return false
	}
	if x.upstream == upstreamWanted {
		x.env.fx.Acquire = AcquireCancel
	}
	status := 503
	if !x.outcome.Sent.IsZero() && x.request != requestWithheld {
		status = 502 // the target may have executed it, so the client must not simply repeat it
	}
	x.answerError(now, status, ShortOfMemory)
	return true
}
