// Package simredis is the store that the proxy uses when no shared store is configured: a
// table of keys in memory that decides like the scripts inside Redis, with the same
// names, the same arithmetic and the same expiry.
//
// The table is cut into stripes by a hash of the name; a stripe is a lock, an
// open-addressed index, and pages of records. Nothing in them is a pointer, so
// that a million keys cost the garbage collector nothing, and deciding on a key
// that exists allocates nothing. What few states have is kept beside, by slot: the
// logs of sliding_log, which take memory as they grow, and when a soft limit was
// exceeded. The hash is seeded at
// random and names are compared in full: a client can neither aim at a stripe nor
// collide with another. The kind of limits, which a script has in the name, is a part
// of the state: a record is found by both, and the records of one key are neighbours.
//
// # At the bound
//
// The number of keys is bounded. To evict one would hand its client a full
// bucket, so the table never evicts: at the bound, keys that are new to a rule
// share one overflow bucket of the rule and kind of limits, until others have expired. A key which
// gets a place of its own while that bucket is not as new starts from what the
// bucket has consumed, so that to leave it is no refill either.
package simredis
