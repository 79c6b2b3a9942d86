package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/test/relay"
	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// refusedFromMemory exhausts a key and waits until its refusal is remembered.
func refusedFromMemory(t *testing.T, l *loop, key string) {
	t.Helper()
	testkit.Eventually(t, "a refusal is remembered",
		func() bool { return l.ask(10, counter(key, fixed(5))).Mode == store.Cached })
}

// admittedAgain waits until a client that asks about nothing else is admitted.
func admittedAgain(t *testing.T, l *loop, key, after string) {
	t.Helper()
	testkit.Eventually(t, "after "+after+" a refused client is admitted", func() bool {
		ans := l.ask(1, counter(key, fixed(5)))
		return ans.Mode == store.Exact && ans.Granted == 1
	})
}

// Remembered refusals end when Redis has lost its keys, also without an outage.
func TestLostKeys(t *testing.T) {
	t.Parallel()
	s, _, l := newWorld(t)
	for _, command := range []string{"flushall", "flushdb"} {
		refusedFromMemory(t, l, "k")
		s.Do(command)
		admittedAgain(t, l, "k", command)
	}
	refusedFromMemory(t, l, "k")
	s.Kill()
	s.Start()
	admittedAgain(t, l, "k", "a restart without its data")
}

// A replica that takes over lacks what was charged last. The way to it is the old address.
func TestLostByReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	way := testkit.Must(relay.New(master.Addr))(t)
	t.Cleanup(way.Close)
	cfg := config(master)
	cfg.Addrs = []string{way.Addr()}
	l := newLoop(t, newTestStore(t, cfg))
	l.ask(1, counter("other", fixed(5)))
	replica := redistest.StartReplica(t, master)
	replica.Do("replicaof", "no", "one")
	refusedFromMemory(t, l, "k")
	way.Redirect(replica.Addr)
	master.Kill()
	admittedAgain(t, l, "k", "a fail-over")
}

// The epoch stays while nothing is lost, for all proxies.
func TestEpochStays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cfg := config(s)
	cfg.KeyPrefix = "p:"
	var clients []*testStore
	for range 2 {
		clients = append(clients, newTestStore(t, cfg))
	}
	epoch := s.Do("get", "p:"+epochName)
	if epoch == "" {
		t.Fatal("there is none")
	}
	for i, c := range clients {
		first := testkit.Must(c.back.Edits(background))(t)
		if again := testkit.Must(c.back.Edits(background))(t); again != first || s.Do("get", "p:"+epochName) != epoch {
			t.Errorf("client %d: it was %q, is %q", i, first, again)
		}
	}
	s.Do("set", "p:"+epochName, "")
	s.Do("config", "set", "maxmemory", "1", "maxmemory-policy", "noeviction")
	if _, err := clients[0].back.Edits(background); err != nil {
		t.Errorf("an epoch that cannot be written: %v", err)
	}
}

// In a Cluster each range of slots has one name.
func TestEpochNames(t *testing.T) {
	for _, prefix := range []string{"", "p:"} {
		single, cluster := epochNames(prefix)
		if !slices.Equal(single, []string{prefix + epochName}) || len(cluster) != epochsOfCluster {
			t.Errorf("%q, %q", single, cluster)
		}
		for i, name := range cluster {
			if at := int(slotOf(name)) / (slots / epochsOfCluster); at != i {
				t.Errorf("%s is in range %d, want %d", name, at, i)
			}
		}
	}
}

// clusterLoses empties each node in turn.
func clusterLoses(t *testing.T, cl *cluster, l *loop) {
	r := rand.New(rand.NewPCG(13, 14))
	for i, master := range cl.masters {
		key := cl.keyAt(i, r)
		refusedFromMemory(t, l, key)
		master.Do("flushall")
		admittedAgain(t, l, key, fmt.Sprint("FLUSHALL on node ", i))
	}
}
