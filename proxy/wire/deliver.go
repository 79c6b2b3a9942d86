package wire

import (
	"cmp"
	"net/http"
	"net/netip"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
	"weir/proxy/targets/gate"
)

// A stored request is delivered by a client whose peer is no connection: its session reads the
// stored bytes, and its output is kept in memory. Everything else is as for other
// clients: matching, counters, queues, pools, health.

// A DeferFunc stores a refused request. It calls stored once with the result, on any goroutine.
type DeferFunc func(now time.Time, k *exchange.DeferredRequest, from *exchange.ClientInfo,
	stored func(deferred.PutResult))

// A LookUpFunc finds out whether a request is stored already. It calls known once with the result, on any
// goroutine.
type LookUpFunc func(now time.Time, k *exchange.DeferredRequest, known func(bool))

// A Delivery is one attempt to deliver a stored request.
type Delivery struct {
	Request  []byte // as its client would send it
	Added    []byte // further field lines for the target
	Remote   netip.Addr
	Secure   bool
	Trusted  bool
	HoldMax  time.Duration // how long to wait when a limit refuses and would admit the request within that time
	BytesMax int           // bound on the part of the answer's body that is kept
	// Once says that the request is not sent again when its result is unknown. Therefore it gets a
	// new connection: the target may be closing one that was used before.
	Once bool
	// Done is called once, on an event loop, unless the delivery was withdrawn.
	Done      func(now time.Time, d *DeliveryResult)
	SendState deferred.SendState
}

// A DeliveryResult is the result of a Delivery.
type DeliveryResult struct {
	Refused bool          // by a limit, or for lack of room in the proxy; nothing was sent
	After   time.Duration // when to try again; if not refused, the target's Retry-After
	Sent    bool          // part of the request may have reached the target
	Fault   string        // why there is no answer
	Result  deferred.Result
}

const (
	// unableFor is the pause of a delivery for which there was no decision or no place.
	unableFor = time.Second
	// streamsFor is the pause if there was no place for a stream. Tunnels and streams last long, and
	// each try is charged to the limit, which live requests share.
	streamsFor = 15 * time.Second
)

// setDeferring prepares the loop for storing and delivering requests, if a queue is
// configured.
func (s *loopServer) setDeferring() {
	cfg := &s.shared.cfg
	if cfg.Defer == nil {
		return
	}
	settings := *s.env.Settings
	settings.Head, settings.BodyBytesMax = session.StoredHeadLimits(), 0 // what is stored was within the limits
	s.deliveries = session.Env{Settings: &settings, Env: s.env.Env}
	s.deliveries.Delivery, s.deliveries.Ask = true, s.askForDelivery
	s.deliveries.Refused = func(time.Time, *decide.Refusal) []byte { return nil }
	s.env.Defers = true
	if cfg.Local != nil && cfg.Local != cfg.Store {
		s.local = cfg.Local.NewLane(s.loop.Post)
	}
}

// store stores a refused request.
func (c *client) store(now time.Time, k *exchange.DeferredRequest) {
	c.server.shared.cfg.Defer(now, k, &c.x.ClientInfo, func(stored deferred.PutResult) {
		c.server.loop.Post(func(now time.Time) {
			c.x.HandleDeferred(now, &stored)
			c.apply(now)
		})
	})
	*k = exchange.DeferredRequest{} // else it would keep the request in memory until the next one is stored
}

// lookUp finds out whether an admitted request is stored already.
func (c *client) lookUp(now time.Time, k *exchange.DeferredRequest) {
	c.server.shared.cfg.LookUp(now, k, func(known bool) {
		c.server.loop.Post(func(now time.Time) {
			c.x.HandleLookUp(now, known)
			c.apply(now)
		})
	})
	*k = exchange.DeferredRequest{}
}

// askForDelivery is like ask, for deliveries. While the shared store is unavailable and admits
// everything, the local store decides, so that a backlog does not reach the target all at once.
func (s *loopServer) askForDelivery(now time.Time, x *exchange.Exchange, ask *store.Ask, ans *store.Answer) bool {
	c := x.Owner.(*client)
	if s.local != nil && s.shared.cfg.Store.Mode() == store.FailOpen {
		return s.local.Ask(now, ask, ans, c.decidedForDelivery)
	}
	if !s.lane.Ask(now, ask, ans, c.decidedForDelivery) {
		return false
	}
	if ans.Mode == store.FailOpen && s.local != nil {
		return s.local.Ask(now, ask, ans, c.decidedForDelivery)
	}
	return true
}

// decidedForDelivery handles an answer that came later. If the store has become unavailable
// meanwhile, the request is refused; the next ask goes to the local store.
func (c *client) decidedForDelivery(now time.Time, ans *store.Answer) {
	if c.closed {
		return
	}
	if ans.Mode == store.FailOpen && c.server.local != nil {
		ans.Granted, ans.Decisions, ans.Mode = 0, ans.Decisions[:0], store.Closed
	}
	c.x.HandleDecision(now, ans)
	c.apply(now)
}

// Deliver delivers a stored request. The loops take turns.
func (f *Server) Deliver(d *Delivery) {
	s := f.loops[f.turn.Add(1)%uint64(len(f.loops))]
	s.loop.Post(func(now time.Time) { s.deliver(now, d) })
}

