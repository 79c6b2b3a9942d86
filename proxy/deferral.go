package main

import (
	"context"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/wire/delivery"
)

// handOverWithin bounds how long deliveries in flight may take when a successor waits for
// the queue.
const handOverWithin = 900 * time.Millisecond

// openDeferral opens the queue of deferred requests, if one is configured. During a
// take-over the predecessor may still hold it.
func (p *proxy) openDeferral(takeover bool) (err error) {
	c := p.config
	if !c.Defer.Used() || len(c.Targets) == 0 {
		return nil
	}
	log, session := p.Logger("Deferred"), c.Session()
	var client *delivery.CallbackSender
	if c.Defer.Callbacks != nil {
		client = delivery.NewCallbackSender(delivery.CallbackConfig{Hosts: c.Defer.Callbacks, Secret: c.Defer.Secret})
	}
	p.deferral, err = delivery.New(delivery.Config{
		Open:     func() (deferred.Queue, error) { return c.Defer.Open(log) },
		Takeover: takeover, Policy: p.policies.Policy, Rate: c.Defer.Rate, SameClient: c.Defer.SameClient,
		DeadKeep: c.Defer.Limits.DeadKeep, Log: log,
		Path: c.Defer.Path, ProxyURLs: c.Defer.ProxyURLs(),
		ForwardingFields: session.ForwardingFields, Hosts: c.Defer.Callbacks, Post: client, Limits: c.Defer.Limits,
		Trusts: session.Trusts,
	})
	return err
}

// startDeferral starts the deliveries.
func (p *proxy) startDeferral() {
	if p.deferral != nil {
		p.deferral.Start(p.server.Deliver)
		p.deferral.Register(p.Metrics)
	}
}

// closeDeferral lets deliveries in flight finish for at most p.finish, and closes the
// queue.
func (p *proxy) closeDeferral() {
	if p.deferral == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.finish)
	defer cancel()
	_ = p.deferral.Close(ctx) // the queue logs its own errors
}
