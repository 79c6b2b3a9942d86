package redis

import (
	"math/rand/v2"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis/redistest"
)

// clusterBehindOneAddress: a Cluster behind one address is found to be one, and counts
// exactly wherever its keys are.
func clusterBehindOneAddress(t *testing.T, cl *cluster) {
	front, log := newWire(t, cl.masters[1].Addr()), new(testkit.Log)
	for _, topology := range []Topology{Auto, Cluster} {
		c := newTestStore(t, Config{Config: lane.Config{Timeout: timeoutMax, Log: log.Logger()},
			Addrs: []string{front.Addr()}, Topology: topology, dialTimeout: timeoutMax})
		l, r := newLoop(t, c), rand.New(rand.NewPCG(13, uint64(topology)))
		granted := 0
		for master := range cl.masters {
			one := counter(cl.keyAt(master, r), fixed(40))
			for range 4 {
				ans := l.ask(30, one)
				granted += ans.Granted
			}
		}
		if granted != 3*40 || !c.Connected() || log.String() != "" {
			t.Errorf("%v: %d of 360 admitted, want 120, logged:\n%s", topology, granted, log.String())
		}
		if _, written, err := c.CompareAndSet(docName+topology.String(), 0, []byte("1")); !written || err != nil {
			t.Errorf("%v: document: %v, %v", topology, written, err)
		}
	}
}

// clusterInsteadOfSingle replaces a single server by a Cluster. A client that detects the topology
// continues with the Cluster; the error of one that is configured for a single server names the reason.
func clusterInsteadOfSingle(t *testing.T, cl *cluster) {
	for _, topology := range []Topology{Auto, Single} {
		front, log := newWire(t, redistest.Start(t).Addr()), new(testkit.Log)
		c := newTestStore(t, Config{Config: lane.Config{Timeout: timeoutMax, Log: log.Logger()},
			Addrs: []string{front.Addr()}, Topology: topology, dialTimeout: timeoutMax})
		l, r := newLoop(t, c), rand.New(rand.NewPCG(15, uint64(topology)))
		here, elsewhere := counter(cl.keyAt(0, r), fixed(40)), counter(cl.keyAt(1, r), fixed(40))
		if ans := l.ask(1, elsewhere); ans.Mode != store.Exact {
			t.Errorf("%v, by the single server: %+v", topology, ans)
		}
		front.Redirect(cl.masters[0].Addr)
		front.Cut()
		exact := func(c store.Counter) bool { return l.ask(1, c).Mode == store.Exact }
		if topology == Auto {
			testkit.Eventually(t, "it decides about all keys", func() bool { return exact(here) && exact(elsewhere) })
			continue
		}
		testkit.Eventually(t, "it notices and says so", func() bool {
			return !exact(elsewhere) && log.Count("it is a node of a Cluster, but was used as a single server") > 0
		})
	}
}

// A client that cannot use the topology that is configured or found returns an error, and does not connect
// to anything else.
func TestWrongTopology(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	node := redistest.StartNode(t)
	sentinel := redistest.StartSentinel(t, s)
	for _, test := range []struct {
		addr   string
		change func(*Config)
		reason string
	}{
		{s.Addr(), func(cfg *Config) { cfg.Topology = Cluster }, "does not answer like a node of a Cluster"},
		{s.Addr(), func(cfg *Config) { cfg.SentinelMaster = "weir" }, "unknown command"},
		{node.Addr(), func(cfg *Config) { cfg.DB = 3 }, "is a node of a Cluster, which has only database 0, not 3"},
		{sentinel.Addr(), func(cfg *Config) {}, "is a Sentinel, and REDIS_SENTINEL_MASTER is not set"},
		{sentinel.Addr(), func(cfg *Config) { cfg.SentinelMaster = "other" }, "master"},
	} {
		log := new(testkit.Log)
		cfg := Config{Config: lane.Config{Timeout: timeoutMax, Log: log.Logger()}, Addrs: []string{test.addr},
			dialTimeout: timeoutMax}
		test.change(&cfg)
		if c := newTestStore(t, cfg); c.Connected() || log.Count("Redis connection lost, entering fail-open mode") != 1 ||
			log.Count(test.reason) != 1 {
			t.Errorf("want %q: connected %v, logged %s", test.reason, c.Connected(), log.String())
		}
	}
}

// Servers that know no HELLO are asked whether they know a Cluster.
func TestOldServers(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t, "--rename-command", "HELLO", "")
	node := redistest.StartNode(t, "--rename-command", "HELLO", "")
	for s, want := range map[*redistest.Server]Topology{single: Single, node: Cluster} {
		if got, err := config(s).ask(); got != want || err != nil {
			t.Errorf("found %v, %v, want %v", got, err, want)
		}
	}
}
