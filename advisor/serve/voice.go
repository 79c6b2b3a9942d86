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
	"weir/internal/every"
)

// voicePause is between two lines about snapshots that were refused.
const voicePause = time.Second

// changesPerPause bounds the lines about recommendations in a replay; what is
// beyond is counted.
const changesPerPause = 20

// A voice says in the log what becomes of snapshots, without a line for each.
//
// Safe for concurrent use: mu guards the counts.
type voice struct {
	log *slog.Logger

	mu      sync.Mutex
	refused map[core.Result]int
	latest  map[core.Result]string // what was wrong with the newest
	changes int                    // lines in this second
	silent  int                    // changes beyond
	stack   string
	sharers int // between how many proxies the limit was divided last
}

func newVoice(log *slog.Logger) *voice {
	return &voice{log: log, refused: make(map[core.Result]int), latest: make(map[core.Result]string)}
}

// refuse counts a snapshot that was not learned from, and is worth a word.
func (v *voice) refuse(r core.Result, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused[r]++
	v.latest[r] = why
}

// fail counts a failure of ours.
func (v *voice) fail(stack string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused[core.Failed]++
	v.stack = stack
}

// changed tells of a recommendation that differs from the one before.
func (v *voice) changed(c *core.Change) {
	v.mu.Lock()
	v.changes++
	quiet := v.changes > changesPerPause
	if quiet {
		v.silent++
	}
	v.mu.Unlock()
	if !quiet {
		v.log.Info(fmt.Sprintf("Recommendation changed: %s, limit from %s to %s%s, reason: %s",
			"algorithm="+c.To.Algorithm, perSecond(c.From), perSecond(c.To), parameters(c.To), c.Reason),
			"at", c.At.UTC(), "confidence", math.Round(c.Confidence*100)/100)
	}
}

// stores tells when the proxies have stores of their own, and the limit is divided
// between another number of them; 0: the proxy shares its store, or its part is not
// known.
func (v *voice) stores(sharers int) {
	if sharers == 0 {
		return
	}
	v.mu.Lock()
	before := v.sharers
	v.sharers = sharers
	v.mu.Unlock()
	if sharers != before && max(sharers, before) > 1 {
		v.log.Warn("Proxies share no store: the limit is divided between them", "proxies", sharers)
	}
}

// run says once a second what was refused, until ctx ends.
func (v *voice) run(ctx context.Context) {
	every.Pause(ctx.Done(), voicePause, func(time.Time) { v.say() })
	v.say()
}

// say says what has happened since it was called last.
func (v *voice) say() {
	v.mu.Lock()
	refused, latest, silent, stack := v.refused, v.latest, v.silent, v.stack
	v.refused, v.latest = make(map[core.Result]int), make(map[core.Result]string)
	v.changes, v.silent, v.stack = 0, 0, ""
	v.mu.Unlock()
	for r := range core.Result(core.ResultsN) {
		n := refused[r]
		switch {
		case n == 0:
		case r == core.Failed:
			v.log.Error("The advisor failed, limits stayed as they were", "count", n, "stack", stack)
		case r == core.Doubtful:
			v.log.Warn("Snapshots not learned from", "why", r, "count", n, "latest", latest[r])
		default:
			v.log.Warn("Snapshots refused", "why", r, "count", n, "latest", latest[r])
		}
	}
	if silent > 0 {
		v.log.Info("Recommendations changed more often than is told", "count", silent)
	}
}

// perSecond is the sustained rate of a limit.
func perSecond(l policy.Limit) string {
	if l.Rate() == 0 || l.Algorithm == policy.Off {
		return l.Algorithm
	}
	return fmt.Sprintf("%.4g/s", l.Rate())
}

// parameters are the numbers of a limit that its algorithm uses.
func parameters(l policy.Limit) string {
	switch l.Algorithm {
	case policy.Token, policy.Leaky:
		return fmt.Sprintf(", capacity=%g, fillRate=%g", l.Capacity, l.FillRate)
	case policy.Off:
		return ""
	}
	return fmt.Sprintf(", limit=%g, window=%g", l.Limit, l.Window)
}
