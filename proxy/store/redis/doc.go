// Package redis is a store that any number of proxies share: a Redis server, one
// monitored by Sentinels, or a Redis Cluster. It decides exactly like package limit, by
// the server's clock, in scripts that run inside Redis. It is a [store.Backend] for
// package store/lane, which has everything that is not specific to Redis.
//
// # Asking
//
// A batch is one call of the script (in a Cluster one per slot), or a few if its groups have
// more than 128 counters, in one pipeline together with its refunds.
//
// # Keys
//
// The state of a key within a rule has a name for each kind of limits,
//
//	<prefix>ratelimiter:11:per-partner{4:acme}fixed:60000000
//
// with the lengths of the rule's id and of the key. Parts longer than 128 bytes are replaced
// by a digest. The kind is the algorithm and, if there is one, the window in microseconds:
// proxies that disagree about it do not overwrite each other's states, and admit at most the
// sum of their limits. ratelimiter:kinds lists the kinds in use, at most 1,024, because
// edits concern all names of a key.
//
// # What a key holds
//
// A string: the bytes of limit.State.Append, 32 for most keys. A log is a string too, with
// 14 bytes for each instant in the window at which something was admitted, and at most as
// many older ones. The script reads only the entries that it needs, and appends. On Redis 7
// that takes as long as a sorted set of the instants, in less than half of the memory, and
// it counts permits.
//
// # Documents
//
// The configuration that proxies share is kept in documents of up to 4 MiB. They have a
// separate connection, so that a slow transfer or a failure does not delay decisions. The
// mark of a document is its length and its first bytes, which differ in every version.
//
// # When Redis is unavailable
//
// A connection error is an outage, and so is an error that says that the server cannot decide.
// The outage ends when a script can write again, and the key that the last error was about can be
// read.
//
// # Cluster
//
// With [Auto] the topology is detected when a connection is made, and again when a single
// server has turned out to be a node of a Cluster. One address is enough, because nodes
// report the others.
//
// The keys of one call must be in one slot. Therefore the value of a key is the hash tag of its
// name, and rules with the same key share a slot. A group with several slots is asked slot by
// slot. If a later slot grants fewer requests than an earlier one, the difference is refunded to
// the earlier one. In the meantime another request may be refused. A token or gcra key is
// refunded at most what it cannot have refilled since the charge, so that one batch never makes
// it admit more than its limit. While several batches refund permits to a key, its burst may be
// exceeded by at most what they refund. If one node of a Cluster is unavailable, the store is
// unavailable.
//
// # Rights
//
// docs/stores.md lists the rights that an ACL user of the proxy needs. A test runs everything
// with exactly these. Scripts require Redis 5 or later, or a compatible server.
//
// # Fail-over
//
// Replication is asynchronous: a fail-over may lose the latest charges, so that as many
// requests are admitted again.
//
// After a timeout nothing is sent again, because the script may have run; only NOSCRIPT is answered
// with the script's text.
//
// [store.Backend.Edits] returns a text that changes whenever keys may have been edited or lost.
// It contains the number of connections made, and a random text that is stored beside the keys,
// under ratelimiter:epoch, and lost with them.
package redis
