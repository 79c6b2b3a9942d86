package serve

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"weir/advisor/core"
	"weir/advisor/policy"
	"weir/internal/timing/every"
)

const (
	logPause        = time.Second // least time between two log lines about refused snapshots
	changesPerPause = 20          // most log lines about recommendations in a replay; further ones are counted
)

// A resultLog logs the results of snapshots, without a line for each.
//
// Safe for concurrent use: mu guards the counts.
type resultLog struct {
	log *slog.Logger

	mu      sync.Mutex
	refused [core.ResultCount]int
	latest  [core.ResultCount]string // fault of the newest; of core.Failed the stack
	changes int                      // log lines in this second
	silent  int                      // further changes
	sharers int                      // number of proxies that last shared the limit
}

// refuse counts a snapshot that was not learned from. why is its fault; for core.Failed the stack.
func (l *resultLog) refuse(r core.Result, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[r]++
	l.latest[r] = why
}

// changed logs a recommendation that differs from the previous one.
func (l *resultLog) changed(c *core.Change) {
	l.mu.Lock()
	l.changes++
	quiet := l.changes > changesPerPause
	if quiet {
		l.silent++
	}
	l.mu.Unlock()
	if !quiet {
		l.log.Info(fmt.Sprintf("Recommendation changed: %s, limit from %s to %s%s, reason: %s",
			"algorithm="+c.To.Algorithm, perSecond(c.From), perSecond(c.To), parameters(c.To), c.Reason),
			"at", c.At.UTC(), "confidence", math.Round(c.Confidence*100)/100)
	}
}

// stores logs when proxies have stores of their own, and the number of those that share
// the limit changes. 0 means that the proxy shares its store, or that its part is
// unknown.
func (l *resultLog) stores(sharers int) {
	if sharers == 0 {
		return
	}
	l.mu.Lock()
	before := l.sharers
	l.sharers = sharers
	l.mu.Unlock()
	if sharers != before && max(sharers, before) > 1 {
		l.log.Warn("Proxies do not share a store, the limit is divided between them", "proxies", sharers)
	}
}

// run logs once a second what was refused, until ctx ends.
func (l *resultLog) run(ctx context.Context) {
	every.Interval(ctx.Done(), logPause, func(time.Time) { l.say() })
	l.say()
}

// say logs what has happened since the last call.
func (l *resultLog) say() {
	l.mu.Lock()
	refused, latest, silent := l.refused, l.latest, l.silent
	l.refused, l.latest = [core.ResultCount]int{}, [core.ResultCount]string{}
	l.changes, l.silent = 0, 0
	l.mu.Unlock()
	for r := range core.Result(core.ResultCount) {
		n := refused[r]
		switch {
		case n == 0:
		case r == core.Failed:
			l.log.Error("Internal error of the advisor, limits stay unchanged", "count", n, "stack", latest[r])
		case r == core.Doubtful:
			l.log.Warn("Snapshots not learned from", "why", r, "count", n, "latest", latest[r])
		default:
			l.log.Warn("Snapshots refused", "why", r, "count", n, "latest", latest[r])
		}
	}
	if silent > 0 {
		l.log.Info("Further changes of recommendations", "count", silent)
	}
}

// perSecond returns the sustained rate of a limit.
func perSecond(l policy.Limit) string {
	if l.Rate() == 0 || l.Algorithm == policy.Off {
		return l.Algorithm
	}
	return fmt.Sprintf("%.4g/s", l.Rate())
}

// parameters returns the numbers of a limit that its algorithm uses.
func parameters(l policy.Limit) string {
	switch l.Algorithm {
	case policy.Token, policy.Leaky:
		return fmt.Sprintf(", capacity=%g, fillRate=%g", l.Capacity, l.FillRate)
	case policy.Off:
		return ""
	}
	return fmt.Sprintf(", limit=%g, window=%g", l.Limit, l.Window)
}
