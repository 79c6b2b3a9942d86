package main

import (
	"time"

	"weir/internal/program/service"
	"weir/proxy/ask/port"
	"weir/proxy/config"
	"weir/proxy/control/adaptive"
	"weir/proxy/control/admin"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
	"weir/proxy/wire/delivery"
)

// A proxy is everything that run sets up.
type proxy struct {
	*service.Env
	config    *config.Config
	store     store.Store     // makes the decisions
	local     *simredis.Store // the same without a shared store
	perSecond store.Store     // decides about limits per second of Envoy's rate limit service; nil: store does
	limits    *admin.Limits
	rules     *admin.Rules
	policies  *admin.PolicyCache
	targets   *targets
	templates *admin.Templates
	socks     *sockets
	port      *port.Server         // nil without DECISION_PORT
	deferral  *delivery.Dispatcher // nil without DEFER_URL
	limitFrom func() string        // says where the limit of the settings comes from

	descriptors *port.Limits // those of Envoy's rate limit service; nil without DECISION_PORT

	finish   time.Duration      // how long deliveries may take to finish when the proxy ends
	server   *wire.Server       // nil until serve
	adaptive *adaptive.Follower // follows the advisor; nil until serve
}

// shared reports whether other proxies use the store as well. If not, its documents end with
// this process.
func (p *proxy) shared() bool { return p.store != p.local }
