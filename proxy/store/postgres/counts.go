package postgres

import (
	"maps"
	"slices"

	"weir/internal/program/metric"
)

// counts are the counts of a backend.
//
// Safe for concurrent use: atomic words; the map is immutable after newCounts.
type counts struct {
	commands  metric.Counter // calls and statements
	waits     metric.Counter // waits for locks
	errors    map[string]*metric.Counter
	exchanges *metric.Histogram
}

// otherErrors counts errors of all other classes, noAnswer those without a SQLSTATE.
const otherErrors, noAnswer = "other", "none"

func newCounts() *counts {
	c := &counts{errors: make(map[string]*metric.Counter), exchanges: metric.NewHistogram(metric.LatencyBuckets())}
	for _, class := range []string{"08", "22", "23", "25", "28", "3D", "40", "42", "53", "55", "57", "58", "XX",
		otherErrors, noAnswer} {
		c.errors[class] = new(metric.Counter)
	}
	return c
}

// failed counts an error by the class of its SQLSTATE, the first two characters.
func (c *counts) failed(err error) {
	class := noAnswer
	if code := codeOf(err); len(code) >= 2 {
		class = code[:2]
	}
	n := c.errors[class]
	if n == nil {
		n = c.errors[otherErrors]
	}
	n.Inc()
}

func (b *backend) Register(set *metric.Set) {
	c := b.counts
	set.Histogram("ratelimiter_postgres_request_duration_seconds", "how long PostgreSQL took to answer a batch",
		c.exchanges)
	for _, class := range slices.Sorted(maps.Keys(c.errors)) {
		set.Counter("ratelimiter_postgres_errors_total"+metric.Labels("class", class),
			"calls without a usable answer, by class of SQLSTATE", c.errors[class].Load)
	}
	set.Counter("ratelimiter_postgres_lock_waits_total", "locks of keys that another batch held", c.waits.Load)
	b.monitor.register(set)
	set.Counter("ratelimiter_store_commands_total", "commands sent to the store", c.commands.Load)
}
