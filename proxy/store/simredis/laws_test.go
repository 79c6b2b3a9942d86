package simredis

import (
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store/storetest"
)

// open returns a way to open tables of that size.
func open(cfg Config) storetest.Open {
	return func(t testing.TB) storetest.Store {
		return storetest.Timed(testkit.Must(New(cfg))(t))
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, open(Config{Stripes: 4}))
}

// With one stripe all keys of a group are under one lock.
func TestStoreOfOneStripe(t *testing.T) {
	storetest.Differential(t, open(Config{Stripes: 1}), storetest.Naive, 5)
}

func TestRefusals(t *testing.T) {
	s := testkit.Must(NewStore(Config{}))(t)
	t.Cleanup(s.Close)
	storetest.Refusals(t, s)
}
