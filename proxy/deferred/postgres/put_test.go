package postgres

import (
	"fmt"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres/postgrestest"
)

// Puts that come while others are being written are written together, in order, and are there
// for another proxy.
func TestGroups(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t, "track_functions=all", "stats_fetch_consistency=none")
	const n = 2000
	q := openQueue(t, Config{URL: s.URL("weir", "weir")})
	var entries []deferred.Entry
	for i := range n {
		entries = append(entries, deferredtest.NewEntry(fmt.Sprint("shop", i%7)))
	}
	stored := deferredtest.PutAll(q, entries...)
	places := make(map[int]int)
	for range n {
		one := testkit.Receive(t, stored, "the end of a put")
		if one.Outcome != deferred.Accepted || one.Durability != "memory" {
			t.Fatalf("%s, durability %q, %v", one.Outcome, one.Durability, one.Err)
		}
		places[one.Position]++
	}
	if len(places) != (n+6)/7 || places[1] != 7 {
		t.Errorf("%d places, the first %d times", len(places), places[1])
	}
	if sum := s.Do("weir", "SELECT count(*) FROM weir.deferred"); sum != fmt.Sprint(n) {
		t.Errorf("%s are there", sum)
	}
	testkit.Eventually(t, "calls are counted", func() bool {
		return s.Do("weir",
			"SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'deferred_put_1'") != "0"
	})
	var calls int
	if _, err := fmt.Sscan(s.Do("weir", "SELECT calls FROM pg_stat_user_functions WHERE funcname = 'deferred_put_1'"),
		&calls); err != nil || calls > n/4 {
		t.Errorf("%d calls for %d entries, %v", calls, n, err)
	}
	again := openQueue(t, Config{URL: s.URL("weir", "weir")})
	stats := again.Stats()
	if waiting, _ := stats.Totals(); waiting != n || stats.Err != nil {
		t.Errorf("another proxy finds %d, %v", waiting, stats.Err)
	}
}
