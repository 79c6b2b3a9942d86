package storetest

import "weir/proxy/store"

// ComputeAnswer computes the answer to the requests of a group from a backend's decision, as a lane
// does. It is for tests of a [store.Backend] without a lane.
func ComputeAnswer(g *store.Group, ans *store.Answer) {
	*ans = store.Answer{Granted: g.Granted}
	for i := range g.Counters {
		ans.At = max(ans.At, g.At[i])
		c, s := &g.Counters[i], g.Before[i].Clone()
		ans.Decisions = append(ans.Decisions, c.Decide(g.At[i], &s, int64(g.N), int64(g.Granted)))
	}
	ans.Tightest = store.Tightest(g.Counters, ans.Decisions)
}
