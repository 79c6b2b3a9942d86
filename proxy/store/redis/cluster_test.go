package redis

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis/redistest"
	"weir/proxy/store/simredis"
)

// A cluster is nodes that share the slots evenly; the first has a replica.
type cluster struct {
	masters []*redistest.Server
	replica *redistest.Server
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	masters, replica := redistest.StartCluster(t)
	return &cluster{masters, replica}
}

// client returns a client that knows two of the nodes.
func (c *cluster) client(t *testing.T, log *testkit.Log) *testStore {
	return newTestStore(t, Config{Config: lane.Config{Timeout: timeoutMax, Log: log.Logger()},
		Addrs: []string{c.masters[0].Addr(), c.masters[1].Addr()}, dialTimeout: timeoutMax})
}

// keyAt returns a key whose slot is on the master with that number.
func (c *cluster) keyAt(master int, r *rand.Rand) string {
	for {
		key := fmt.Sprint(r.IntN(1 << 30))
		if at := int(slotOf(string(appendName(nil, "", &store.Counter{Rule: "r", Key: []byte(key),
			Limit: fixed(1)})))); at >= master*slots/3+10 && at < (master+1)*slots/3-10 {
			return key
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cl, log := startCluster(t), new(testkit.Log)
	c := cl.client(t, log)
	l := newLoop(t, c)
	t.Run("groups over several slots", func(t *testing.T) { clusterGroups(t, l) })
	t.Run("never too many", func(t *testing.T) { clusterConcurrent(t, l) })
	t.Run("keys are edited", func(t *testing.T) { clusterEdits(t, cl, c, l) })
	t.Run("behind one address", func(t *testing.T) { clusterBehindOneAddress(t, cl) })
	t.Run("instead of a single server", func(t *testing.T) { clusterInsteadOfSingle(t, cl) })
	t.Run("with the documented rights", func(t *testing.T) { clusterRights(t, cl) })
	t.Run("a node loses its keys", func(t *testing.T) { clusterLoses(t, cl, l) })
	t.Run("a slot moves", func(t *testing.T) { clusterMoves(t, cl, l) })
	if !c.Connected() || log.String() != "" {
		t.Errorf("connected %v, logged:\n%s", c.Connected(), log.String())
	}
	t.Run("a node is killed", func(t *testing.T) { clusterFails(t, cl, c, l, log) })
}

// One ask after the other, groups of keys in several slots are decided as the
// simulated Redis does: what one slot charged is given back when another refuses, without debt.
func clusterGroups(t *testing.T, l *loop) {
	table, r := testkit.Must(simredis.New(simredis.Config{}))(t), rand.New(rand.NewPCG(7, 8))
	limits := []*limit.Limit{
		fixed(20),
		limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 15, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 0.0001}),
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 12, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 10_000, Burst: 9}),
		limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 11, FillRate: 0.0001}),
		limittest.Must(limit.Config{Algorithm: limit.Off}),
	}
	refused := 0
	for i := range 400 {
		ask := store.Ask{N: 1 + r.IntN(4)}
		for _, rule := range r.Perm(7)[:1+r.IntN(4)] {
			c := store.Counter{Rule: fmt.Sprint("rule-", rule), Key: fmt.Append(nil, i/20, r.IntN(3)), Limit: limits[rule],
				Cost: 1 + r.Int64N(2)}
			if r.IntN(6) == 0 {
				c.Debt = limits[rule].Debt(1)
			}
			ask.Counters = append(ask.Counters, c)
		}
		got := l.askAll(&ask)
		var want store.Answer
		table.Take(time.Now(), &ask, &want)
		if got.Granted != want.Granted || got.Mode == store.FailOpen {
			t.Fatalf("step %d: %+v\nwant %+v", i, got, want)
		}
		if got.Granted < ask.N {
			refused++
		}
		for k, d := range got.Decisions {
			if w := want.Decisions[k]; got.Mode == store.Exact && (d.Allowed != w.Allowed || d.Remaining != w.Remaining ||
				d.Limit != w.Limit) {
				t.Fatalf("step %d, counter %d: %+v\nwant %+v", i, k, d, w)
			}
		}
	}
	if refused < 50 {
		t.Errorf("only %d refused", refused)
	}
}

// Keys on every node are given more and forgotten, wherever edits are counted.
func clusterEdits(t *testing.T, cl *cluster, c *testStore, l *loop) {
	r := rand.New(rand.NewPCG(9, 10))
	for master := range cl.masters {
		one := counter(cl.keyAt(master, r), fixed(5))
		l.ask(6, one)
		if changed, err := c.Add("r", one.Key, 2); !changed || err != nil {
			t.Errorf("give on node %d: %v, %v", master, changed, err)
		}
		if ans := l.ask(6, one); ans.Granted != 2 {
			t.Errorf("2 given on node %d: %+v", master, ans)
		}
		if changed, err := c.Forget("r", one.Key); !changed || err != nil {
			t.Errorf("forget on node %d: %v, %v", master, changed, err)
		}
		if ans := l.ask(6, one); ans.Granted != 5 {
			t.Errorf("forgotten on node %d: %+v", master, ans)
		}
	}
}

