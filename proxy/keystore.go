package main

import (
	"time"

	"weir/proxy/sketch"
	"weir/proxy/store/redis"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
)

// A keyStore edits single keys where they are counted.
type keyStore struct {
	front  *wire.Front
	table  *simredis.Table
	shared *redis.Client // nil: the table decides
}

// Top tells which keys of a rule were seen and refused most.
func (k *keyStore) Top(id string) (busiest, refused sketch.View) { return k.front.Top(id) }

// Forget makes a key as one never seen.
func (k *keyStore) Forget(id string, key []byte) (bool, error) {
	if k.shared == nil {
		return k.table.Forget(id, key), nil
	}
	return k.shared.Forget(id, key)
}

// Add gives a key n permits back.
func (k *keyStore) Add(id string, key []byte, n int64) (bool, error) {
	if k.shared == nil {
		return k.table.Add(k.front.Steady(time.Now()), id, key, n), nil
	}
	return k.shared.Add(id, key, n)
}
