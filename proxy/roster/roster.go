// Package roster keeps the list of targets: those that are declared, with an address for
// each that a lookup of their names finds. It probes and checks them, tells how each is
// over all loops, and logs when that changes.
package roster

import (
	"iter"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"weir/internal/metric"
	"weir/proxy/upstream"
)

// Config is what a List is made of.
type Config struct {
	Loops          Loops
	Log            *slog.Logger
	Named          bool          // metrics and health call targets by their addresses, not by numbers: not everybody reads them
	CheckPath      string        // of active checks; empty: none
	CheckInterval  time.Duration // between two of them
	LookupInterval time.Duration // between two lookups of the targets' names; 0: each connect looks up
	Lookup         LookupFunc    // nil: the system's
	Reachable      func(bool)    // told once a second whether any target can be reached; may be nil
}

// Loops are the event loops. Each has its own view of every target.
type Loops interface {
	SetTargets(list []*Target) // returns when every loop has the list
	Refresh()                  // brings the views up to date
	Views(t *Target) iter.Seq[*View]
	Connected(t *Target) // a probe did
	// Checked passes on what active checks say, and after what time they may say something else
	// at the earliest.
	Checked(t *Target, v upstream.Verdict, recheck time.Duration)
}

// A List is the targets in force.
//
// Safe for concurrent use: what changes is guarded by mu.
type List struct {
	cfg    Config
	checks checks

	mu       sync.Mutex      // guards what follows, and has changes to it one at a time
	declared []*Target       // as the settings or POST /config/targets have them
	specs    []*Target       // as requests are sent to
	numbers  map[*Target]int // of specs; replaced, never changed
	names    *names
}

// New returns an empty list.
func New(cfg Config) *List {
	return &List{cfg: cfg, checks: checks{path: cfg.CheckPath, interval: cfg.CheckInterval}, names: newNames(cfg.Lookup, cfg.LookupInterval)}
}

// Run probes, checks and looks up until stop is closed.
func (l *List) Run(stop <-chan struct{}) {
	var all sync.WaitGroup
	all.Go(func() { l.probing(stop) })
	if l.cfg.CheckPath != "" {
		all.Go(func() { l.checking(stop) })
	}
	if l.cfg.LookupInterval > 0 {
		all.Go(func() { l.looking(stop) })
	}
	all.Wait()
}

// Set replaces the targets. Those that stay, with the same Secure, keep their
// connections and their health; those that go finish what is under way on them. It returns when
// every loop has the new list.
func (l *List) Set(list []*Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.declared = list
	l.names.follow(list)
	l.setSpecs()
}

// setSpecs makes the targets those that are declared, with the addresses that
// their names have now. mu is held.
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
	l.specs, l.numbers = next, numbered(next, l.numbers)
	l.checks.follow(next)
	l.cfg.Loops.SetTargets(next)
}

// numbered gives each target of a list a number, from 1: those that had one keep
// it, and those that are new take the least that are free.
func numbered(list []*Target, before map[*Target]int) map[*Target]int {
	numbers, taken := make(map[*Target]int, len(list)), make(map[int]bool, len(list))
	for _, t := range list {
		if n := before[t]; n > 0 {
			numbers[t], taken[n] = n, true
		}
	}
	free := 1
	for _, t := range list {
		if numbers[t] > 0 {
			continue
		}
		for taken[free] {
			free++
		}
		numbers[t], taken[free] = free, true
	}
	return numbers
}

// Number is the target's, 0 when it has left the list.
func (l *List) Number(spec *Target) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.numbers[spec]
}

// All is the list in force; it is never changed.
func (l *List) All() []*Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.specs
}

// Labels are the labels of a target, followed by more pairs.
func (l *List) Labels(spec *Target, more ...string) string {
	if !l.cfg.Named {
		return metric.Labels(append([]string{"target", strconv.Itoa(l.Number(spec))}, more...)...)
	}
	return metric.Labels(append([]string{"target", spec.URL, "address", spec.Addr}, more...)...)
}

// Register adds the metrics of lookups to set, and whether targets can be reached.
func (l *List) Register(set *metric.Set) {
	l.names.register(set)
	set.Gauges("ratelimiter_upstream_up", "1 for a target that can be reached", func(yield func(string, float64) bool) {
		for _, spec := range l.All() {
			up := 0.0
			if l.Reachable(spec) {
				up = 1
			}
			if !yield(l.Labels(spec), up) {
				return
			}
		}
	})
}
