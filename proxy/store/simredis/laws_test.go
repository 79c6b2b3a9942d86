package simredis

import (
	"testing"

	"weir/proxy/store"
	"weir/proxy/store/storetest"
)

// open returns a way to open tables of that size.
func open(cfg Config) storetest.Open {
	return func(t testing.TB) storetest.Store {
		table, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		clock := storetest.NewClock()
		return storetest.Store{
			Take:    func(ask *store.Ask, ans *store.Answer) { table.Take(clock.Now(), ask, ans) },
			Release: func(c *store.Counter, slot int64) bool { return table.Release(clock.Now(), c, slot) },
			Add: func(rule string, key []byte, n int64) bool {
				return table.Add(clock.Now(), rule, key, n)
			},
			Forget:  func(rule string, key []byte) { table.Forget(rule, key) },
			Now:     clock.Now,
			Advance: clock.Advance,
		}
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, open(Config{Stripes: 4}))
}

// With one stripe all keys of a group are under one lock.
func TestStoreOfOneStripe(t *testing.T) {
	storetest.Differential(t, open(Config{Stripes: 1}), storetest.Naive, 5)
}
