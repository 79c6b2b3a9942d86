// Package roster keeps the list of targets: those that are declared, with one target for
// each address that their names resolve to. It probes and checks them, reports the state
// of each over all loops, and logs changes.
//
// A list replaces the previous one as a whole; a removed target finishes its exchanges. One
// goroutine makes the active checks, whose verdict applies to all loops, and one resolves names,
// each with at most 64 calls in progress. [List.Status] returns the state of a target, combined
// from what loops, connects and active checks have found, and its cause.
package roster

import (
	"context"
	"iter"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"weir/internal/program/metric"
	"weir/internal/timing/every"
	"weir/proxy/targets/upstream"
)

// A Config configures a List.
type Config struct {
	Loops Loops
	Log   *slog.Logger
	// metrics and health name targets by address instead of number, because access to them is restricted
	Named          bool
	CheckPath      string        // path of active checks; empty: none
	CheckInterval  time.Duration // between two checks
	LookupInterval time.Duration // between two lookups of the targets' names; 0: each connect looks names up
	Lookup         LookupFunc    // nil: the system's resolver
	Dial           DialFunc      // of probes, without TLS; nil: the system's
	Reachable      func(bool)    // called once a second with whether any target can be reached; may be nil
}

// Loops are the event loops. Each has its own view of every target.
type Loops interface {
	SetTargets(list []*Target) // returns when every loop has the list
	Refresh()                  // makes loops update their views
	Views(t *Target) iter.Seq[*LoopView]
	Connected(t *Target) // a probe could connect
	// Checked reports the verdict of active checks, and the earliest time at which it may
	// change.
	Checked(t *Target, v upstream.CheckResult, recheck time.Duration)
}

// A List has the targets in force.
//
// Safe for concurrent use: mu guards what changes.
type List struct {
	cfg Config

	mu       sync.Mutex         // guards the following, and serializes changes
	declared []*Target          // from the settings or POST /config/targets
	specs    []*Target          // where requests are sent
	entries  map[*Target]*entry // of specs; replaced, never changed
	names    *names
}

// An entry is what a List knows about a target.
type entry struct {
	number int
	check  upstream.HealthCheck // changed only by the checking goroutine
	cause  string               // why the last failed check failed
}

// New returns an empty list.
func New(cfg Config) *List {
	return &List{cfg: cfg, names: newNames(cfg.Lookup, cfg.LookupInterval)}
}

// Run probes, checks and resolves targets until ctx ends.
func (l *List) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { every.Interval(ctx.Done(), probePause, func(time.Time) { l.probe() }) })
	if l.cfg.CheckPath != "" {
		all.Go(func() { l.checking(ctx) })
	}
	if l.cfg.LookupInterval > 0 {
		all.Go(func() { l.looking(ctx) })
	}
	all.Wait()
}

// Set replaces the targets. Those that stay, with the same Secure, keep their connections
// and their health; those that are removed finish their requests in flight. It returns
// when every loop has the new list.
func (l *List) Set(list []*Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.declared = list
	l.names.follow(list)
	l.setSpecs()
}

// setSpecs puts the declared targets in force, with the current addresses of their names. The
// caller holds mu.
func (l *List) setSpecs() {
	before := make(map[identity]*Target, len(l.specs))
	for _, t := range l.specs {
		before[t.identity()] = t
	}
	next := l.names.expand(l.declared)
	for i, t := range next {
		if same := before[t.identity()]; same != nil {
			next[i] = same
		}
	}
	l.specs, l.entries = next, entriesOf(next, l.entries)
	l.cfg.Loops.SetTargets(next)
}

// entriesOf returns the entries of a list. Targets keep theirs; new ones get the smallest
// free numbers, from 1.
func entriesOf(list []*Target, before map[*Target]*entry) map[*Target]*entry {
	entries, taken := make(map[*Target]*entry, len(list)), make(map[int]bool, len(list))
	for _, t := range list {
		if e := before[t]; e != nil {
			entries[t], taken[e.number] = e, true
		}
	}
	free := 1
	for _, t := range list {
		if entries[t] != nil {
			continue
		}
		for taken[free] {
			free++
		}
		entries[t], taken[free] = &entry{number: free}, true
	}
	return entries
}

// Number returns the target's number, or 0 if it has left the list.
func (l *List) Number(spec *Target) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[spec]; e != nil {
		return e.number
	}
	return 0
}

// All returns the list in force, which is never modified.
func (l *List) All() []*Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.specs
}

// Labels returns the labels of a target, followed by more pairs.
func (l *List) Labels(spec *Target, more ...string) string {
	if !l.cfg.Named {
		return metric.Labels(append([]string{"target", strconv.Itoa(l.Number(spec))}, more...)...)
	}
	return metric.Labels(append([]string{"target", spec.URL, "address", spec.Addr}, more...)...)
}

// Register adds the metrics of lookups and of the targets' reachability to set.
func (l *List) Register(set *metric.Set) {
	l.names.register(set)
	set.Gauges("ratelimiter_upstream_up", "1 for a target that can be reached", func(add func(labels string, v float64)) {
		for _, spec := range l.All() {
			add(l.Labels(spec), metric.Bool(l.Reachable(spec)))
		}
	})
}
