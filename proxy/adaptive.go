package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"weir/internal/service"
	"weir/proxy/adaptive"
	"weir/proxy/config"
	"weir/proxy/wire"
)

// newAdaptive joins what follows the advisor to the front and the store, unless nobody
// shares that.
func newAdaptive(e *service.Env, c *config.Config, cfg *configuration, front *wire.Front) *adaptive.Adaptive {
	a := adaptive.Config{Settings: c.Adaptive, Instance: instance(), Limits: cfg.limits, Log: e.Logger("Adaptive"),
		Traffic: front.Traffic, SetCandidate: front.Tally.SetCandidate, Candidate: front.Tally.Candidate}
	if cfg.memory() == nil {
		a.Shared = cfg.store
	}
	return adaptive.New(a)
}

// instance is a name that no other proxy has, nor this one after a restart: its
// snapshots' clock may begin anew.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "proxy"
	}
	return fmt.Sprintf("%s-%08x", host, rand.Uint32())
}

// follow has the limit follow the advisor until ctx ends or stop is called, which
// returns when it does so no longer.
func follow(ctx context.Context, a *adaptive.Adaptive) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
