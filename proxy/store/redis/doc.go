// Package redis is a store that any number of proxies share: a Redis server, one
// monitored by Sentinels, or a Redis Cluster. It decides exactly like package limit, by
// the server's clock, in scripts that run inside Redis. It is a [store.Backend] for
// package store/lane, which has everything that is not specific to Redis.
//
// # Asking
//
// A batch is one call of the script (in a Cluster one for each slot), or a few when its
// groups have more than 128 counters, in one pipeline with the places in queues that are
// given back.
//
// # Keys
//
// The state of a key within a rule has a name for each kind of limits,
//
//	<prefix>ratelimiter:11:per-partner{4:acme}fixed:60000000
//
// with the length of the rule's id and of the key's value before them; of parts longer
// than 128 bytes a digest is there. The kind is the algorithm and, where there is one,
// the window in microseconds: proxies that disagree about it do not write over each
// other, and admit at most the sum of their limits. ratelimiter:kinds lists the kinds
// that some proxy asks about, at most 1,024, for edits are about all names of a key.
//
// # What a key holds
//
// A string: the bytes of limit.State.Append, 32 for most keys. A log is one string,
// too, of 14 bytes for each instant in the window at which something was admitted, and
// at most as many that have left it. The script reads the few entries that it needs,
// and appends: measured on Redis 7 that takes as long as a sorted set of the instants,
// in less than half of the memory, and it counts permits.
//
// # Documents
//
// The configuration that all proxies share is kept in documents of up to 4 MiB. They are
// read and written over a connection of their own, so that neither a slow transfer nor
// a failure there delays a decision. The mark of a document is its length and first
// bytes, which differ in every version.
//
// # When Redis is unavailable
//
// A connection error is an outage, as is an error by which the server says that it cannot
// decide. It is over when a script may write again, and the key about which the last error
// was can be looked at.
//
// # Cluster
//
// With [Auto] the server is asked what it is when a connection is made, and again when a
// single server has turned out to be a node of a Cluster. One address that leads to a
// Cluster is enough, as its nodes tell the others'.
//
// The keys of one call must lie in one slot, so the value of the key is the hash tag of a
// name: rules with the same key meet. A group over several slots is asked slot by slot,
// and what an earlier slot granted beyond what a later one does is given back: for that
// moment a neighbour may be refused, and never are too many admitted. If one node of a
// cluster is unavailable, the store is.
//
// # Rights
//
// docs/stores.md has the rights of an ACL user; TestRights runs everything with exactly
// these. Scripts require Redis 5 or later, or a compatible server.
//
// # What Redis cannot promise
//
// Replication is asynchronous: a fail-over may forget what was charged in the
// moments before, so that up to that many requests are admitted once more.
package redis
