package admin

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// Proxies of one Redis have the same limit, and the same rules. What is changed while
// Redis cannot be used is stored when it can be again, also if nothing else has changed
// there in the meantime.
func TestChangesWhileAway(t *testing.T) {
	const pause = 10 * time.Millisecond
	server := redistest.Start(t)
	c, other := connect(t, server), connect(t, server)
	limits, follower, rules := startOver(t, c), startOver(t, other), mustStartRules(t, t.TempDir(), RuleFiles{}, c)
	limits.Share(t.Context(), c, pause)
	follower.Share(t.Context(), other, pause)
	rules.Share(t.Context(), c, pause)
	var told atomic.Int64 // the version of the rules that the watcher has seen
	c.Watch(RulesName, func(doc store.Document) { told.Store(doc.Version) })
	change := func(n int) {
		t.Helper()
		if w := limits.do("POST", "/config/limits", fmt.Sprintf(`{"algorithm":"fixed","limit":%d,"window":1}`,
			n)); w.Code != 200 {
			t.Fatalf("POST: %d %s", w.Code, w.Body)
		}
		if w := rules.do("PUT", "/config/rules", oneRule("a", n)); w.Code != 200 {
			t.Fatalf("PUT: %d %s", w.Code, w.Body)
		}
	}
	everywhere := func(n int64) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d is in force everywhere, and stored", n), func() bool {
			a, b, r := limits.Active(), follower.Active(), rules.Active()
			return a.Stored && b.Stored && r.Stored && a.Config.Limit == n && b.Config.Limit == n &&
				r.Set.Rule(0).Limit.Limit == n
		})
	}
	change(7)
	everywhere(7)
	testkit.Eventually(t, "the watcher has seen it", func() bool { return told.Load() == 1 })
	server.Do("ACL", "SETUSER", "default", "-eval", "-evalsha", "-getrange")
	testkit.Eventually(t, "the clients notice",
		func() bool { return c.Mode() != store.Exact && other.Mode() != store.Exact })
	change(8)
	if a, r := limits.Active(), rules.Active(); a.Stored || r.Stored || a.Config.Limit != 8 {
		t.Errorf("while Redis is away: %+v, rules %s", a, tellRules(r))
	}
	server.Do("ACL", "SETUSER", "default", "+@all")
	everywhere(8)
}
