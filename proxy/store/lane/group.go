package lane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A group has the asks of one batch for the same counters.
//
// Owned by its lane. While the batch is in flight, the helper that sends it owns the
// [store.Group], of which the lane then reads only the question.
type group struct {
	store.Group
	id     string                         // see appendID
	limits [store.CountersMax]limit.Limit // that counters point to
	keys   []byte                         // likewise

	// Set by replay:
	when int64 // see store.Answer.At
	left int
	now  [store.CountersMax]limit.State
}

// appendID appends the identity of a group: the names of its counters with their limits, costs
// and conditions. Counters that are off count only by their position. Names have a length,
// and numbers are self-delimiting.
func appendID(dst []byte, counters []store.Counter) []byte {
	if len(counters) == 0 || len(counters) > store.CountersMax {
		panic("bug: lane: an ask with " + strconv.Itoa(len(counters)) + " counters")
	}
	for i := range counters {
		c := &counters[i]
		dst = append(dst, byte(c.Limit.Algorithm()))
		if c.Limit.Algorithm() == limit.Off {
			continue
		}
		dst = store.AppendKey(dst, c.Rule, c.Key)
		for _, n := range c.Params() {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
	}
	return dst
}

// fill makes g the group with that id. It copies what is borrowed.
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

// replay starts to repeat the decisions.
func (g *group) replay() {
	g.left, g.when = g.Granted, 0
	for i := range g.Counters {
		if at := g.At[i]; at > 0 && !g.Alone && (g.when == 0 || at < g.when) {
			g.when = at
		}
		g.now[i] = g.Before[i].Clone()
	}
}

// answer answers the next n requests of the group, exactly as the backend would have answered
// them alone.
func (g *group) answer(n int, traced bool, ans *store.Answer) {
	granted := min(n, g.left)
	g.left -= granted
	*ans = store.Answer{Granted: granted, Decisions: ans.Decisions[:0], At: g.when}
	for i := range g.Counters {
		c := &g.Counters[i]
		if traced {
			ans.Prior = append(ans.Prior, store.PriorState{At: g.At[i], Before: g.now[i].Clone()})
		}
		ans.Decisions = append(ans.Decisions, c.Decide(g.At[i], &g.now[i], int64(n), int64(granted)))
	}
	ans.Tightest = store.Tightest(g.Counters, ans.Decisions)
}

// skip skips n requests that were answered by the failure mode.
func (g *group) skip(n int) {
	granted := min(n, g.left)
	g.left -= granted
	for i := range g.Counters {
		g.Counters[i].Decide(g.At[i], &g.now[i], int64(n), int64(granted))
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

// about describes a group for the log: its rules, and its keys in readable form.
func (s *Store) about(g *group) string {
	var text []byte
	for i := range g.Counters {
		c := &g.Counters[i]
		text = fmt.Appendf(text, "%s ", c.Rule)
		if s.cfg.ShowKey != nil {
			text = fmt.Appendf(text, "%q ", s.cfg.ShowKey(nil, c.Key[:min(len(c.Key), store.PartBytesMax)]))
		}
	}
	return string(bytes.TrimSpace(text))
}
