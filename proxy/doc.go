// Proxy is a rate-limiting HTTP proxy. It forwards requests to the targets as far as
// their limits allow and answers the others with 429.
//
// # Goroutines
//
// No request has a goroutine. A proxy runs
//
//   - N event loops, which own sessions, pools, lines, deadlines and buffers, and one locked
//     thread that wakes them for precise alarms; a listener; a bounded helper per connect, and two
//     per TLS connection, which only pump plaintext;
//   - a few helpers per lane to a shared store, with one wake-up of the loop per batch, and a
//     prober while the store is unavailable; a sidecar's courier needs none;
//   - two workers for own endpoints and one for /deferred/, and those of net/http at ADMIN_PORT;
//     health is answered at once from a copy that is refreshed twice a second;
//   - one that writes the access log, from a lock-free ring buffer per loop that drops lines when
//     it is full;
//   - one that logs refusals and one that expires keys of the simulated Redis, once a second, and
//     one per document that writes what is not stored yet, twice a second;
//   - those that watch files and handle SIGHUP, and compile the rules that they have read;
//   - one each that checks targets, probes them and resolves their names, with at most 64 in
//     progress;
//   - one that claims stored requests and one that renews leases, one for each callback in
//     progress, at most 256, and one that looks for callbacks that a crash has prevented; the
//     deliveries themselves are on the loops;
//   - one that follows the advisor, and one per request to it; they end before a drain begins.
//
// A loop reads the clock once per turn. Settings, lists of targets and limit configurations are
// immutable and replaced as a whole. Counters are one set per loop, written with atomic adds and
// summed when scraped.
package main
