package redis

import (
	"bytes"
	"fmt"
	"time"

	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// A group is the asks of one batch for the same counters.
//
// Owned by its lane; while the batch is under way the helper that sends it writes
// the fields below result, and the lane reads only those above.
type group struct {
	id       string // see encoder
	n        int    // requests that wait
	counters []store.Counter
	limits   [store.CountersMax]limit.Limit // what counters point to
	keys     []byte                         // likewise
	names    []string                       // empty where the counter is off: Redis is not asked about it
	args     [store.CountersMax]counterText

	// result
	err     error
	granted int
	states  [store.CountersMax]limit.State // before
	at      [store.CountersMax]int64       // the instant of the decision, on the server's clock
	took    [store.CountersMax]int         // requests charged; in a Cluster more than granted may be
	parts   []part

	// after the result, the lane's again
	left int
	now  [store.CountersMax]limit.State
}

// A part is the counters of a group that are in one slot, by their index.
type part struct {
	slot     uint16
	count    int
	counters [store.CountersMax]uint8
}

// all returns the indexes.
func (p *part) all() []uint8 { return p.counters[:p.count] }

// fill makes g the group that e has just encoded. What was borrowed is copied.
func (g *group) fill(e *encoder, counters []store.Counter) {
	*g = group{id: string(e.text), counters: g.counters[:0], keys: g.keys[:0], names: g.names[:0], parts: g.parts[:0]}
	g.counters = append(g.counters, counters...)
	for i := range counters {
		g.keys = append(g.keys, counters[i].Key...)
	}
	rest, key := g.id[1:], 0
	for i := range g.counters {
		c := &g.counters[i]
		end := key + len(c.Key)
		c.Key, key = g.keys[key:end:end], end
		g.limits[i] = *c.Limit
		c.Limit = &g.limits[i]
		if c.Limit.Algorithm() == limit.Off {
			g.names = append(g.names, "")
			continue
		}
		name := e.ends[i] - (len(g.id) - len(rest))
		g.names = append(g.names, rest[:name])
		rest = g.args[i].cut(rest[name:])
	}
}

// split parts the counters by slot; outside of a Cluster all are in one part.
func (g *group) split(cluster bool) {
	g.parts = g.parts[:0]
	for i, name := range g.names {
		if name == "" {
			continue
		}
		var slot uint16
		if cluster {
			slot = slotOf(name)
		}
		p := 0
		for p < len(g.parts) && g.parts[p].slot != slot {
			p++
		}
		if p == len(g.parts) {
			g.parts = append(g.parts, part{slot: slot})
		}
		at := &g.parts[p]
		at.counters[at.count] = uint8(i)
		at.count++
	}
}

// replay starts to repeat what the script has decided.
func (g *group) replay() {
	g.left = g.granted
	for i := range g.counters {
		g.now[i] = g.states[i].Clone()
	}
}

// answer answers the next n requests of the group, exactly as the script would
// have answered them alone.
func (g *group) answer(n int, ans *store.Answer) {
	granted := min(n, g.left)
	g.left -= granted
	ans.Granted, ans.Decisions, ans.Mode = granted, ans.Decisions[:0], store.Exact
	for i := range g.counters {
		c := &g.counters[i]
		_, d := c.Limit.Decide(g.at[i], &g.now[i], c.Ask(int64(granted)))
		if granted < n {
			d = c.Limit.Preview(g.at[i], &g.now[i], c.Ask(1))
		}
		ans.Decisions = append(ans.Decisions, d)
	}
	ans.Tightest = store.Tightest(g.counters, ans.Decisions)
}

// skip passes over n requests which were answered otherwise.
func (g *group) skip(n int) {
	granted := min(n, g.left)
	g.left -= granted
	for i := range g.counters {
		c := &g.counters[i]
		c.Limit.Decide(g.at[i], &g.now[i], c.Ask(int64(granted)))
	}
}

// ask is the ask of n requests for the group, for a table in memory.
func (g *group) ask(n int) store.Ask { return store.Ask{Counters: g.counters, N: n} }

// A waiter is an ask that waits for its answer.
type waiter struct {
	group    *group
	n        int
	deadline time.Time
	done     Done
	unsent   bool // answered before its batch was sent
}

// forget lets go of what the waiter refers to.
func (w *waiter) forget() { *w = waiter{} }

// about is what the log calls the group: rules and keys, as people may see them.
func (g *group) about() string {
	var text []byte
	for i := range g.counters {
		c := &g.counters[i]
		text = fmt.Appendf(text, "%s %q ", c.Rule, rule.AppendShown(nil, c.Key[:min(len(c.Key), store.PartBytesMax)]))
	}
	return string(bytes.TrimSpace(text))
}

// first is the name of the first key of the group.
func (g *group) first() string {
	for _, name := range g.names {
		if name != "" {
			return name
		}
	}
	return ""
}
