package main

import (
	"context"
	"net/netip"
	"time"

	"weir/internal/service"
	"weir/proxy/callback/post"
	"weir/proxy/config"
	"weir/proxy/deferred"
	"weir/proxy/delivery"
	"weir/proxy/wire"
)

// handOverWithin is how long deliveries under way may take when a successor waits for the
// queue.
const handOverWithin = 900 * time.Millisecond

// openDeferral opens the queue of requests that are delivered later, if there is one. The
// predecessor of a take-over may still have it.
func (cfg *configuration) openDeferral(e *service.Env, c *config.Config, takeover bool) (err error) {
	if !c.Defer.Used() || len(c.Targets) == 0 {
		return nil
	}
	log, session := e.Logger("Deferred"), c.Session()
	var client *post.Client
	if c.Defer.Callbacks != nil {
		client = post.New(post.Config{Hosts: c.Defer.Callbacks, Secret: c.Defer.Secret})
	}
	cfg.deferral, err = delivery.New(delivery.Config{
		Open:     func() (deferred.Queue, error) { return c.Defer.Open(log) },
		Takeover: takeover, Policy: cfg.policies.Policy, Rate: c.Defer.Rate, SameClient: c.Defer.SameClient, DeadKeep: c.Defer.DeadKeep, Log: log,
		Claims: session.Claims, Hosts: c.Defer.Callbacks, Post: client,
		Trusts: func(a netip.Addr) bool {
			for _, p := range session.TrustedProxies {
				if p.Contains(a) {
					return true
				}
			}
			return false
		},
	})
	return err
}

// accept is what has requests stored; nil: nothing.
func (cfg *configuration) accept() wire.Defer {
	if cfg.deferral == nil {
		return nil
	}
	return cfg.deferral.Accept
}

// startDeferral begins to deliver.
func (cfg *configuration) startDeferral(e *service.Env, front *wire.Front) {
	if cfg.deferral != nil {
		cfg.deferral.Start(front.Deliver)
		cfg.deferral.Register(e.Metrics)
	}
}

// closeDeferral lets deliveries under way finish for a time, and gives the queue up.
func (cfg *configuration) closeDeferral(finish time.Duration) {
	if cfg.deferral == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finish)
	defer cancel()
	_ = cfg.deferral.Close(ctx) // a queue that fails says so itself
	cfg.deferral = nil
}
