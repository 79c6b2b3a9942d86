// Package postgres keeps the state of limits in PostgreSQL 13 or later, for proxies that
// share a database and no Redis. It decides exactly as package limit does, with the server's
// clock, in a function inside the database.
//
// # Deciding
//
// A batch of a lane is one call, one transaction and one round trip. The function take_1
// decides all of its groups and returns the states from which it started, from which package
// limit works out the same decisions. It takes an advisory lock for each key, in ascending
// order, so that no two calls can wait for each other, and reads the clock while it holds them.
// A refusal writes nothing. take_one_1 and take_many_1 do the same, faster, where a group is
// one counter of token or gcra and no other group of the batch has its key.
//
// The functions are called by the protocol's message FunctionCall, around which the server parses
// and plans nothing. Where something in between does not pass it on, and after one of them was made
// anew until its OID is known again, they are called by statements without a name. Either way nothing is kept in a session, so that a pooler may lend a connection
// to each transaction (PgBouncer with pool_mode=transaction). The functions need the isolation
// level READ COMMITTED: where the default is another, a batch is a transaction with that level.
//
// # Tables
//
// Table keys has a row for each key and kind of limits, table log the entries of
// sliding_log. They are unlogged by default: their changes are
// not written ahead, which makes them several times cheaper, and they are empty after a
// crash or the promotion of a standby, so that at most one limit more is admitted once.
// Documents and leases are logged. A transaction that is left open in the same database
// keeps PostgreSQL from removing old versions of a busy row, so that decisions become slower
// by the second; one in another database does not.
//
// # Connections
//
// A connection belongs to one goroutine, which sends one call at a time. An ask whose
// deadline passes leaves it alone until the answer comes, or for a second: then it is closed.
// One that the server has closed while it was idle is replaced before it is used.
// Nothing is sent twice but what has certainly been rolled back.
package postgres
