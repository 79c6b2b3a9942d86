// Package gates shares the gates of the targets between the loops, and reports their
// state to endpoints, metrics and the log.
package gates

import (
	"log/slog"
	"time"

	"weir/proxy/gate"
	"weir/proxy/roster"
)

// Settings configure how targets are protected from more concurrent requests than they can serve.
type Settings struct {
	Mode     gate.Mode
	Wait     time.Duration // a wait for a place from this time on is long, see upstream.Line; 0: requests do not wait
	SLO      time.Duration // 95th percentile of answer times that clients expect; 0: unknown
	Min, Max int           // bounds of the limit for a target, 0: those of package gate
}

// A Config configures Gates.
type Config struct {
	Settings
	Bounds  gate.Config // of the limit for each target
	Targets *roster.List
	Of      func(*roster.Target) *Gate // the gate of a target; nil: it has none
	Classes *Classes
	Log     *slog.Logger // for targets that become slow; not nil with a gate
}

// Gates are the gates of all targets.
//
// Immutable.
type Gates struct{ cfg Config }

// New returns the gates configured by cfg.
func New(cfg Config) *Gates { return &Gates{cfg: cfg} }
