// Package upstream keeps track of connections to targets: which are idle, how many are
// open or being dialled, which requests wait for one, the health of each target, and which
// target the next request goes to. It does not open or close connections itself: callers
// report events to it, and it returns what to do.
//
// Each loop has its own pools, so that a request never changes threads.
//
// # Waiting for a connection
//
// A request that finds no idle connection waits in the pool's line, and each request in line has a
// dial under way while there is room. When a dial fails, the first in line is notified at once and
// tries a target that it has not tried yet. When all connections are in use, a request waits for a
// bounded time; then nothing was sent. Streams and tunnels may take a share of the connections, of
// which one client leaves an eighth to others.
//
// # Waiting for a place
//
// A [Line] holds the requests of a loop that wait for a place at any target. Its comment says who
// is next, and how long a request may wait. Clients choose their keys, so a key that has not had a
// place recently ranks behind one with few places, and many keys give a client no more than one. Of
// more than a bounded number in a line, the one that would be served last is shed at once.
//
// Who is slow takes no place that others are likely to need (division). A client or a route is slow
// if it holds places for more than three times as long as is usual for the classes of its requests,
// or if nothing is known of it. It may have an equal part of the places, and beyond that all but
// what the others had on average and twice the root of that. Places held for long count too while
// requests have waited at a target lately; otherwise they cost the others nothing. What is usual
// grows slowly: when slow requests fill a target, all are slow. All loops see the places of all,
// in atomic words per client and loop.
//
// # Health
//
// A failed connect, or five bad answers in a row, takes a target out of use for a second, then for
// twice as long each time; after that, one request at a time tests whether it has recovered. With a
// gate a 503 counts only if the target refuses nearly everything: otherwise targets that refuse
// what they cannot take would leave all of it to the last one.
package upstream
