// Package simredis is the in-memory store that the proxy uses when no shared store is configured. A
// [Table] decides like the scripts inside Redis, with the same names, the same arithmetic and the
// same expiry. A [DocumentStore] keeps the configuration that the operator changes: the limit and
// the rules.
//
// The table is divided into stripes by a hash of the name. A stripe has a lock, an open-addressed
// index, and pages of records. These contain no pointers, so a million keys cost the garbage
// collector nothing, and a decision about a known key does not allocate. Parts of a state that
// are rarely used are kept separately, by slot: the logs of sliding_log, and when a soft limit
// was exceeded. The hash has a random seed, and names are compared in full, so that clients can
// neither choose a stripe nor collide with others. In Redis the kind of limits is part of the
// name, here it is part of the state: a record is found by both, and the records of one key are
// adjacent.
//
// # At the bound
//
// The number of keys is bounded. Evicting a key would give its client a full bucket, so the table
// never evicts. At the bound, keys that are new to a rule share one overflow bucket per rule and
// kind of limits, until other keys have expired. A key that gets a separate record while the
// overflow bucket is not full starts with a copy of its state, so the change does not refill the
// key either.
package simredis
