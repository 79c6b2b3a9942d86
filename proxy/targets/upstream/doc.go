// Package upstream chooses a target for each request and a connection to it. It keeps the pools of
// connections, the queues of waiting requests, and the health of the targets. It opens and closes
// nothing: callers report events and are told what to do. Each loop has its own pools, so that a
// request stays on one thread.
//
// # Two queues
//
// A request may wait twice:
//
//   - in a [Queue], for a place, which is a permit of the gate of any target (package gate);
//   - in a [Pool], for a connection to the chosen target.
//
// A Queue serves the highest priority first ([BackgroundPriority] last: no client waits for it), then the
// client with the fewest places, then the key with the fewest; [Queue] describes the complete order, and
// how long a request may wait. Clients choose their keys, so a key that has not had a place recently ranks
// behind one with few places, and many keys give a client no more places. A Queue is bounded. When it is
// full, the request that would be served last is shed, whether it is the new one or one that waits.
//
// A Pool dials once for each waiting request, as long as there is room for another connection. When a
// dial fails, the first waiting request tries a target that it has not tried yet. When all connections
// are in use, the wait is bounded, and a request whose wait ends has not been sent. Streams and tunnels
// may use only a share of the connections, and one client at most seven eighths of this share and of
// all.
//
// # A cap for slow clients and routes
//
// A client (or route) is slow if it holds places for more than three times as long as is usual for the
// classes of its requests, or if nothing is known about it. It may hold at most
//
//	max(p ÷ n, p − o − 2√o)
//
//	n   clients (or routes) that hold places
//	o   mean number of places held by all others together
//	p   requests that the targets can serve at once: L − √L, because the limit of a gate is the
//	    number being served plus its square root
//	L   the number of places now, or when requests last waited at a target if that is smaller
//
// The first term is an equal share. The second is what the others leave: the number of places in use
// varies at random by about its square root, so 2√o is reserved for them.
//
// Places that are held for long count only if requests have waited at a target recently; otherwise they
// cost the others nothing. The usual time rises only slowly, because all requests are slow while slow
// ones fill a target. The counts include all loops, by one atomic word for each client and loop.
//
// # Health
//
// A failed connect, or five bad answers in a row, takes a target out of use for one second, and for twice
// as long each further time. After that, one request at a time tests whether it has recovered. Outcomes of
// requests and connects that began in an earlier [HealthEpoch], before the last such change, are ignored.
// If the target has a gate, a 503 counts only if the target refuses nearly everything. Otherwise targets
// that refuse excess load would be taken out of use one after another, and the last one would get all of
// it.
package upstream
