package main

import (
	"context"
	"time"

	"weir/internal/service"
	"weir/proxy/callback/post"
	"weir/proxy/config"
	"weir/proxy/deferred"
	"weir/proxy/delivery"
	"weir/proxy/wire"
)

// handOverWithin bounds how long deliveries in flight may take when a successor waits for
// the queue.
const handOverWithin = 900 * time.Millisecond

// openDeferral opens the queue of deferred requests, if one is configured. During a
// take-over the predecessor may still hold it.
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
		Path: c.Defer.Path, Sites: c.Defer.Sites(),
		Claims: session.Claims, Hosts: c.Defer.Callbacks, Post: client,
		Trusts: session.Trusts,
	})
	return err
}

// accept returns what stores refused requests, or nil if there is no queue.
func (cfg *configuration) accept() wire.Defer {
	if cfg.deferral == nil {
		return nil
	}
	return cfg.deferral.Accept
}

// startDeferral starts the deliveries.
func (cfg *configuration) startDeferral(e *service.Env, front *wire.Front) {
	if cfg.deferral != nil {
		cfg.deferral.Start(front.Deliver)
		cfg.deferral.Register(e.Metrics)
	}
}

// closeDeferral lets deliveries in flight finish for at most cfg.finish, and closes the
// queue.
func (cfg *configuration) closeDeferral() {
	if cfg.deferral == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.finish)
	defer cancel()
	_ = cfg.deferral.Close(ctx) // the queue logs its own errors
}
