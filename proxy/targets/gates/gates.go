// Package gates shares the gates of the targets, which limit the requests in flight to each
// (package gate), between the loops, and reports their state to endpoints, metrics and the log.
//
// The state machine of a gate is protected by a lock, for which loops use TryLock. Answers that a
// loop could not report are reported later; the loop waits for the lock only when 16 are pending.
// The limit and the number of places taken are atomic words.
//
// [MetricClasses] number the priority classes of rules, so that metrics distinguish them.
package gates

import (
	"cmp"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/roster"
)

// Settings configure how targets are protected from more concurrent requests than they can serve.
type Settings struct {
	Mode     gate.Mode
	Wait     time.Duration // a wait for a place from this time on is long, see upstream.Queue; 0: requests do not wait
	WaitMax  time.Duration // bound on such a wait; 0: none
	SLO      time.Duration // 95th percentile of answer times that clients expect; 0: unknown
	Min, Max int           // bounds of the limit for a target, 0: those of package gate
}

// A Config configures Gates.
type Config struct {
	Settings
	Bounds  gate.Config // of the limit for each target
	Targets *roster.List
	Of      func(*roster.Target) *Gate // the gate of a target; nil: it has none
	Classes *MetricClasses
	Log     *slog.Logger // for targets that become slow; not nil with a gate
}

// Gates are the gates of all targets.
//
// Safe for concurrent use: cfg is immutable, and advised is an atomic word.
type Gates struct {
	cfg     Config
	advised atomic.Int64 // upper bound of the limits that the advisor has recommended; 0: none
}

// New returns the gates configured by cfg.
func New(cfg Config) *Gates {
	cfg.Bounds.Max = cmp.Or(cfg.Bounds.Max, math.MaxInt32)
	return &Gates{cfg: cfg}
}

// Bounds returns the bounds of the limit for each target.
func (g *Gates) Bounds() gate.Config {
	b := g.cfg.Bounds
	if most := int(g.advised.Load()); most > 0 {
		b.Max = max(min(most, b.Max), b.Min)
	}
	return b
}

// Advise sets the upper bound of the limits that the advisor recommends; 0: none. It stays
// within the settings.
func (g *Gates) Advise(most int) {
	if g.cfg.Mode == gate.Off {
		return
	}
	was := g.Bounds().Max
	g.advised.Store(int64(most))
	to := g.Bounds().Max
	if to != was {
		event := "The advisor bounds the limits of all targets"
		if most == 0 {
			event = "The advisor no longer bounds the limits of the targets"
		}
		g.cfg.Log.Info(event, "max", to, "was", was)
	}
	for _, spec := range g.cfg.Targets.All() {
		if of := g.cfg.Of(spec); of != nil {
			of.Bound(to)
		}
	}
}