// Groups that overlap, from many at once: in the end each counter has charged what
// was granted.
func clusterConcurrent(t *testing.T, l *loop) {
	const keys = 5
	var mu sync.Mutex
	granted := map[string]int{}
	of := func(i int) store.Counter { return counter(fmt.Sprint("both-", i%keys), fixed(60)) }
	var wg sync.WaitGroup
	for asker := range 8 {
		wg.Go(func() {
			for round := range 40 {
				a, b := of(asker+round), of(asker*3+2*round+1)
				b.Rule = "s"
				ans := l.ask(2, a, b)
				mu.Lock()
				granted["r"+string(a.Key)] += ans.Granted
				granted["s"+string(b.Key)] += ans.Granted
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range keys {
		for _, rule := range []string{"r", "s"} {
			look := of(i)
			look.Rule, look.Cost = rule, 0
			ans := l.ask(1, look)
			if left := 60 - ans.Decision().Remaining; left != int64(granted[rule+string(look.Key)]) {
				t.Errorf("rule %s, key %s: %d charged, %d granted", rule, look.Key, left, granted[rule+string(look.Key)])
			}
		}
	}
}

// While a slot moves to another node, with its keys, nothing is forgotten and
// nothing charged twice.
func clusterMoves(t *testing.T, cl *cluster, l *loop) {
	key := cl.keyAt(1, rand.New(rand.NewPCG(9, 10)))
	name := string(appendName(nil, "", &store.Counter{Rule: "r", Key: []byte(key), Limit: fixed(1)}))
	slot := strconv.Itoa(int(slotOf(name)))
	from, to := cl.masters[1], cl.masters[2]
	fromID, toID := from.Do("cluster", "myid"), to.Do("cluster", "myid")
	asked := int64(0)
	check := func(when string) {
		t.Helper()
		asked++
		ans := l.ask(1, counter(key, fixed(1000)))
		if len(ans.Decisions) != 1 || ans.Decision().Remaining != 1000-asked {
			t.Errorf("%s: %+v, want %d remaining", when, ans, 1000-asked)
		}
	}
	check("before")
	to.Do("cluster", "setslot", slot, "importing", fromID)
	from.Do("cluster", "setslot", slot, "migrating", toID)
	check("while it moves")
	from.Do("migrate", "127.0.0.1", to.Port, name, "0", "5000")
	check("when the key has moved")
	for _, m := range []*redistest.Server{to, from, cl.masters[0]} {
		m.Do("cluster", "setslot", slot, "node", toID)
		check("when some nodes know")
	}
}

// A node that is killed takes the store with it until its replica has taken over.
func clusterFails(t *testing.T, cl *cluster, c *testStore, l *loop, log *testkit.Log) {
	key := cl.keyAt(0, rand.New(rand.NewPCG(11, 12)))
	l.ask(1, counter(key, fixed(1000)))
	cl.masters[0].Kill()
	testkit.Eventually(t, "redis counts as away", func() bool {
		if ans := l.ask(1, counter(key, fixed(1000))); ans.Granted != 1 {
			t.Errorf("refused: %+v", ans)
		}
		return !c.Connected()
	})
	testkit.Eventually(t, "it decides again",
		func() bool { return l.ask(1, counter(key, fixed(1000))).Mode == store.Exact })
	testkit.Eventually(t, "the log says so", func() bool { return log.Count(backLine) == log.Count(lostLine) })
	if n := log.Count(lostLine); n != 1 {
		t.Errorf("lost %d times:\n%s", n, log.String())
	}
}

// A Sentinel that makes the replica master when the master is killed.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, master, replica)

	log := new(testkit.Log)
	c := newTestStore(t, Config{Config: lane.Config{Timeout: timeoutMax, Log: log.Logger()},
		Addrs: []string{sentinel.Addr()}, SentinelMaster: "weir", dialTimeout: timeoutMax})
	l := newLoop(t, c)
	for range 5 {
		l.ask(1, counter("k", fixed(1000)))
	}
	name := string(appendName(nil, "", &store.Counter{Rule: "r", Key: []byte("k"), Limit: fixed(1)}))
	testkit.Eventually(t, "the replica has what was charged",
		func() bool { return replica.Do("get", name) == master.Do("get", name) })
	master.Kill()
	testkit.Eventually(t, "redis counts as away", func() bool {
		if ans := l.ask(1, counter("x", fixed(1000))); ans.Granted != 1 {
			t.Errorf("refused: %+v", ans)
		}
		return !c.Connected()
	})
	var ans store.Answer
	testkit.Eventually(t, "the replica decides", func() bool {
		ans = l.ask(1, counter("k", fixed(1000)))
		return ans.Mode == store.Exact
	})
	if left := ans.Decision().Remaining; left != 994 {
		t.Errorf("%d left, want 994: what was replicated is known", left)
	}
	testkit.Eventually(t, "the log says so", func() bool { return log.Count(backLine) == log.Count(lostLine) })
	if n := log.Count(lostLine); n != 1 {
		t.Errorf("lost %d times:\n%s", n, log.String())
	}
}
