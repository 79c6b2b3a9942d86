package redis

import (
	"strconv"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
)

// Final entries of an earlier version, which are not counted in the share of their client, do not
// make others count less when they leave. What the server has lost does not count for ever.
func TestKeptOfEarlierVersion(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	limits := deferred.Limits{Entries: 100, Bytes: 100_000, Share: 0.1, DeadKeep: time.Hour}
	cfg := Config{Redis: redis.Config{Addrs: []string{s.Addr()}}, Limits: limits, patience: testkit.Timeout}
	q := testkit.Must(Open(cfg))(t)
	t.Cleanup(func() { _ = q.Close() })
	fail := func(bytes int) *deferred.Entry {
		t.Helper()
		e := deferredtest.NewEntry("shop")
		e.Body = make([]byte, bytes)
		deferredtest.PutAccepted(t, q, e)
		var claimed []deferred.ClaimedEntry
		testkit.Eventually(t, "the entry is claimed", func() bool {
			claimed, _, _ = q.Claim(t.Context(), time.Now(), 1)
			return len(claimed) == 1
		})
		if err := deferredtest.Settle(t, q, claimed[0], deferred.Failed); err != nil {
			t.Fatal(err)
		}
		return &e
	}
	name := q.codec.seal.Client(fail(10))
	client, base := string(name[:]), namespace
	kept := func() int64 {
		t.Helper()
		text, err := s.Try("HGET", base+"clients.f", client)
		n, _ := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	old := fail(1000)
	s.Do("DEL", base+"f:"+client, base+"clients.f")
	e := fail(100)
	want := kept()
	if want < e.Size() {
		t.Fatalf("%d bytes are counted of an entry of %d", want, e.Size())
	}
	if _, err := q.Edit(t.Context(), time.Now(), deferred.Edit{Action: deferred.Drop, ID: old.ID}); err != nil {
		t.Fatal(err)
	}
	if got := kept(); got != want {
		t.Errorf("after one that was not counted has left, %d bytes are counted, want %d", got, want)
	}
	s.Do("HSET", base+"clients.f", client, "90000")
	if e := fail(100); kept() != e.Size() {
		t.Errorf("%d bytes are counted of an entry of %d", kept(), e.Size())
	}
}
