// Proxy is a rate-limiting HTTP proxy. It forwards requests to the targets as far as
// their limits allow and answers the others with 429.
//
// # Goroutines
//
// No request has a goroutine. A proxy runs these goroutines:
//
//   - N event loops (internal/net/loop), which own sessions, pools, lines, deadlines and buffers.
//     One locked thread wakes them for precise alarms, and one goroutine accepts connections. Each
//     connect in progress has a goroutine; their number is bounded. Each TLS connection has two
//     goroutines, which only copy its plaintext.
//   - A few goroutines for each lane to a shared store (store/lane), which send the batches of the
//     lane. They wake the loop once per batch. One more goroutine tests whether the store decides
//     again while it is unavailable. The lanes of a sidecar need no goroutines: the loop itself
//     sends their batches.
//   - Two workers for own endpoints and one for /deferred/ (service.HandlerPool), and the goroutines
//     of net/http at ADMIN_PORT. Health is answered immediately, from a copy that is refreshed twice
//     a second.
//   - One that writes the access log (wire/accesslog). It reads a lock-free ring buffer of each
//     loop, which drops lines when it is full.
//   - One that logs refusals (rules/tally) and one that removes expired keys of the in-memory store
//     (store/simredis), both once a second. One for each shared document writes the changes that
//     are not stored yet, twice a second.
//   - Those that watch files and handle SIGHUP, which also compile the rules that they have read.
//   - Three for the targets (targets/roster): one makes the active checks, one probes the targets,
//     and one resolves their names. Each has at most 64 more, one for each call in progress.
//   - Three for deferred requests (wire/delivery): one claims stored requests, one renews leases, and
//     one looks for callbacks that a crash has prevented. Each callback in progress has one, at most
//     256. The deliveries themselves run on the loops.
//   - One that sends statistics to statsd, and one that follows the limits of an xDS server (ask/xds),
//     with those of its HTTP/2 connection.
//   - One that follows the advisor (control/adaptive), and one for each request to it. They end
//     before a drain begins.
//
// A loop reads the clock once per turn. Settings, lists of targets and limit configurations are
// immutable and replaced as a whole. Counters are one set per loop, written with atomic adds and
// summed when scraped.
package main
