package wire

import (
	"weir/internal/program/metric"
	"weir/proxy/targets/gate"
	"weir/proxy/wire/report"
)

// Register adds the proxy's metrics to set.
func (f *Server) Register(set *metric.Set) {
	loops := report.MetricsSource{Deferring: f.cfg.Defer != nil, Gated: f.cfg.Gate.Mode != gate.Off}
	for _, s := range f.loops {
		loops.Loops = append(loops.Loops, s.counts)
	}
	loops.Register(set)
	f.Tally.Register(set)
	f.registerUpstream(set)
	f.registerHTTP2(set)
	f.cfg.Access.register(set)
	stats := f.group.Stats()
	set.Gauge("ratelimiter_client_connections", "open connections of clients",
		func() float64 { return float64(stats.Open.Load()) })
	set.Counter("ratelimiter_client_connections_refused_total", "connections closed at once: too many are open",
		stats.Refused.Load)
	set.Counter("ratelimiter_client_connections_refused_address_total",
		"connections closed at once: too many are open from one address", stats.RefusedAddress.Load)
	set.Counter("ratelimiter_client_connections_refused_share_total",
		"connections closed at once: few are left, and their client has its share", stats.RefusedShare.Load)
	set.Counter("ratelimiter_client_connections_replaced_total",
		"connections without any bytes received closed to make room for new ones: too many are open", stats.Replaced.Load)
	set.Counter("ratelimiter_client_handshake_errors_total", "connections closed because no TLS session came about",
		stats.HandshakeErrors.Load)
	set.Counter("ratelimiter_accept_errors_total", "failures to accept a connection", stats.AcceptErrors.Load)
	set.Counter("ratelimiter_client_stalls_total", "connections closed because the client did not read its answers",
		stats.Stalled.Load)
	set.Counter("ratelimiter_client_pauses_total", "times that reading from a client was paused", stats.Paused.Load)
	set.Counter("ratelimiter_memory_sheds_total",
		"times that the memory budget was exceeded and all requests were refused", f.memory.Sheds.Load)
	set.Counter("ratelimiter_memory_client_sheds_total",
		"requests and connections ended near the memory budget because their client held most", f.memory.ClientSheds.Load)
	set.Counter("ratelimiter_memory_client_refusals_total",
		"requests refused near the memory budget because their client held most", f.memory.ClientRefusals.Load)
	set.Counter("ratelimiter_own_refused_total",
		"requests to the proxy's own endpoints answered 503: too many wait for an answer, of all clients or of theirs",
		f.handlers.Refused)
	set.Counter("ratelimiter_panics_total", "connections closed because of a bug in the proxy", stats.Panics.Load)
}

// registerUpstream adds the gauges of connections to targets.
func (f *Server) registerUpstream(set *metric.Set) {
	gauge := func(name, help string, of func(t *target) int64) {
		set.Gauge(name, help, func() float64 {
			n := int64(0)
			for _, s := range f.loops {
				for _, t := range *s.seen.Load() {
					n += of(t)
				}
			}
			return float64(n)
		})
	}
	gauge("ratelimiter_upstream_in_flight", "requests at the targets", func(t *target) int64 { return t.Busy.Load() })
	const conns = "connections to targets"
	gauge(`ratelimiter_upstream_connections{state="idle"}`, conns, func(t *target) int64 { return t.Idle() })
	gauge(`ratelimiter_upstream_connections{state="busy"}`, conns, func(t *target) int64 { return t.Busy.Load() })
	gauge(`ratelimiter_upstream_connections{state="connecting"}`, conns,
		func(t *target) int64 { return t.Connecting.Load() })
	gauge("ratelimiter_upstream_streams",
		"connections to targets that carry tunnels and streams, or are private to a client that has "+
			"logged in over them", func(t *target) int64 { return t.Streams.Load() })
	gauge("ratelimiter_upstream_http2_connections", "connections to targets that use HTTP/2",
		func(t *target) int64 { return t.lending.Load() })
	gauge("ratelimiter_upstream_http2_streams", "requests in progress on them",
		func(t *target) int64 { return t.lent.Load() })
	gauge("ratelimiter_upstream_abandoned", "requests at the targets whose clients have disconnected",
		func(t *target) int64 { return t.left.all.Load() })
	f.Gates.Register(set)
	f.Targets.Register(set)
}
