package storetest

import "weir/proxy/store"

// Answered computes the answer to the requests of a group from a backend's decision, as a lane
// does. It is for tests of a [store.Backend] without a lane.
func Answered(g *store.Group, ans *store.Answer) {
	*ans = store.Answer{Granted: g.Granted}
	for i := range g.Counters {
		ans.At = max(ans.At, g.At[i])
		c, s := &g.Counters[i], g.Before[i].Clone()
		_, d := c.Limit.Decide(g.At[i], &s, c.Ask(int64(g.Granted)))
		if g.Granted < g.N {
			d = c.Limit.Preview(g.At[i], &s, c.Ask(1))
		}
		ans.Decisions = append(ans.Decisions, d)
	}
	ans.Tightest = store.Tightest(g.Counters, ans.Decisions)
}
