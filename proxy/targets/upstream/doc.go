// Package upstream keeps track of connections to targets: which are idle, how many are
// open or being dialled, which requests wait for one, the health of each target, and which
// target the next request goes to. It does not open or close connections itself: callers
// report events to it, and it returns what to do.
//
// Each loop has its own pools, so that a request never changes threads.
//
// # Waiting for a connection
//
// A request that finds no idle connection waits in the pool's line. As long as there is room for
// another connection, one dial is in progress for each request in the line. When a dial fails,
// the first request in the line is notified immediately and tries a target that it has not tried
// yet. When all connections are in use, a request waits for a bounded time; if none becomes free,
// nothing was sent. Streams and tunnels may take only a share of the connections. One client
// leaves an eighth of this share, and of all connections, to others.
//
// # Waiting for a place
//
// A [Line] holds the requests of a loop that wait for a place at any target. The next place goes
// to the highest priority, then to the client with the fewest places, then to the key with the
// fewest; [Line] describes the complete order, and how long a request may wait. Clients choose
// their keys. So a key that has not had a place recently ranks behind one with few places, and a
// client gets no more places by using many keys. The length of a Line is bounded. When it is full
// and a further request arrives, the one that would be served last is shed immediately.
//
// A slow client or route may not take a place that others are likely to need. It is slow if it
// holds places for more than three times as long as is usual for the classes of its requests, or
// if nothing is known about it. It may have as many places as
//
//	max(p ÷ n, p − o − 2√o)
//
// where n is the number of clients (or routes) that have places, and o is how many places the others
// had together, on average. p is about how many requests the targets can work on: the number of
// their places, or that when requests last waited at a target if it was smaller, less its square
// root, by which a gate's limit exceeds it. 2√o is reserved for the others because the number of
// places in use varies at random by about its square root.
//
// Places that are held for much longer than usual count only if requests have waited at a target
// recently; otherwise they cost the others nothing. The usual time rises only slowly, because all
// requests are slow while slow ones fill a target. Every loop reads the places of the other loops,
// from atomic words for each client and loop.
//
// # Health
//
// A failed connect, or five bad answers in a row, takes a target out of use for one second, and
// for twice as long each further time. After that, one request at a time tests whether it has
// recovered. With a gate a 503 counts only if the target refuses nearly everything. Otherwise
// targets that refuse excess load would be taken out of use one after another, and the last one
// would get all of it.
package upstream
