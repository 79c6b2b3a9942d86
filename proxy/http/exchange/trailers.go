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
	x.body.trailers = x.appendTrailers(x.env.take(), lines, x.body.hops, x.seenByRules)
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
	x.env.fields = x.appendTrailers(x.env.fields, lines, x.received.hops, x.replacedLimit)
	x.env.fx.Trailers = x.env.fields[start:]
}

// appendTrailers appends the trailers that are passed on: without those that the sender's Connection names (hops), or
// that not drops. Claims about the origin are not passed on, whoever sends them.
func (x *Exchange) appendTrailers(dst, lines, hops []byte, not func(f *http1.Field) bool) []byte {
	forwarding, dropped := x.env.Settings.claims(), 0
	for f := range http1.FieldLines(lines) {
		if !f.MayBeTrailer() || forwarding.Has(f.Name) || http1.ListHas(hops, f.Name) || not(&f) {
			dropped = 1
			continue
		}
		dst = http1.AppendFieldLine(dst, &f)
	}
	x.outcome.Trailers += dropped
	return dst
}

// seenByRules reports whether a target that merges trailers into the head, as some do, would find there what rules
// did not see, or a field of another name.
func (x *Exchange) seenByRules(f *http1.Field) bool {
	return f.AmbiguousName && !x.keepsOdd(f.Name) || x.verdict.Policy.Rules.HasField(f.Name)
}

// replacedLimit reports whether a field of a target's own limits would contradict ours.
func (x *Exchange) replacedLimit(f *http1.Field) bool {
	return x.verdict.Replaces(f.Name, x.families())
}
