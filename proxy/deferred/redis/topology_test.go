package redis

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
)

// delivers wants an entry of a line to be stored, claimed and settled.
func delivers(t *testing.T, q *Queue, line string) {
	t.Helper()
	e := accepts(t, q, line)
	c := claims(t, q)
	if err := deferredtest.Settle(t, q, c, deferred.Done); err != nil || c.Entry.ID != e.ID {
		t.Errorf("claimed %s, want %s, settled: %v", c.Entry.ID, e.ID, err)
	}
}

// In a Cluster the queue is on one node, whichever proxies know of. When that is killed, its replica
// has what was accepted.
func TestCluster(t *testing.T) {
	t.Parallel()
	masters, replica := redistest.StartCluster(t)
	slot := testkit.Must(strconv.Atoi(masters[0].Do("cluster", "keyslot", namespace+"about")))(t)
	home := masters[slot*len(masters)/redistest.Slots]
	other := masters[(slices.Index(masters, home)+1)%len(masters)]
	replica.Follow(home)
	rights := documentedRights(t)
	for _, s := range append(masters[:3:3], replica) {
		s.Do(append([]string{"acl", "setuser", "weir"}, rights...)...)
	}
	log := new(testkit.Log)
	a := openedAs(t, Config{Redis: redis.Config{Addrs: []string{other.Addr()}, Username: "weir", Password: "secret"},
		Log: log.Logger()})
	b := openedAs(t, Config{Redis: redis.Config{Addrs: []string{home.Addr(), other.Addr()}, Topology: redis.Cluster,
		Username: "weir", Password: "secret"}, Log: new(testkit.Log).Logger()})
	delivers(t, a, "a")
	if d := a.Stats().Durability; d != "memory" {
		t.Errorf("durability %q", d)
	}
	kept := accepts(t, b, "kept")
	testkit.Eventually(t, "the other proxy sees it",
		func() bool { _, position, err := a.Read(t.Context(), kept.ID); return err == nil && position == 1 })
	replica.Followed(home)
	used := ""
	for _, s := range masters {
		used += s.Do("info", "commandstats")
		if refused := s.Do("acl", "log"); refused != "" {
			t.Errorf("refused: %s", refused)
		}
	}
	if !strings.Contains(used, "cmdstat_cluster|slots:") && !strings.Contains(used, "cmdstat_cluster|shards:") {
		t.Errorf("the rights for a Cluster are not used: got %s, want cluster|slots or cluster|shards", used)
	}
	home.Kill()
	testkit.Eventually(t, "the node is missed",
		func() bool { return deferredtest.Put(a, order("b")).Outcome == deferred.Unstored })
	for _, q := range []*Queue{a, b} {
		accepts(t, q, "again")
	}
	survived(t, a, kept.ID, log)
}

// survived wants the entry kept to be the next one that is claimed, without an attempt, and the
// fail-over to be logged once.
func survived(t *testing.T, q *Queue, kept deferred.ID, log *testkit.Log) {
	t.Helper()
	if c := claims(t, q); c.Entry.ID != kept || c.Entry.Attempts != 0 {
		t.Errorf("claimed %s after %d attempts, want %s", c.Entry.ID, c.Entry.Attempts, kept)
	}
	if log.Count("Queue cannot be written") != 1 || log.Count("Queue writes again") != 1 || log.Count("lost entries") > 0 {
		t.Errorf("logged\n%s", log)
	}
}

// Sentinels say which server has the queue; after a fail-over it goes on with what was replicated.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel, log := redistest.StartSentinel(t, master, replica), new(testkit.Log)
	q := openedAs(t, Config{Redis: redis.Config{Addrs: []string{sentinel.Addr()}, SentinelMaster: "weir"},
		Log: log.Logger()})
	delivers(t, q, "a")
	kept := accepts(t, q, "kept")
	replica.Followed(master)
	master.Kill()
	testkit.Eventually(t, "the master is missed",
		func() bool { return deferredtest.Put(q, order("b")).Outcome == deferred.Unstored })
	accepts(t, q, "again")
	survived(t, q, kept.ID, log)
}

// The queue works over TLS. With an authority that is not trusted nothing is stored, and the log says why.
func TestTLS(t *testing.T) {
	t.Parallel()
	_, addr, certFile, _ := redistest.StartTLS(t)
	var q *Queue
	var log *testkit.Log
	put := func(authority string) (st deferred.PutResult) {
		testkit.Eventually(t, "a handshake ends within the second that a busy machine may need", func() bool {
			log = new(testkit.Log)
			q = openedAs(t, Config{Redis: redis.Config{Addrs: []string{addr}, TLS: true, TLSCAFile: authority},
				Log: log.Logger()})
			st = deferredtest.Put(q, order("a"))
			return log.Count("did not answer the TLS handshake") == 0
		})
		return st
	}
	if st := put(certFile); st.Outcome != deferred.Accepted || log.Count("ERROR") > 0 {
		t.Errorf("%s, logged\n%s", st.Outcome, log)
	}
	if err := deferredtest.Settle(t, q, claims(t, q), deferred.Done); err != nil {
		t.Errorf("settled: %v", err)
	}
	if st := put(""); st.Outcome != deferred.Unstored || log.Count("certificate signed by unknown authority") != 1 {
		t.Errorf("%s without knowing the authority, logged\n%s", st.Outcome, log)
	}
}
