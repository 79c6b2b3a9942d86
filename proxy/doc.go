// Proxy is a rate-limiting HTTP proxy. It forwards the requests that the configured limits admit,
// and answers all others with 429.
//
// # Goroutines
//
// There is no goroutine per request. A proxy runs these goroutines:
//
//   - N event loops (internal/net/loop), which own the state of connections and requests: sessions,
//     pools, queues, deadlines, buffers. One locked thread wakes them for precise alarms, and two
//     goroutines for each listening socket accept connections. Each connect and each TLS handshake
//     in progress has a goroutine; their numbers are bounded. Each TLS connection has two
//     goroutines, which only copy its plaintext. The decision port (ask/port) has event loops of
//     its own.
//   - A few goroutines for each loop with a shared store (store/lane), which send batches to the
//     store. They wake the loop once per batch. The lanes of a sidecar need no goroutines: the loop
//     itself sends their batches. Three for a shared store: one tests whether it decides again
//     while it is unavailable, one polls documents, and one the count of edits. PostgreSQL
//     (store/postgres) has one for each of its connections, and three that remove expired rows and
//     observe the server.
//   - Two workers for own endpoints and one for /deferred/ (service.HandlerPool), and the
//     goroutines of net/http at ADMIN_PORT and at PROMETHEUS_ADDR. Health is answered immediately,
//     from a copy that is refreshed twice a second.
//   - Three for the decision port: one reads the documents that sidecars may ask for, one executes
//     edits of keys, and one, if configured, sends statistics to statsd.
//   - One that writes the access log (wire/accesslog). It reads a lock-free ring buffer of each
//     loop, which drops lines when it is full.
//   - One that logs refusals (rules/tally) and one that removes expired keys of the in-memory store
//     (store/simredis), both once a second. One that measures memory, if it is bounded. One for
//     each shared document writes the changes that are not stored yet, twice a second.
//   - Those that watch files (rules, certificates, RATELIMIT_CONFIG) and handle SIGHUP, which also
//     compile the rules that they have read. One that follows the limits of an xDS server
//     (ask/xds), with those of its HTTP/2 connection. One that waits for a successor
//     (program/handover).
//   - Three for the targets (targets/roster): one makes the active checks, one probes the targets,
//     and one resolves their names. Each has at most 64 more, one for each call in progress.
//   - Three for deferred requests (wire/delivery): one claims stored requests, one renews leases,
//     and one looks for callbacks that a crash has prevented. Each callback in progress has one, at
//     most 256. The deliveries themselves run on the loops. The queue has one or two that write to
//     it, or read its figures.
//   - One that follows the advisor (control/adaptive), and one for each request to it. They end
//     before a drain begins.
//
// A loop reads the clock once per turn. Settings, lists of targets and limit configurations are
// immutable and replaced as a whole. Counters are one set per loop, written with atomic adds and
// summed when scraped.
package main
