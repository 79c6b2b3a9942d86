package tally

import (
	"maps"
	"slices"
	"time"

	"weir/proxy/rules/rule"
)

// A RefusalLogger logs refusals, and drops the counts of rules that are no longer in force.
//
// Owned by one goroutine.
type RefusalLogger struct {
	tally   *Tally
	logged  map[string]total // by rule, at the last call of Flush
	set     *rule.Set        // of inForce
	inForce map[string]bool
	since   map[string]time.Time // since when rules with counts have not been in force
}

// NewRefusalLogger returns a RefusalLogger that has logged nothing yet.
func (t *Tally) NewRefusalLogger() *RefusalLogger { return &RefusalLogger{tally: t} }

// Tick must be called once a second.
func (l *RefusalLogger) Tick(now time.Time) {
	l.Flush()
	l.drop(now)
}

// Flush logs what each rule has refused since the last call, what was refused because the store
// is unavailable, and once per rule that requests without a part of its key share a limit. It
// is also called at the end.
func (l *RefusalLogger) Flush() {
	log, logged := l.tally.log, l.logged
	l.logged = l.tally.totals()
	down := uint64(0)
	for _, id := range slices.Sorted(maps.Keys(l.logged)) {
		was, more := logged[id], l.logged[id]
		for k := range more {
			more[k] -= min(more[k], was[k]) // the rule may have been dropped, and counted anew
		}
		down += more[unavailable]
		if more[rejected] > 0 {
			log.Warn("Requests rejected: limit exceeded", "rule", id, "count", more[rejected])
		}
		if more[shared] > 0 && was[shared] == 0 {
			log.Warn("Requests without a part of the rule's key share one limit; missing: skip or refuse changes that",
				"rule", id)
		}
		if more[lacking] > 0 {
			log.Warn("Requests rejected: a part of the rule's key is missing", "rule", id, "count", more[lacking])
		}
	}
	if down > 0 {
		log.Warn("Requests rejected: the store is unavailable and STORE_FAILURE_MODE is closed", "count", down)
	}
}

// drop drops the counts of rules that have not been in force for countsKept.
func (l *RefusalLogger) drop(now time.Time) {
	if p := l.tally.policy(); l.inForce == nil || l.set != p.Rules {
		l.set, l.inForce = p.Rules, make(map[string]bool)
		for _, id := range slices.Concat(idsOf(p), alwaysCounted) {
			l.inForce[id] = true
		}
	}
	gone := make(map[string]time.Time)
	for id := range l.tally.totals() {
		since, known := l.since[id]
		switch {
		case l.inForce[id]:
		case !known:
			gone[id] = now
		case now.Sub(since) < countsKept:
			gone[id] = since
		default:
			l.tally.drop(id)
		}
	}
	l.since = gone
}

// drop drops the counts of a rule in all loops.
func (t *Tally) drop(id string) {
	for _, b := range t.loopTallies {
		b.mu.Lock()
		delete(b.byID, id)
		b.mu.Unlock()
	}
}
