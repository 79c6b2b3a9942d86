// Package redis keeps deferred requests in Redis, for any number of proxies. Each proxy delivers
// requests stored by any of them.
//
// # Scripts
//
// All operations are Lua scripts, so that each change of an entry with its line, its counters
// and the bounds is atomic; lua/common.lua lists the keys. Pending puts and settlements are sent
// in one pipeline, in calls of at most 64 entries. Redis runs other commands between the calls.
//
// All keys have one hash tag. The bounds on entries, bytes, clients and lines hold for all rules
// together, and one call stores entries of several rules. So in a Cluster the queue is on one
// node, and is bounded by that node's memory.
//
// # Time
//
// Leases and due times follow the server's clock: scripts take and return times relative to now.
// The clocks of the proxies may differ by any amount. If the server's clock is set back, the
// queue's clock continues from its latest time.
//
// # Missing answers
//
// A script without an answer may have run, or may run later, when a stopped server continues.
// Puts and claims therefore contain the time until which they may run. Without an answer, a put
// is reported as Unstored and removed as soon as the server answers, a claim is given back, and a
// settlement is repeated until it is answered. A settlement takes effect once.
//
// # Durability
//
// An entry is as durable as the server's configuration makes it, see [Queue.Stats]. With
// appendfsync always it survives a crash of the server. If a crash interrupts a write to the AOF,
// Redis (7.0.15) may cut the AOF inside the last transaction. At the next restart it then
// executes the commands before the cut, which are a part of a call that was not answered, so a
// put that was reported as Unstored may come back. redis-check-aof --fix cuts before the
// transaction. Replication is asynchronous: a fail-over may lose the latest changes. Then entries
// just accepted are lost, and entries just delivered are delivered again. A server that is
// emptied, or evicts keys, loses entries.
package redis

import (
	"embed"

	"weir/proxy/store/redis"
)

//go:embed lua
var lua embed.FS

// scripts are the scripts of a queue.
//
// Immutable after newScripts.
type scripts struct {
	put, claim, settle, renew, edit, pause, read, list, stats, known *redis.Script
}

func newScripts() scripts {
	with := func(name string) *redis.Script { return redis.NewScript(redis.ScriptSource(lua, "common", name)) }
	return scripts{
		put: with("put"), claim: with("claim"), settle: with("settle"), renew: with("renew"), edit: with("edit"),
		pause: with("pause"), read: with("read"), list: with("list"), stats: with("stats"), known: with("known"),
	}
}
