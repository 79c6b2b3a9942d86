package lane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"weir/proxy/keys"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// A group is the asks of one batch for the same counters.
//
// Owned by its lane; while the batch is under way the helper that sends it has the
// [store.Group], and the lane reads of that only what was asked.
type group struct {
	store.Group
	id     string                         // see appendID
	limits [store.CountersMax]limit.Limit // what counters point to
	keys   []byte                         // likewise

	// after the result
	when int64 // it was decided; see store.Answer
	left int
	now  [store.CountersMax]limit.State
}

// appendID appends what makes the group of some counters another than others: a limit, a
// cost or a condition that changes does. Of counters that are off it is only where they
// are. Names say how long they are, and numbers end by themselves.
func appendID(dst []byte, counters []store.Counter) []byte {
	if len(counters) == 0 || len(counters) > store.CountersMax {
		panic("bug: lane: an ask with " + strconv.Itoa(len(counters)) + " counters")
	}
	for i := range counters {
		c := &counters[i]
		l := c.Limit
		dst = append(dst, byte(l.Algorithm()))
		if l.Algorithm() == limit.Off {
			continue
		}
		dst = store.AppendKey(dst, c.Rule, c.Key)
		overshoot, grace := l.Overshoot()
		numbers := [...]int64{l.Permits(), l.Burst(), l.Number(), c.Cost, c.Reserve, 0, overshoot, int64(grace)}
		if l.Algorithm() == limit.Leaky {
			numbers[5] = int64(c.MaxDelay)
		}
		for _, n := range numbers {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
	}
	return dst
}

// fill makes g the group of that id. What was borrowed is copied.
func (g *group) fill(id []byte, counters []store.Counter) {
	*g = group{id: string(id), Group: store.Group{Counters: g.Counters[:0]}, keys: g.keys[:0]}
	g.Counters = append(g.Counters, counters...)
	for i := range counters {
		g.keys = append(g.keys, counters[i].Key...)
	}
	key := 0
	for i := range g.Counters {
		c := &g.Counters[i]
		end := key + len(c.Key)
		c.Key, key = g.keys[key:end:end], end
		g.limits[i] = *c.Limit
		c.Limit = &g.limits[i]
	}
}

// replay starts to repeat what was decided.
func (g *group) replay() {
	g.left, g.when = g.Granted, 0
	for i := range g.Counters {
		if at := g.At[i]; at > 0 && (g.when == 0 || at < g.when) {
			g.when = at
		}
		g.now[i] = g.Before[i].Clone()
	}
}

// answer answers the next n requests of the group, exactly as the backend
// would have answered them alone.
func (g *group) answer(n int, traced bool, ans *store.Answer) {
	granted := min(n, g.left)
	g.left -= granted
	*ans = store.Answer{Granted: granted, Decisions: ans.Decisions[:0], At: g.when}
	for i := range g.Counters {
		c := &g.Counters[i]
		if traced {
			ans.Traces = append(ans.Traces, store.Trace{At: g.At[i], Before: g.now[i].Clone()})
		}
		_, d := c.Limit.Decide(g.At[i], &g.now[i], c.Ask(int64(granted)))
		if granted < n {
			d = c.Limit.Preview(g.At[i], &g.now[i], c.Ask(1))
		}
		ans.Decisions = append(ans.Decisions, d)
	}
	ans.Tightest = store.Tightest(g.Counters, ans.Decisions)
}

// skip passes over n requests which were answered otherwise.
func (g *group) skip(n int) {
	granted := min(n, g.left)
	g.left -= granted
	for i := range g.Counters {
		c := &g.Counters[i]
		c.Limit.Decide(g.At[i], &g.now[i], c.Ask(int64(granted)))
	}
}

// A waiter is an ask that waits for its answer.
type waiter struct {
	group    *group
	n        int
	deadline time.Time
	done     store.Done
	traced   bool
	unsent   bool // answered before its batch was sent
}

// ask is what waits, for a table in memory.
func (w *waiter) ask() store.Ask {
	return store.Ask{Counters: w.group.Counters, N: w.n, Traced: w.traced}
}

// forget lets go of what the waiter refers to.
func (w *waiter) forget() { *w = waiter{} }

// about is what the log calls the group: rules and keys, as people may see them.
func (g *group) about() string {
	var text []byte
	for i := range g.Counters {
		c := &g.Counters[i]
		text = fmt.Appendf(text, "%s %q ", c.Rule, keys.AppendShown(nil, c.Key[:min(len(c.Key), store.PartBytesMax)]))
	}
	return string(bytes.TrimSpace(text))
}
