// Package store is the contract between the proxy and whatever keeps the states
// of its keys: the embedded table of store/simredis, a Redis, or others.
//
// One [Ask] in, one [Answer] out. An ask is a group of counters that are decided
// together, and the number of requests which wait for exactly that group. A
// request goes when every counter of the group admits it; when any refuses,
// nothing is charged to any. The answer is exactly the one that single asks, one
// after the other at the same instant, would give: the suite in store/storetest
// holds every store to that.
package store
