package wire

import (
	"log/slog"
	"time"

	"weir/internal/net/loop"
	"weir/internal/net/share"
	"weir/internal/timing/every"
)

// A connectionsWatch warns when connections are refused because one client has most of them. If
// that is a proxy, TRUSTED_PROXIES should list it.
//
// Owned by the goroutine of housekeeping.
type connectionsWatch struct {
	refused uint64 // at the last look
	log     every.LogThrottle
}

// look logs what was refused since the last call, at most once a minute.
func (w *connectionsWatch) look(now time.Time, g *loop.Group, log *slog.Logger) {
	refused := g.Stats().RefusedShare.Load()
	if refused == w.refused {
		return
	}
	if _, ok := w.log.Allow(now, time.Minute); ok {
		client, connections := g.Greediest()
		log.Warn("Connections were refused because their client has most of MAX_CONNECTIONS: if it is a proxy, "+
			"set TRUSTED_PROXIES",
			"refused", refused-w.refused, "most", client, "connections", connections)
		w.refused = refused
	}
}

// shareConnections sets the client that the exchange counts for among those that share the
// connections to targets.
func (c *client) shareConnections() {
	if addr := c.x.ClientAddr(); addr != c.sharesAs {
		c.sharesAs = addr
		by := share.ClientOf(addr)
		c.wait.SetClient(by, by.Hash(c.server.shared.seed))
	}
}

// A lackWarning warns that the proxy cannot connect to targets for lack of descriptors or ports.
//
// Safe for concurrent use, like its Sparse.
type lackWarning struct{ log every.LogThrottle }

// warn logs an error of a dial, at most once a minute.
func (w *lackWarning) warn(now time.Time, err error, log *slog.Logger) {
	if missed, ok := w.log.Allow(now, time.Minute); ok {
		log.Warn("No descriptor or port is left to connect to targets: raise RLIMIT_NOFILE, or lower MAX_CONNECTIONS and "+
			"TARGET_MAX_CONNECTIONS",
			"error", err, "notLogged", missed)
	}
}
