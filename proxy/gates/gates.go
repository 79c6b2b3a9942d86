// Package gates shares the gates of the targets between the loops, and reports their
// state to endpoints, metrics and the log.
package gates

import (
	"log/slog"
	"time"

	"weir/proxy/gate"
	"weir/proxy/roster"
)

// Settings say how targets are protected from more requests at a time than they can
// take.
type Settings struct {
	Mode     gate.Mode
	Wait     time.Duration // for a place at a target that is long, see upstream.Line; 0: none
	SLO      time.Duration // 95th percentile of answer times that clients expect; 0: unknown
	Min, Max int           // bounds of the limit for a target, 0: those of package gate
}

// Config is what Gates are made of.
type Config struct {
	Settings
	Bounds  gate.Config // of the limit for a target
	Targets *roster.List
	Of      func(*roster.Target) *Gate // nil: there is none
	Classes *Classes
	Log     *slog.Logger // of targets that become slow; not nil with a gate
}

// Gates are those of all targets.
//
// Immutable.
type Gates struct{ cfg Config }

// New returns the gates.
func New(cfg Config) *Gates { return &Gates{cfg: cfg} }
