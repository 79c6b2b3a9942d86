package exchange

import (
	"iter"
	"net/netip"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/deferred"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A refused request that a rule with defer covers is collected, stored and answered 202.
// Its delivery is another exchange.

// A DeferredRequest is a refused request to be stored. All of it is borrowed.
type DeferredRequest struct {
	Rule       *rule.Rule
	Line       []byte        // the rule's key
	Client     netip.Addr    // the address of the client; behind trusted proxies not that of the peer
	RetryAfter time.Duration // for the client, if it is not stored
	*Request                 // as received, except Connection and X-Request-Id
	deferred.Options
}

// A deferral says whether a request may be delivered later if it is refused.
type deferral uint8

const (
	deferralNone    deferral = iota // it may not
	deferralAllowed                 // it may
	deferralWanted                  // it may, and its client has asked for that
)

// mayDefer determines whether the request may be delivered later if it is refused.
func (x *Exchange) mayDefer(h *http1.Head, c *decide.Evaluation) {
	switch h.Method {
	case http1.GET, http1.HEAD, http1.OPTIONS:
		return
	}
	// A request older than HTTP/1.1 may have no host, but is stored as one in HTTP/1.1.
	if x.callType != "" || h.Upgrade || h.Length > x.env.Settings.DeferBodyMax || len(h.Host) == 0 {
		return
	}
	may, wanted := deferralAllowed, deferred.PrefersAsync(h)
	if wanted {
		may = deferralWanted
	}
	for i := range c.Asked {
		if d := c.Asked[i].Rule.Defer; d != nil && d.Stores(wanted) {
			x.deferral, x.later = may, i
		}
	}
	if x.deferral != deferralNone {
		_, x.keyed = h.Value(http1.FieldIdempotencyKey)
	}
}

// pass admits the request. If it has an Idempotency-Key, it may be stored already: then it must not
// be sent beside the stored one, and overtake its line.
func (x *Exchange) pass() {
	if x.keyed && x.env.Defers {
		x.request.become(requestLooking)
	} else {
		x.request.become(requestCollecting)
	}
}

// lookUp requests that the request be looked up in the queue.
func (x *Exchange) lookUp(now time.Time) {
	by := &x.asked[x.later]
	k := &x.env.kept
	*k = DeferredRequest{Rule: by.Rule, Line: by.Key, Client: x.client, Request: &x.kept}
	var fault string
	if k.Options, fault = x.wishesOf(by.Rule); fault != "" {
		x.known(now, false) // a fault counts only if the request is to be stored
		return
	}
	x.env.fx.LookUp = k
}

// HandleLookUp handles the result of looking the request up. If it is stored already, its charge
// is refunded, and it continues like a refused request: storing it finds the stored one.
func (x *Exchange) HandleLookUp(now time.Time, known bool) {
	x.env.Begin()
	if x.request == requestLooking { // otherwise its client has disconnected
		x.known(now, known)
	}
}

func (x *Exchange) known(now time.Time, known bool) {
	if !known {
		x.request.become(requestCollecting)
		x.admitted(now)
	} else {
		x.refund(x.asked, x.verdict.Mode, x.chargedAt)
		x.request.become(requestDeferring)
		x.outcome.Decision = Rejected
		x.verdict.By = &x.asked[x.later]
		x.verdict.Rule = x.verdict.By.Rule
		x.proceed(now)
	}
}

// postpone makes the request one that is delivered later.
func (x *Exchange) postpone(ans *store.Answer, asked []decide.ChargedCounter) {
	x.request.become(requestDeferring)
	if x.asked == nil {
		x.keepAsked(asked)
	}
	x.verdict.By = &x.asked[ans.Tightest]
}

// keepHead keeps the head of a request that may be stored. A trusted proxy that sent the request
// is added to X-Forwarded-For, since the delivery's Remote is the client.
func (x *Exchange) keepHead(h *http1.Head) {
	m := &x.kept
	x.keepReceived(m, h)
	m.Head = deferred.AppendConnection(m.Head, h, forOwn)
	if x.Trusted {
		m.Head = append(x.appendSender(append(m.Head, "X-Forwarded-For: "...)), "\r\n"...)
	}
}

// beginDeferring continues with a request that will be delivered later.
func (x *Exchange) beginDeferring(now time.Time) {
	if _, fault := x.wishes(); fault != "" {
		x.request.become(requestRefused)
		x.answerError(now, 400, fault)
		return
	}
	x.expectsBody()
	x.awaitBody(now)
}

// wishes returns what the client wants for the stored request, and what is wrong with it.
func (x *Exchange) wishes() (deferred.Options, string) { return x.wishesOf(x.verdict.Rule) }

// wishesOf is wishes, for storing the request by a rule.
func (x *Exchange) wishesOf(r *rule.Rule) (deferred.Options, string) {
	fields := x.kept.Fields()
	values := func(name string) iter.Seq[[]byte] { return http1.Values(fields, name) }
	return r.Defer.ParseOptions(x.env.Settings.Callbacks, values)
}

// keepBody keeps a piece of the body.
func (x *Exchange) keepBody(now time.Time, p []byte) {
	if x.body.collected <= x.env.Settings.DeferBodyMax {
		x.kept.add(x.env, p)
		return
	}
	x.request.become(requestRefused)
	x.HandleUnread(now, false)
}

// store requests that the request be stored.
func (x *Exchange) store() {
	x.request.become(requestStoring)
	x.bodyPaused()
	k := &x.env.kept
	*k = DeferredRequest{Rule: x.verdict.Rule, Line: x.verdict.By.Key, Client: x.client,
		RetryAfter: x.verdict.State.RetryAfter, Request: &x.kept}
	k.Options, _ = x.wishes()
	x.env.fx.Store = k
}

// HandleDeferred handles the result of storing the request. It is called even if the client
// has left: a stored request is delivered in any case.
func (x *Exchange) HandleDeferred(now time.Time, s *deferred.PutResult) {
	x.env.Begin()
	if s.Outcome == deferred.Accepted || s.Outcome == deferred.Duplicate {
		x.outcome.Decision = Deferred
	}
	if x.request == requestLeft {
		x.report()
		x.reset()
		return
	}
	switch s.Outcome {
	case deferred.Accepted, deferred.Duplicate:
		w, _ := x.wishes()
		p := decide.StoredRequest{Stored: s, Path: x.env.Settings.DeferPath,
			Applied: w.AppliedPreferences(x.deferral == deferralWanted)}
		x.finish(now, x.answers(now).Accept(now, &p, &x.verdict, x.asReader()))
	case deferred.Conflict:
		x.finishError(now, 422, "another request has the same Idempotency-Key")
	case deferred.Storing:
		x.retryAfter = time.Second
		x.finishError(now, 409, "a request with the same Idempotency-Key is being stored")
	default:
		x.env.responder.Deferred = x.verdict.WhyNotStored(now, s)
		x.answerRefused(now)
	}
}
