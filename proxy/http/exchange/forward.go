package exchange

import (
	"math"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/refusal"
)

// HandleHead handles the head of a request. It is borrowed until the carrier has checked
// whether the request is Refused. began is when its first byte arrived.
func (x *Exchange) HandleHead(now time.Time, h *http1.Head, began time.Time) {
	x.outcome.Method, x.outcome.Began = h.Method, began
	if h.Framing != http1.BodyNone {
		x.body.length, x.body.expected = h.Length, h.Expect == http1.ExpectContinue
	}
	if h.Framing == http1.BodyChunked {
		x.body.hops = h.AppendHopNames(nil)
	}
	accept, _ := h.Value(http1.FieldAccept)
	x.wants = refusal.ParseAccept(accept)
	x.takesTrailers = h.TakesTrailers()
	own := x.env.Settings.ownOf(h.Path)
	x.outcome.Own = own != ownNone
	x.noticeCall(now, h)
	x.keepRequestID(h)
	x.keepOrigin(h)
	if !x.outcome.Own {
		x.env.received = ReceivedRequest{h, x.client}
		x.env.fx.Received = &x.env.received
	}
	if err := h.Check(); err != nil {
		x.HandleBadRequest(now, began, err)
		return
	}
	if x.outcome.Own {
		x.beginOwn(now, h, own)
		return
	}
	if x.answersLocally(now, h) {
		return
	}
	forwards := h.MaxForwards()
	if forwards == 0 {
		x.request.become(requestRefused)
		return
	}
	x.dropFields(h)
	if !x.ask(now, h) {
		return
	}
	// the head is not available later
	if x.request != requestRefused && x.request != requestDeferring {
		x.beginForward(h, forwards)
	}
	if x.request != requestRefused && x.request != requestCollecting && x.deferral != deferralNone {
		x.keepHead(h)
	}
	x.proceed(now)
}

// proceed continues with a request about which something was decided.
func (x *Exchange) proceed(now time.Time) {
	switch x.request {
	case requestCollecting:
		x.admitted(now)
	case requestLooking:
		x.lookUp(now)
	case requestDeferring:
		x.forward.drop(x.env) // the delivery makes it again
		x.beginDeferring(now)
	}
}

// answersLocally reports whether it has answered a request that is not forwarded regardless of
// limits. The connection then closes.
func (x *Exchange) answersLocally(now time.Time, h *http1.Head) bool {
	switch {
	case x.env.Settings.NoTargets:
		x.answerError(now, 404, "nothing is forwarded here")
	case h.Length > x.bodyMax():
		x.answerError(now, 413, bodyTooLarge)
	case x.inLoop(h):
		x.outcome.Looped = true
		x.answerError(now, 508, "the request has passed this proxy before")
	case x.overloaded():
		x.answerError(now, 503, ShortOfMemory)
	default:
		return false
	}
	return true
}

// beginForward makes the request for the target, which may be forwarded so often, -1 for any. Its body
// is added as it arrives.
func (x *Exchange) beginForward(h *http1.Head, forwards int) {
	m, host := &x.forward, []byte(nil) // the target has not been chosen yet
	if x.env.Settings.PreserveHost && len(h.Host) > 0 {
		host = h.Host
	}
	m.begin(x.env.take(), h, host)
	if h.Upgrade {
		m.Upgrade = string(x.asksUpgrade(h))
	}
	m.TakesTrailers = x.takesTrailers && m.Upgrade == "" && !x.env.Settings.DropTrailers
	m.Head = x.appendFields(m.Head, h, forwards)
	if h.Method.Idempotent() && m.Upgrade == "" && !x.env.Delivery { // for stored requests package deferred decides
		x.replay = replayOnce
	}
}

// asksUpgrade returns the protocols that a request asks for, if it may switch to one. A request
// with a body may not, since it would be unclear where the other protocol begins.
func (x *Exchange) asksUpgrade(h *http1.Head) []byte {
	if h.Minor == 0 || h.Framing != http1.BodyNone {
		return nil
	}
	asked, _ := h.Value(http1.FieldUpgrade)
	for _, name := range x.env.Settings.Upgrades {
		if http1.EqualFold(asked, name) {
			return asked
		}
	}
	return nil
}

// appendFields appends the fields of h as the target gets them: without those of the client's connection,
// and with those that the proxy adds (RFC 9110 section 7.6, X-Forwarded-*).
func (x *Exchange) appendFields(dst []byte, h *http1.Head, forwards int) []byte {
	fields := h.Fields
	for i := range fields {
		f := &fields[i]
		if x.withheld(f) || x.replacesID(f) || f.ID == http1.FieldExpect || f.ID == http1.FieldMaxForwards && forwards > 0 {
			continue
		}
		if http1.IsConnectionAuth(f) {
			x.Private = true
		}
		dst = http1.AppendFieldLine(dst, f)
	}
	if forwards > 0 {
		dst = http1.AppendFieldInt(dst, "Max-Forwards", int64(forwards-1))
	}
	dst = x.appendOrigin(append(dst, x.env.Added...), h)
	return x.appendPassage(x.appendRequestID(dst), h.Minor)
}

// bodyTooLarge is the reason in a 413.
const bodyTooLarge = "the request body is larger than this proxy takes"

// bodyMax returns the maximum size of the request's body.
func (x *Exchange) bodyMax() int64 {
	if x.outcome.Own {
		return x.env.Settings.OwnBytesMax
	}
	if most := x.env.Settings.BodyBytesMax; most > 0 {
		return most
	}
	return math.MaxInt64
}
