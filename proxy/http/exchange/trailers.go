package exchange

import "weir/internal/net/http1"

// Trailers are passed on even if no Trailer field announces them, since many senders do not send one. A target
// gets them if the request's body has no length. A client gets them if it uses HTTP/2, or sends TE: trailers and
// the answer is chunked. Trailers of stored requests and of requests to own endpoints are dropped.

// HandleTrailers handles the trailer section of the request, before HandleBodyEnd. lines are its field lines, or
// nil if it must be dropped.
func (x *Exchange) HandleTrailers(lines []byte) {
	passes := x.body.length < 0 && x.request != requestDeferring && !x.outcome.Own && !x.env.Settings.DropTrailers
	if lines == nil || !passes {
		x.outcome.Trailers++
		return
	}
	x.body.trailers = x.appendTrailers(x.env.take(), lines, true)
}

// HandleResponseTrailers handles the trailer section of the answer, before HandleResponseEnd. lines are as for
// HandleTrailers.
func (x *Exchange) HandleResponseTrailers(lines []byte) {
	passes := x.HTTP2 || x.takesTrailers && x.received.framing == http1.BodyChunked
	if lines == nil || !passes || x.env.Settings.DropTrailers {
		x.outcome.Trailers++
		return
	}
	start := len(x.env.fields)
	x.env.fields = x.appendTrailers(x.env.fields, lines, false)
	x.env.fx.Trailers = x.env.fields[start:]
}

// appendTrailers appends the trailers that are passed on. Claims about the origin are not, whoever sends them,
// nor are limits of a target that would contradict ours.
func (x *Exchange) appendTrailers(dst, lines []byte, request bool) []byte {
	claims, dropped := x.env.Settings.claims(), 0
	for f := range http1.FieldLines(lines) {
		if !f.MayBeTrailer() || claims.Has(f.Name) || request && f.Odd && !x.keepsOdd(f.Name) ||
			!request && x.verdict.Replaces(f.Name, x.families()) {
			dropped = 1
			continue
		}
		dst = http1.AppendFieldLine(dst, &f)
	}
	x.outcome.Trailers += dropped
	return dst
}
