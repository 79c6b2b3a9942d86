// Package store is the contract between the proxy and whatever keeps the states
// of its keys: the embedded table of store/simredis, a Redis, or others. A [Store] is
// what the proxy uses, and a [Backend] what a database has to do so that store/lane can
// make a Store of it.
//
// One [Ask] in, one [Answer] out. An ask is a group of counters that are decided
// together, and the number of requests which wait for exactly that group. A
// request goes when every counter of the group admits it; when any refuses,
// nothing is charged to any. The answer is exactly the one that single asks, one
// after the other at the same instant, would give: the suite in store/storetest
// holds every store to that.
//
// A counter may be a queue (leaky). Then a request that goes has booked a place in it
// and leaves when its slot has come: it waits for [Answer.Delay]. When its client goes
// away before, every store has a Release, which gives the place back if it is the
// last; the others stay booked, as those behind were told when they leave.
package store
