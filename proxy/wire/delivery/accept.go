package delivery

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/netip"
	"time"

	"weir/internal/net/share"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
	"weir/proxy/rules/keys"
)

// Accept stores a refused request and calls done with the result. It is a [wire.DeferFunc].
func (d *Dispatcher) Accept(now time.Time, k *exchange.DeferredRequest, from *exchange.ClientInfo,
	done func(deferred.PutResult)) {
	q := d.opened()
	if q == nil {
		d.report(now, k.Rule.ID, deferred.PutResult{Outcome: deferred.Unstored}, done)
		return
	}
	ended, ok := d.intake.admit(now, share.ClientOf(k.Client))
	if !ok {
		d.report(now, k.Rule.ID, deferred.PutResult{Outcome: deferred.Full, Bound: deferred.BoundRate}, done)
		return
	}
	t := k.Rule.Defer
	p := &deferred.PutRequest{PerKey: t.PerKey, Entry: deferred.Entry{
		Rule: k.Rule.ID, LineKey: string(k.Line), Order: deferred.OneAtATime, Accepted: now, Expires: now.Add(t.WaitMax()),
		Due:    now.Add(k.RetryAfter),
		Remote: netip.AddrPortFrom(k.Client, 0), TLS: from.Secure, Trusted: from.Trusted,
		Head: session.AppendRequestFields(nil, k.Request, ""), Body: bytes.Clone(k.Body), Callback: k.Callback,
	}}
	e := &p.Entry
	_, _ = rand.Read(e.ID[:]) // never fails
	d.cfg.ProxyURLs.Tag(&e.ID)
	if t.Order == deferred.Unordered {
		e.Order, e.Parallel = deferred.SeveralAtATime, t.Parallel
	}
	if k.Key != nil {
		r := requestOf(k)
		e.Scope, e.Fingerprint = r.Scope(e.Rule, e.LineKey), r.Fingerprint()
	}
	began := time.Now()
	p.Done = func(s deferred.PutResult) {
		d.counts.storing.Observe(time.Since(began))
		ended(s.Outcome)
		if s.Outcome == deferred.Duplicate && s.State == deferred.Done {
			d.repeat(q, s, func(s deferred.PutResult) { d.report(now, e.Rule, s, done) })
			return
		}
		d.report(now, e.Rule, s, done)
		if s.Outcome == deferred.Accepted {
			d.ring()
		}
	}
	q.Put(now, p)
}

// requestOf returns the parts of a request that identify a repetition. They are borrowed.
func requestOf(k *exchange.DeferredRequest) *deferred.Request {
	r := &deferred.Request{Body: k.Body, Options: k.Options}
	if !keys.IdentifiesClient(k.Rule.Key, k.Line) {
		r.Sender = share.ClientOf(k.Client).String()
	}
	r.Method, r.Target = k.MethodText(), k.Target()
	return r
}

// repeat reads the target's answer to a request that was stored before, and passes it to done. It is
// nil if it cannot be read.
func (d *Dispatcher) repeat(q deferred.Queue, s deferred.PutResult, done func(deferred.PutResult)) {
	read := func() {
		ctx, cancel := context.WithTimeout(d.life, askWithin)
		defer cancel()
		if e, _, err := q.Read(ctx, s.ID); err == nil && e.State == deferred.Done {
			s.Result = e.Result
		}
		done(s)
	}
	if !d.inBackground(read) {
		done(s)
	}
}

// report counts the result of storing an entry, and passes it to done.
func (d *Dispatcher) report(now time.Time, rule string, s deferred.PutResult, done func(deferred.PutResult)) {
	d.counts.stored(rule, s.Outcome)
	switch {
	case s.Outcome != deferred.Full:
	case s.Bound == deferred.BoundRate:
		if n, ok := d.rateLog.Allow(now, time.Minute); ok {
			d.cfg.Log.Warn("DEFER_RATE is reached, refusing", "rule", rule, "rate", d.cfg.Rate, "others", n)
		}
	default:
		if n, ok := d.fullLog.Allow(now, time.Minute); ok {
			d.cfg.Log.Warn("Queue is full, refusing", "rule", rule, "bound", s.Bound, "waiting", d.waitingOf(rule), "others", n)
		}
	}
	done(s)
}

// waitingOf returns how many entries of a rule wait or are being delivered.
func (d *Dispatcher) waitingOf(rule string) int {
	for _, r := range d.stats().Rules {
		if r.Rule == rule {
			return waiting(&r)
		}
	}
	return 0
}
