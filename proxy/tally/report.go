package tally

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"weir/proxy/decide"
	"weir/proxy/rule"
)

// A Housekeeper logs refusals, and drops the counts of rules that are no longer in force.
//
// Owned by one goroutine.
type Housekeeper struct {
	tally    *Tally
	refusals refusalReport
	missing  missingReport
	gone     departures
}

// NewHousekeeper returns a Housekeeper that has logged nothing yet.
func (t *Tally) NewHousekeeper() *Housekeeper {
	return &Housekeeper{tally: t, refusals: make(refusalReport)}
}

// Keep must be called once a second.
func (h *Housekeeper) Keep(now time.Time) {
	h.Last()
	h.missing.report(h.tally.log, h.tally.totals())
	h.gone.drop(now, h.tally, h.tally.policy())
}

// Last logs the refusals since Keep. It is called at the end.
func (h *Housekeeper) Last() { h.refusals.report(h.tally.log, h.tally.totals()) }

// A refusalReport has the counts that have been logged, by rule.
type refusalReport map[string]total

// report logs how many requests each rule has refused since the last call, and how many were
// refused because the store is unavailable.
func (r refusalReport) report(log *slog.Logger, totals map[string]total) {
	maps.DeleteFunc(r, func(id string, _ total) bool { _, counted := totals[id]; return !counted })
	unavailable := uint64(0)
	for _, id := range slices.Sorted(maps.Keys(totals)) {
		t, was := totals[id], r[id]
		r[id] = t
		unavailable += t.unavailable - was.unavailable
		if n := t.rejected - was.rejected; n > 0 {
			log.Warn("Requests rejected: limit exceeded", "rule", id, "count", n)
		}
	}
	if unavailable > 0 {
		log.Warn("Requests rejected: the store is unavailable and STORE_FAILURE_MODE is closed", "count", unavailable)
	}
}

// A missingReport has what was logged about requests without a part of a rule's key.
//
// Owned by its Housekeeper.
type missingReport struct {
	shared  map[string]bool   // by rule
	refused map[string]uint64 // by rule, how many
}

// report logs, once per rule, that such requests share a limit, and how many each rule has
// refused since the last call.
func (m *missingReport) report(log *slog.Logger, totals map[string]total) {
	last := *m
	*m = missingReport{make(map[string]bool), make(map[string]uint64)}
	for _, id := range slices.Sorted(maps.Keys(totals)) {
		t := totals[id]
		m.shared[id], m.refused[id] = t.shared > 0, t.lacking
		if t.shared > 0 && !last.shared[id] {
			log.Warn("Requests without a part of the rule's key share one limit; missing: skip or refuse changes that", "rule", id)
		}
		if t.lacking > last.refused[id] {
			log.Warn("Requests rejected: a part of the rule's key is missing", "rule", id, "count", t.lacking-last.refused[id])
		}
	}
}

// departures are the rules that have counts and are no longer in force.
//
// Owned by its Housekeeper.
type departures struct {
	set     *rule.Set // of inForce
	inForce map[string]bool
	since   map[string]time.Time
}

// drop drops the counts of rules that have not been in p, the policy in force, for countsKept.
func (d *departures) drop(now time.Time, t *Tally, p *decide.Policy) {
	if d.inForce == nil || d.set != p.Rules {
		d.set, d.inForce = p.Rules, make(map[string]bool)
		for _, id := range slices.Concat(idsOf(p), alwaysCounted) {
			d.inForce[id] = true
		}
	}
	gone := make(map[string]time.Time)
	for id := range t.totals() {
		since, known := d.since[id]
		switch {
		case d.inForce[id]:
		case !known:
			gone[id] = now
		case now.Sub(since) < countsKept:
			gone[id] = since
		default:
			t.drop(id)
		}
	}
	d.since = gone
}

// drop drops the counts of a rule in all loops.
func (t *Tally) drop(id string) {
	for _, b := range t.shards {
		b.mu.Lock()
		delete(b.byID, id)
		b.mu.Unlock()
	}
}
