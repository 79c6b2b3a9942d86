package main

import (
	"time"

	"weir/proxy/admin"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/sketch"
	"weir/proxy/store/redis"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
)

// A keyStore edits single keys where they are counted.
type keyStore struct {
	front    *wire.Front
	table    *simredis.Table
	shared   *redis.Client // nil: the table decides
	policies *admin.Policies
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
	l := k.limitOf(id, key)
	if l == nil || l.Algorithm() == limit.Leaky || l.Algorithm() == limit.Off {
		return false, nil // it has no limit, or a queue, in which nobody can be given a place
	}
	if k.shared == nil {
		return k.table.Add(k.front.Steady(time.Now()), id, key, l, n), nil
	}
	return k.shared.Add(id, key, l, n)
}

// limitOf is the limit in force for a key; nil when there is none.
func (k *keyStore) limitOf(id string, key []byte) *limit.Limit {
	p := k.policies.Policy()
	if id == rule.Global {
		return &p.Limit
	}
	for i := 0; p.Rules != nil && i < p.Rules.Len(); i++ {
		if p.Rules.Rule(i).ID == id {
			return p.Rules.LimitOf(i, key)
		}
	}
	return nil
}
