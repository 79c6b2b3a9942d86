package postgres

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/storetest"
)

// Proxies that start at the same moment make the tables once.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	var all sync.WaitGroup
	for range 6 {
		b := openBackend(t, Config{URL: s.URL("weir", "weir")})
		all.Go(func() {
			if err := b.Probe(background); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A role with the rights that the schema lists, and no others, does everything.
func TestRights(t *testing.T) {
	t.Parallel()
	s, owner := newWorld(t)
	s.Do("weir", `CREATE ROLE proxies LOGIN; GRANT USAGE ON SCHEMA weir TO proxies; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO proxies`)
	b := openBackend(t, Config{URL: s.URL("proxies", "weir"), Manual: true})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.query(background, "SELECT count(*) FROM weir.keys", nil); b.Classify(err).Code != "42501" {
		t.Errorf("the role reads tables: %v", err)
	}
	queue := limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 0.001})
	log := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 3, Window: 1000})
	for _, l := range []*limit.Limit{queue, log} {
		if g := decide(b, 2, l); g.Err != nil || g.Granted != 2 {
			t.Errorf("%+v", g)
		}
	}
	if !testkit.Must(b.Add(background, "r", []byte("key"), 1))(t) ||
		!testkit.Must(b.Forget(background, "r", []byte("key")))(t) {
		t.Error("nothing was edited")
	}
	if !testkit.Must(b.Lease(background, "lease", "me", time.Minute))(t) ||
		testkit.Must(owner.Lease(background, "lease", "you", time.Minute))(t) {
		t.Error("the lease is another's")
	}
	if testkit.Must(b.CompareAndSet(background, "doc", 0, []byte("{}")))(t) != 1 {
		t.Error("the document was not written")
	}
	if _, err := b.sweep(background, "keys", 0); err != nil {
		t.Error(err)
	}
	// Functions that a later version adds are for the role as well.
	s.Do("weir", "DROP FUNCTION weir.take_one_1, weir.take_many_1, weir.epoch_9")
	s.Do("weir", InstallScript("weir", Schema("weir", false)))
	if err := b.Probe(background); err != nil {
		t.Errorf("after an upgrade: %v", err)
	}
	testkit.Must(b.Edits(background))(t)
}

// What is taken and given back again and again does not keep a row any longer than its limit
// needs.
func TestGivenBackExpires(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	slow := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: .001})
	for range 30 {
		if g := decide(b, 1, slow); g.Err != nil || g.Granted != 1 {
			t.Fatalf("%+v", g)
		}
		testkit.Must(b.Add(background, "r", []byte("key"), 1))(t)
	}
	const left = "SELECT (max(expires) / 1000000)::int8 - extract(epoch FROM clock_timestamp())::int8 FROM weir.keys"
	if n, err := strconv.Atoi(s.Do("weir", left)); err != nil || n > 10_100 {
		t.Errorf("the row stays for %d s, %v; all permits are back after 10,000 s", n, err)
	}
}

// decide asks b for n requests of one key, each with a cost of 1.
func decide(b *backend, n int, l *limit.Limit) *store.Group {
	ctx, cancel := context.WithTimeout(background, b.cfg.Timeout)
	defer cancel()
	g := &store.Group{N: n, Counters: []store.Counter{{Rule: "r", Key: []byte("key"), Limit: l, Cost: 1}}}
	b.Decide(ctx, &store.Batch{Groups: []*store.Group{g}})
	return g
}

func TestSharedState(t *testing.T) {
	t.Parallel()
	s := testkit.Must(New(Config{URL: postgrestest.Start(t).URL("weir", "weir")}))(t)
	t.Cleanup(s.Close)
	storetest.Documents(t, s)
	storetest.Leases(t, s)
}

// The mark of a document changes when it is written, and those of others do not.
func TestMarks(t *testing.T) {
	t.Parallel()
	_, b := newWorld(t)
	names := []string{"a", "b"}
	before := testkit.Must(b.Marks(background, names))(t)
	for i, step := range []struct{ version, written int64 }{{1, 0}, {0, 1}, {0, 0}, {1, 2}} {
		if got := testkit.Must(b.CompareAndSet(background, "a", step.version, []byte("{}")))(t); got != step.written {
			t.Fatalf("step %d: version %d, want %d", i, got, step.written)
		}
		after := testkit.Must(b.Marks(background, names))(t)
		if (after[0] != before[0]) != (step.written > 0) || after[1] != before[1] {
			t.Errorf("step %d: marks were %q, are %q", i, before, after)
		}
		before = after
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	_, b := newWorld(t)
	before := testkit.Must(b.Edits(background))(t)
	for range 2 {
		testkit.Must(b.Forget(background, "r", nil))(t)
		after := testkit.Must(b.Edits(background))(t)
		if after == before {
			t.Errorf("after an edit the count is %q as before, want another", after)
		}
		before = after
	}
}

// What has expired is removed, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	b := openBackend(t, Config{URL: s.URL("weir", "weir")})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	s.Do("weir", `INSERT INTO weir.keys SELECT i::text::bytea, 1, 0, 0, 0, 0, 0, CASE WHEN i % 2 = 0 THEN 1 ELSE 9000000000000000 END FROM generate_series(1, 20000) i`)
	s.Do("weir", `INSERT INTO weir.log SELECT 'x', i, i, CASE WHEN i % 2 = 0 THEN 1 ELSE 9000000000000000 END FROM generate_series(1, 20000) i`)
	testkit.Eventually(t, "both tables are swept", func() bool {
		return s.Do("weir", "SELECT (SELECT count(*) FROM weir.keys WHERE expires = 1) + (SELECT count(*) FROM "+
			"weir.log WHERE expires = 1)") == "0"
	})
	if left := s.Do("weir",
		"SELECT (SELECT count(*) FROM weir.keys WHERE expires > 1) + (SELECT count(*) FROM weir.log)"); left != "20000" {
		t.Errorf("%s rows are left, want 20000", left)
	}
}

// A call that has read the clock just before a sweep still finds the entries that were in the
// window then: like rows of keys they stay for longer than they count.
func TestSweepAfterClock(t *testing.T) {
	t.Parallel()
	const window = 3600
	var now int64
	s := postgrestest.Start(t)
	b := openBackend(t, Config{URL: s.URL("weir", "weir"), Connections: 1, clock: func() int64 { return now }})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	log := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 1, Window: window})
	for range 20 { // a machine that is busy may let more time pass than an entry stays
		began := time.Now()
		now = began.UnixMicro() - window*1e6 // it leaves the window at once
		testkit.Must(b.Forget(background, "r", []byte("key")))(t)
		if g := decide(b, 1, log); g.Err != nil || g.Granted != 1 {
			t.Fatalf("%d granted, %v", g.Granted, g.Err)
		}
		testkit.Must(b.sweep(background, "log", 0))(t)
		swept := time.Now()
		now += window*1e6 - 1
		g := decide(b, 1, log)
		switch {
		case g.Err != nil:
			t.Fatal(g.Err)
		case g.Granted == 0:
			return
		case swept.Sub(began) < time.Second/2:
			t.Fatal("the sweep has taken an entry from a call that had read the clock before")
		}
	}
	t.Error("no attempt was fast enough")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := openBackend(t, Config{URL: postgrestest.Start(t).URL("weir", "weir")})
	s := lane.New(b, lane.Config{Name: "postgres", Title: "PostgreSQL", Timeout: testkit.Timeout, Locking: true})
	t.Cleanup(s.Close)
	storetest.Refusals(t, s)
}