// A carried is a Delivery in progress.
//
// Owned by its loop.
type carried struct {
	client
	*Delivery
	s      *session.Session
	expiry *loop.Alarm // rings at the session's deadline
	in     []byte      // part of the request that the session has not read
	unread bool        // the session has asked to read in
	over   bool
	result DeliveryResult
	denied time.Duration // how long the limits that refuse it will keep refusing
	answer deferred.ResponseReader
}

// deliver starts a delivery.
func (s *loopServer) deliver(now time.Time, d *Delivery) {
	k := &carried{Delivery: d, in: d.Request, unread: true, s: session.New(now, &s.deliveries, d.Remote, d.Secure),
		answer: deferred.NewResponseReader(&s.shared.cfg.Session.ResponseHead, d.BytesMax)}
	k.begin(s, k, k.s, &k.s.Exchange)
	k.expiry = s.loop.NewAlarm(func(now time.Time) {
		if !k.closed {
			k.expired(now)
		}
	})
	k.x.Trusted = d.Trusted
	s.deliveries.Added = d.Added
	k.feed(now)
	s.deliveries.Added = nil
	k.apply(now)
}

func (k *carried) addrs() (remote, local netip.AddrPort) {
	return netip.AddrPortFrom(k.Remote, 0), netip.AddrPort{}
}
func (k *carried) background() bool              { return true }
func (k *carried) setDeadline(at time.Time)      { k.expiry.Set(at) }
func (k *carried) write(now time.Time, b []byte) { k.answer.Write(now, b) }
func (k *carried) end(*session.Effects)          {}
func (k *carried) read(fx *session.Effects)      { k.unread = k.unread || fx.Read }

// takes refuses a connection that was used before if the request may be sent only once: the target may
// be closing it. With HTTP/2 it says then which requests it has not processed. Nothing is sent if the
// delivery was withdrawn.
func (k *carried) takes(now time.Time, u *upstreamConn, reused bool) bool {
	if reused && k.Once && u.of == nil {
		k.enter(now, true) // in the place of u, which may still be open when the new one is
		u.conn.Abort()     // nothing is on it, and a reset leaves no port in TIME_WAIT
		return false
	}
	if !k.SendState.Commit() {
		k.use(now, u)
		k.over = true
		k.release(now, exchange.ReleaseDiscard, nil)
		k.leave()
		return false
	}
	return true
}

// settled continues to read the stored request, or ends a finished delivery.
func (k *carried) settled(now time.Time) (more bool) {
	switch {
	case k.feed(now):
		return true
	case k.over:
		k.finished(now)
	default:
		k.arm()
	}
	return false
}

// feed passes unread bytes to the session if it has asked for them.
func (k *carried) feed(now time.Time) bool {
	if !k.unread || k.over {
		return false
	}
	k.unread = false
	k.in = k.in[k.s.HandleClient(now, k.in):]
	return true
}

// note keeps the decisions and outcomes that the session reports. The arrival was counted
// when the client sent the request.
func (k *carried) note(now time.Time, fx *session.Effects) {
	if s := k.server; fx.Matched != nil && s.shared.cfg.Gate.Mode != gate.Off {
		s.noteRoute(&k.client, fx.Matched)
	}
	if d := fx.Decided; d != nil && d.Answer.Granted == 0 {
		k.result.Refused = true
		for i := range d.Answer.Decisions {
			if _, refused := d.Judged(i); refused {
				k.denied = max(k.denied, d.Answer.Decisions[i].RetryAfter)
			}
		}
	}
	if fx.Report != nil {
		k.report(now, fx.Report)
	}
}

// report records how the delivery has ended.
func (k *carried) report(now time.Time, o *exchange.Outcome) {
	k.over = true
	t := &k.result
	t.Sent = !o.Sent.IsZero() && o.Fault != exchange.FaultShed // then the target has not got all of it
	switch {
	case t.Refused:
		t.After = cmp.Or(k.denied, unableFor)
		k.notice.forget()
	case !t.Sent && (o.Fault.LackOfRoom() || o.Fault == exchange.FaultNone && o.Status == http.StatusServiceUnavailable):
		t.Refused, t.After = true, unableFor
		if o.Fault == exchange.FaultStreams {
			t.After = streamsFor
		}
	case o.Fault != exchange.FaultNone:
		t.Fault = o.Fault.String()
	}
	if !t.Refused {
		k.wrote(now, o)
		k.server.counts.Delivered(now, o)
	}
	k.learn(now, o)
}

// finished ends a finished delivery, or starts it again when a limit will admit it soon.
func (k *carried) finished(now time.Time) {
	if k.closed {
		return
	}
	k.close(k.expiry)
	k.s.HandleClosed(now)
	k.s.MoveEffects(now, new(session.Effects)) // nobody waits for them
	k.disown()
	t := &k.result
	if t.Refused && k.denied > 0 && k.denied <= k.HoldMax && !k.server.draining {
		again := k.server.loop.NewAlarm(func(now time.Time) { k.server.deliver(now, k.Delivery) })
		again.Set(now.Add(k.denied))
		return
	}
	if !t.Refused && t.Fault == "" {
		t.Result, t.After = k.answer.Result, k.answer.RetryAfter
	}
	if k.SendState.Commit() {
		k.Done(now, t)
	}
}
