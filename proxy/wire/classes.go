package wire

import (
	"cmp"
	"slices"
	"sync"

	"weir/proxy/rule"
)

// classNames are the priority classes that metrics tell apart: the first ones that were
// ever in force. Their numbers stay the same, so that counters do.
//
// Safe for concurrent use: mu guards the names.
type classNames struct {
	mu    sync.Mutex
	names []string // by number, but for the last one's
}

const (
	// classDefault is the class of requests of which no rule tells the class, and
	// classOthers that of classes beyond classesMax.
	classDefault, defaultClass = 0, "default"
	classOthers, otherClasses  = classesMax - 1, "other"
	classesMax                 = 16
)

// number returns the number of a class. One without a name is the default.
func (c *classNames) number(name string) uint8 {
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

// list returns the names of all numbers; empty ones are not in use.
func (c *classNames) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]string, classesMax)
	copy(all, c.names)
	all[classDefault], all[classOthers] = defaultClass, otherClasses
	return all
}

// sideClasses are the numbers of the classes of a set of rules.
//
// Owned by its loop.
type sideClasses struct {
	names  *classNames
	set    *rule.Set
	byRank []uint8
}

// of returns the number of the class of a request to which these rules of a set apply.
func (c *sideClasses) of(set *rule.Set, rank int, hits []rule.Hit) uint8 {
	if !slices.ContainsFunc(hits, func(h rule.Hit) bool { return h.Rule.Priority.Classes != nil }) {
		return classDefault
	}
	if c.set != set {
		c.set, c.byRank = set, c.byRank[:0]
		for _, name := range set.Classes() {
			c.byRank = append(c.byRank, c.names.number(name))
		}
	}
	return c.byRank[rank]
}
