package gates

import (
	"cmp"
	"slices"
	"sync"

	"weir/proxy/rules/rule"
)

// MetricClasses are the priority classes that metrics distinguish: the first ones that were ever in
// force. A class keeps its number, so that counters stay valid.
//
// Safe for concurrent use: mu guards the names.
type MetricClasses struct {
	mu    sync.Mutex
	names []string // by number, without that of classOthers
}

const (
	// ClassDefault is the class of requests for which no rule states a class, and classOthers that
	// of classes beyond ClassesMax.
	ClassDefault, defaultClass = 0, "default"
	classOthers, otherClasses  = ClassesMax - 1, "other"
	// deferredClass is the class of stored requests.
	deferredClass = "deferred"
	ClassesMax    = 16
)

// number returns the number of a class; without a name it is ClassDefault.
func (c *MetricClasses) number(name string) uint8 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.names) == 0 {
		c.names = append(c.names, defaultClass)
	}
	i := slices.Index(c.names, cmp.Or(name, defaultClass))
	if i < 0 && len(c.names) < classOthers {
		i = len(c.names)
		c.names = append(c.names, name)
	}
	if i < 0 {
		return classOthers
	}
	return uint8(i)
}

// Deferred returns the number of the class of stored requests.
func (c *MetricClasses) Deferred() uint8 { return c.number(deferredClass) }

// Name returns the name of a class.
func (c *MetricClasses) Name(number uint8) string { return c.list()[number] }

// NewLoop returns the numbers for one loop.
func (c *MetricClasses) NewLoop() *LoopMetricClasses { return &LoopMetricClasses{names: c} }

// list returns the names of all numbers; empty ones are not in use.
func (c *MetricClasses) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]string, ClassesMax)
	copy(all, c.names)
	all[ClassDefault], all[classOthers] = defaultClass, otherClasses
	return all
}

// LoopMetricClasses are the numbers of the classes of a set of rules.
//
// Owned by its loop.
type LoopMetricClasses struct {
	names  *MetricClasses
	set    *rule.Set
	byRank []uint8
}

// ClassOf returns the number of the class of a request to which the given rules of a set apply.
func (c *LoopMetricClasses) ClassOf(set *rule.Set, rank int, matched []rule.MatchedRule) uint8 {
	if !slices.ContainsFunc(matched, func(h rule.MatchedRule) bool { return h.Rule.Priority.Classes != nil }) {
		return ClassDefault
	}
	if c.set != set {
		c.set, c.byRank = set, c.byRank[:0]
		for _, name := range set.Classes() {
			c.byRank = append(c.byRank, c.names.number(name))
		}
	}
	return c.byRank[rank]
}
