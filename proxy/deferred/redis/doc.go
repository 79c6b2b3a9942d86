// Package redis keeps deferred requests in Redis, for any number of proxies: each delivers
// what any of them has stored.
//
// # Scripts
//
// Everything is done by Lua scripts, so that each change of an entry with its line, its counters
// and the bounds is one step; lua/common.lua lists the keys. Puts and settlements that wait go in
// one pipeline, in calls of at most 64 entries, between which Redis serves others.
//
// All keys have one hash tag. The bounds on entries, bytes, clients and lines hold for all rules
// together, and one call stores entries of several rules, so in a Cluster the queue is on one
// node; it can be no larger than that node's memory.
//
// # Time
//
// Leases and when entries are due follow the server's clock: scripts take and return times relative to now. The clocks of the proxies may differ by any amount. When the server's clock is set back, the
// queue's clock goes on from where it was.
//
// # What was not answered
//
// A script whose answer does not come may have run, or may run later, when a server that was
// stopped goes on. Puts and claims therefore say until when they may run. A put that is answered
// Unstored is taken out again as soon as the server answers, and a claim is given back; a
// settlement is repeated until it is answered, and succeeds once.
//
// # What is promised
//
// An entry is as durable as the server makes it, see [Queue.Stats]: with appendfsync always it
// survives a crash of the server. Replication is asynchronous: a fail-over may forget the last
// moments, so that what was accepted then is lost, and what was delivered then is delivered
// again. A server that is emptied, or evicts keys, loses entries.
package redis

import (
	_ "embed" // the scripts

	"weir/proxy/store/redis"
)

//go:embed lua/common.lua
var commonLua string

//go:embed lua/put.lua
var putLua string

//go:embed lua/claim.lua
var claimLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/edit.lua
var editLua string

//go:embed lua/pause.lua
var pauseLua string

//go:embed lua/read.lua
var readLua string

//go:embed lua/list.lua
var listLua string

//go:embed lua/stats.lua
var statsLua string

// scripts are all that a queue runs.
//
// Immutable after newScripts.
type scripts struct {
	put, claim, settle, renew, edit, pause, read, list, stats *redis.Script
}

func newScripts() scripts {
	with := func(source string) *redis.Script { return redis.NewScript(commonLua + source) }
	return scripts{
		put: with(putLua), claim: with(claimLua), settle: with(settleLua), renew: with(renewLua), edit: with(editLua),
		pause: with(pauseLua), read: with(readLua), list: with(listLua), stats: with(statsLua),
	}
}
