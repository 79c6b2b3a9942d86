package main

import (
	"fmt"
	"math/rand/v2"
	"os"

	"weir/proxy/control/adaptive"
	"weir/proxy/wire"
)

// newAdaptive connects following the advisor to the server and the store.
func (p *proxy) newAdaptive(server *wire.Server) *adaptive.Follower {
	return adaptive.New(adaptive.Config{Settings: p.config.Adaptive, Instance: instance(), Limits: p.limits,
		Store: p.store, Shared: p.shared(), Log: p.Logger("Adaptive"),
		Traffic: server.Traffic, SetCandidate: server.Tally.SetCandidate, Candidate: server.Tally.Candidate,
		Bound: server.Gates.Advise})
}

// instance returns a name that no other proxy uses, nor this one after a restart, since
// the clock of its snapshots may start again.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "proxy"
	}
	return fmt.Sprintf("%s-%08x", host, rand.Uint32())
}
